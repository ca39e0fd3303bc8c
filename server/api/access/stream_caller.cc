// SPDX-License-Identifier: Apache-2.0
#include "server/api/access/stream_caller.h"

#include <utility>

#include "server/api/access/authorization.h"
#include "server/api/call_table.h"
#include "server/rpc/client_credentials.h"

namespace duetime::api {

StreamCaller::~StreamCaller() {
  if (counted_ != nullptr) counted_->meter()->streams.fetch_sub(1);
}

absl::Status StreamCaller::Open(const grpc::ServerContext& stream) {
  if (context_->access == nullptr) return absl::OkStatus();
  credentials_ = rpc::CredentialsOf(stream);
  absl::StatusOr<access::CallerPtr> caller =
      context_->access->Authenticate(credentials_, context_->machine_clock->Read());
  if (!caller.ok()) return CountedRefusal(*context_, caller.status());
  caller_ = *std::move(caller);
  const access::Quota* const quota = caller_->quota();
  if (quota == nullptr || quota->streams == 0) return absl::OkStatus();
  counted_ = caller_;
  if (caller_->meter()->streams.fetch_add(1) < quota->streams) {
    caller_->CountUsed(access::QuotaName::kStreams, 1);
    return absl::OkStatus();
  }
  caller_->CountRefused(access::QuotaName::kStreams);
  constexpr uint64_t kRetryMs = 1'000;
  return CountedRefusal(*context_,
                        QuotaError("streams", quota->streams, caller_->principal(), kRetryMs));
}

absl::Status StreamCaller::Recheck(const base::Now& now) {
  if (caller_ == nullptr ||
      (caller_->generation() == context_->access->generation() && !caller_->Expired(now.wall_ms))) {
    return absl::OkStatus();
  }
  absl::StatusOr<access::CallerPtr> caller = context_->access->AuthenticateAgain(credentials_, now);
  if (!caller.ok()) return CountedRefusal(*context_, caller.status());
  caller_ = *std::move(caller);
  return absl::OkStatus();
}

absl::Status StreamCaller::Recheck(const base::Now& now, access::Verb verb,
                                   absl::string_view topic) {
  const access::CallerPtr before = caller_;
  absl::Status status = Recheck(now);
  if (!status.ok() || caller_ == before || topic.empty()) return status;
  return CheckRight(*context_, caller_, verb, topic);
}

void StreamCaller::AuditEnd(metrics::RpcMethod method, const std::string& topic,
                            const absl::Status& status) {
  if (context_->access == nullptr || !IsRefusal(status)) return;
  runtime::AuditEntry entry;
  entry.peer = credentials_.peer;
  if (caller_ != nullptr) entry.principal = caller_->principal();
  entry.method = NameOf(method);
  entry.topic = topic;
  WriteAudit(*context_, status, std::move(entry));
}

}  // namespace duetime::api
