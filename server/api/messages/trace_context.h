// SPDX-License-Identifier: Apache-2.0
//
// The W3C trace context of a call, which its messages keep until their deliveries.
#pragma once

#include <grpcpp/server_context.h>
#include <span>
#include <string>

#include "absl/strings/string_view.h"

#include "server/api/request_limits.h"
#include "server/rpc/call.h"
#include "storage/message_record.h"

namespace duetime::api {

// Both empty: the call has none. Otherwise `state` may be empty.
struct TraceContext {
  std::string parent;
  std::string state;
};

// Checks the values of the headers by https://www.w3.org/TR/trace-context. Ignores all without
// exactly one valid `traceparent`, and ignores `tracestate` if it is malformed or longer than 512
// bytes. Several values of `tracestate` are one list.
TraceContext ParseTraceContext(std::span<const absl::string_view> parents,
                               std::span<const absl::string_view> states);

// The trace context of the metadata of a call or a stream. REQUIRES: it has arrived.
TraceContext TraceContextOf(const rpc::Call& call);
TraceContext TraceContextOf(const grpc::ServerContext& stream);

// Appends the attributes traceparent and tracestate. Appends neither if `attributes` has one of
// these names, and leaves out what exceeds the limits. The views point into `trace`.
void AddTraceContext(const TraceContext& trace, const RequestLimits& limits,
                     storage::MessageRecord::Pairs* attributes);

}  // namespace duetime::api
