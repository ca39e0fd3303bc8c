// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/server_call_stream.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/access/authorization.h"
#include "server/api/call_table.h"
#include "server/api/unary.h"

namespace duetime::api {
namespace {

const StreamedMethods& Methods() {
  static const auto* const methods = new StreamedMethods(UnaryMethods());
  return *methods;
}

}  // namespace

ServerCallStream::ServerCallStream(ApiWorker* api, rpc::CqWorker* worker)
    : CallStream(api, worker, &Methods(), &api->context().options.limits),
      context_(&api->context()),
      caller_(context_) {}

absl::Status ServerCallStream::Open() {
  if (absl::Status status = caller_.Open(*server_context()); !status.ok()) return status;
  const access::CallerPtr& client = caller_.caller();
  for (const access::Verb verb :
       {access::Verb::kSchedule, access::Verb::kCancel, access::Verb::kRead}) {
    if (client == nullptr || client->AllowsSomewhere(verb)) return absl::OkStatus();
  }
  // A client without any right must not hold a stream.
  return CheckRight(*context_, client, access::Verb::kSchedule, "");
}

absl::Status ServerCallStream::Serving() {
  // While the server drains, it still takes cancels. A call that is refused says so itself.
  return context_->Admit(CallKind::kOther);
}

void ServerCallStream::OnRefused(const absl::Status& status) {
  caller_.AuditEnd(MethodOf<v1::CallStreamRequest>(), "", status);
}

}  // namespace duetime::api
