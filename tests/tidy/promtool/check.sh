#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks deploy/monitoring with promtool: the rules, and their cases.
#
#   check.sh FOLDER   FOLDER keeps promtool (get.sh)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mkdir -p "${1:?the folder to unpack promtool into}" && cd "$1" && pwd)
cd "$here/../../.."

promtool=$("$here/get.sh" "$folder")
"$promtool" check rules deploy/monitoring/alerts.yaml
"$promtool" test rules deploy/monitoring/alerts_test.yaml
