#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the protos with buf: the lint rules of proto/buf.yaml, and that nothing changed incompatibly since the last release.
#
#   check.sh FOLDER   installs buf into FOLDER unless it is there, by the lock file beside this script; that needs the network
#
# proto/released.binpb is the protos of the last release. It is made when a release is:
#   FOLDER/buf build proto --exclude-source-info -o proto/released.binpb
# Until the first release there is none, and the protos may change.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?the folder to install buf into}
cd "$here/../../.."

if [[ ! -x $folder/buf ]] || ! cmp --quiet "$here/package-lock.json" "$folder/installed.json"; then
  mkdir -p "$folder"
  cp "$here"/package{,-lock}.json "$folder"
  # The program is in the package of the platform. No script of a package is run.
  npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
  # npm leaves out an optional package that it cannot get, or that is for another platform, without an error.
  program=$(compgen -G "$folder/node_modules/@bufbuild/buf-linux-*/bin/buf") || {
    echo "check.sh: npm has installed no buf for $(uname -sm)" >&2
    exit 1
  }
  ln -sf "${program#"$folder"/}" "$folder/buf"
  cp "$here/package-lock.json" "$folder/installed.json"
fi

"$folder/buf" lint proto
if [[ -f proto/released.binpb ]]; then
  "$folder/buf" breaking proto --against proto/released.binpb
else
  echo "no release yet: nothing to compare with"
fi
