#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds, checks and tests what is written in another language than C++, with the tools of that language. Needs the network for
# what the lock files name, and the daemon: that of build/release, or DUETIMED.
#
#   tests/clients.sh go|java|node|python|console|peers|site
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# For the tests of the test servers, which each library has.
export DUETIMED=${DUETIMED:-$PWD/build/release/server/duetimed}

# Runs a command that downloads, and once more if it fails, because a registry may fail once.
twice() {
  "$@" || {
    sleep 15
    "$@"
  }
}

go_module() {
  cd "$1"
  twice go mod download
  test -z "$(gofmt -l .)"
  go vet ./...
  go test ./...
}

case ${1:?what} in
  go) go_module client/go ;;
  # The program of tests/bench/peers.sh, without its servers.
  peers) go_module tests/bench/peers ;;
  java)
    cd client/java
    twice mvn -q -B -DskipTests verify
    mvn -q -B verify
    ;;
  node)
    cd client/node
    twice npm ci
    npm run build
    npm test
    ;;
  python)
    cd client/python
    python3 -m venv --clear .venv
    # The examples of FIRST_CLIENT.md are for a Python without the library.
    twice .venv/bin/pip install --quiet -r requirements-dev.txt
    .venv/bin/python ../../tests/tidy/first_client_test.py ../.. ../../build/release/server/duetimed
    twice .venv/bin/pip install --quiet .
    .venv/bin/mypy
    .venv/bin/python -m pytest -q
    ;;
  # The page, and the program that tests it in a browser.
  console)
    cd client/console
    twice npm ci
    npm run build
    node build.js --tests
    ;;
  # The site, whose commands tests/integration/tour_test.py types.
  site)
    python3 -m venv --clear build/site/venv
    twice build/site/venv/bin/pip install --quiet --require-hashes -r deploy/site/requirements.txt
    # Without --quiet, which would hide the warnings from --strict.
    NO_MKDOCS_2_WARNING=1 build/site/venv/bin/mkdocs build --strict -f deploy/site/mkdocs.yml
    ;;
  *)
    echo "clients.sh: $1 is nothing of these" >&2
    exit 2
    ;;
esac
