// SPDX-License-Identifier: Apache-2.0
//
// The table of the gateway's unary methods.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <span>

#include "absl/status/status.h"

#include "server/api/request_limits.h"
#include "server/rpc/methods.h"

namespace duetime::gateway {

// All unary methods of the API, but those that concern one machine: backups and HandOver.
std::span<const rpc::UnaryMethod> UnaryMethods();

// Parses a batch. Checks its size before it spends memory on it. BATCH_TOO_LARGE.
absl::Status ParseBatch(const api::RequestLimits& limits, grpc::ByteBuffer* buffer,
                        google::protobuf::Message* request);

}  // namespace duetime::gateway
