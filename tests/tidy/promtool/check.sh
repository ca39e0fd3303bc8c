#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks deploy/monitoring with promtool: the rules, and their cases.
#
#   check.sh FOLDER   uses the promtool of this machine, or unpacks that of Debian's package prometheus into FOLDER, which needs
#                     the network. The package itself would bring a server that starts by itself
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?the folder to unpack promtool into}
cd "$here/../../.."

promtool=$(command -v promtool || echo "$folder/usr/bin/promtool")
if [[ ! -x $promtool ]]; then
  mkdir -p "$folder"
  (
    cd "$folder"
    get=(apt-get download --quiet=2 -o APT::Sandbox::User=root prometheus)
    # The lists of packages may be missing.
    "${get[@]}" || { apt-get update --quiet=2 && "${get[@]}"; }
    dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb
  )
fi
"$promtool" check rules deploy/monitoring/alerts.yaml
"$promtool" test rules deploy/monitoring/alerts_test.yaml
