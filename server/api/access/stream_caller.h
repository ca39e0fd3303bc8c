// SPDX-License-Identifier: Apache-2.0
//
// StreamCaller: the client of a stream, whose rights may change while the stream lasts.
#pragma once

#include <grpcpp/server_context.h>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/access/access_control.h"
#include "server/api/serving_context.h"
#include "server/base/clock.h"
#include "server/metrics/rpc_stats.h"

namespace duetime::api {

// Thread safety: confined to the stream's thread.
class StreamCaller {
 public:
  explicit StreamCaller(ServingContext* context) : context_(context) {}
  ~StreamCaller();
  StreamCaller(const StreamCaller&) = delete;
  StreamCaller& operator=(const StreamCaller&) = delete;

  // Authenticates the client, and counts the stream against its quota. UNAUTHENTICATED
  // INVALID_CREDENTIALS, RESOURCE_EXHAUSTED QUOTA_EXCEEDED. Call it once.
  absl::Status Open(const grpc::ServerContext& stream);
  // Authenticates the client again if its credential has expired or the access files have changed.
  // Call it about once a second. UNAUTHENTICATED INVALID_CREDENTIALS.
  absl::Status Recheck(const base::Now& now);
  // The same, and then PERMISSION_DENIED ACCESS_DENIED if the client may not do this any more. An
  // empty topic: the stream has none yet.
  absl::Status Recheck(const base::Now& now, access::Verb verb, absl::string_view topic);

  // Writes to the audit log that the stream ends with `status`, if that is a refusal.
  void AuditEnd(metrics::RpcMethod method, const std::string& topic, const absl::Status& status);

  // Null: access control is off. REQUIRES: Open returned OK.
  const access::CallerPtr& caller() const { return caller_; }

 private:
  ServingContext* const context_;
  access::Credentials credentials_;
  access::CallerPtr caller_;
  // The client's meter counts this stream.
  std::shared_ptr<const access::Caller> counted_;
};

}  // namespace duetime::api
