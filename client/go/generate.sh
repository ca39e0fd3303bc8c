#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes duetimepb/ from the protos. Needs Go and protoc 3.21 or later. Run it after a change of the protos.
set -eu
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN="$tools" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.33.0
GOBIN="$tools" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.3.0
module=github.com/duetime/duetime/client/go
# The option go_package of the protos names the package duetimepb of this module.
PATH="$tools:$PATH" protoc -I ../../proto --go_out=. --go_opt=module=$module --go-grpc_out=. --go-grpc_opt=module=$module \
  ../../proto/duetime/v1/*.proto
