// SPDX-License-Identifier: Apache-2.0
//
// Authorization: who calls, and whether the call is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <grpcpp/server_context.h>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "duetime/v1/access.pb.h"
#include "server/access/access_control.h"
#include "server/api/api_worker.h"
#include "server/protocol/topic_scope.h"
#include "server/rpc/call.h"
#include "server/runtime/audit_log.h"
#include "storage/types.h"

namespace duetime::api {

// The steps of a unary call. Without access control, they cost a comparison.

// Sets call.caller, counts the call against the quota of calls in flight, and prepares the audit
// log. UNAUTHENTICATED INVALID_CREDENTIALS, RESOURCE_EXHAUSTED QUOTA_EXCEEDED.
absl::Status Authenticate(ApiWorker& worker, rpc::Call& call);
// Checks what the method needs for this request (call.proto), and charges the quotas of what
// it schedules. UNAUTHENTICATED CREDENTIALS_REQUIRED, PERMISSION_DENIED ACCESS_DENIED,
// RESOURCE_EXHAUSTED QUOTA_EXCEEDED.
absl::Status Authorize(ApiWorker& worker, rpc::Call& call,
                       const google::protobuf::Message& request);

// The items of a batch that access control refuses, by position.
using RefusedItems = absl::flat_hash_map<size_t, absl::Status>;

// The same for a batch, item by item: `refused` gets the items that the rights or quotas do not
// allow. An error refuses the call: the client has the right on no topic.
absl::Status AuthorizeItems(ApiWorker& worker, rpc::Call& call,
                            const google::protobuf::Message& request, RefusedItems* refused);

// The parts of these steps, for streams. A null caller may do everything.

// The same for a frame. A refused access is in the audit log, once for the frame.
absl::Status AuthorizeItems(ServingContext& context, const access::CallerPtr& caller,
                            const grpc::ServerContext& client, metrics::RpcMethod method,
                            const google::protobuf::Message& request, RefusedItems* refused);

absl::Status CheckRights(ServingContext& context, const access::CallerPtr& caller,
                         metrics::RpcMethod method, const google::protobuf::Message& request);
absl::Status CheckRight(ServingContext& context, const access::CallerPtr& caller, access::Verb verb,
                        absl::string_view topic);
// Returns `status` after it has counted it for the metrics. REQUIRES: it is a refusal.
absl::Status CountedRefusal(ServingContext& context, const absl::Status& status);
// The milliseconds by which a refusal of this client must be delayed (access::Meter).
// REQUIRES: the caller is not null.
uint64_t PaceRefusal(ServingContext& context, const access::CallerPtr& caller);
// True for UNAUTHENTICATED and PERMISSION_DENIED.
bool IsRefusal(const absl::Status& status);
// Writes a line to the audit log if there is one, unless it is a refusal and its peer has had too
// many. Sets time, code and reason of the entry.
void WriteAudit(ServingContext& context, const absl::Status& status, runtime::AuditEntry entry);
// Nothing for UNSPECIFIED, and for a verb of a newer client.
std::optional<access::Verb> ToVerb(v1::AccessVerb verb);
// True if the client may do this on the topic.
bool Allows(const access::CallerPtr& caller, access::Verb verb, absl::string_view topic);
bool Allows(ApiWorker& worker, const access::CallerPtr& caller, access::Verb verb,
            storage::TopicId topic);
// The client's topics for a command. Null: all.
protocol::TopicScopePtr ScopeOf(ApiWorker& worker, const access::CallerPtr& caller,
                                access::Verb verb);

// RESOURCE_EXHAUSTED QUOTA_EXCEEDED.
absl::Status QuotaError(absl::string_view quota, uint64_t limit, absl::string_view of,
                        uint64_t wait_ms);

}  // namespace duetime::api
