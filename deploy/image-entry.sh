#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the image runs: the daemon with the flags that follow the image's name, or `dev` and the options of `duetime dev`.
set -eu
if [ "${1:-}" = dev ]; then
  shift
  # Browsers name the port that they use, so one that is published as another needs a --console of its own.
  case " $*" in *" --console"*) ;; *) set -- --console=0.0.0.0:7790 "$@" ;; esac
  # The ports of a container are closed until `docker run -p` opens them, to the addresses that it names.
  exec duetime dev --listen=0.0.0.0:7788 --listen=unix:/tmp/duetime.sock --insecure-nonloopback "$@"
fi
exec duetimed --data-dir=/var/lib/duetime --listen=unix:/tmp/duetime.sock "$@"
