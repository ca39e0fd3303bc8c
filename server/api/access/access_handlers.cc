// SPDX-License-Identifier: Apache-2.0
#include "server/api/access/access_handlers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/api/access/authorization.h"
#include "server/api/validation_error.h"
#include "server/base/error.h"

namespace duetime::api {
namespace {

using access::Verb;

constexpr size_t kPrincipalBytesMax = 512;
constexpr int kGroupsMax = 100;

absl::Status Validate(const v1::CheckAccessRequest& request, Verb verb) {
  if (request.principal().size() > kPrincipalBytesMax) {
    return OverLimit("INVALID_PRINCIPAL", "principal", request.principal().size(),
                     kPrincipalBytesMax, "bytes");
  }
  if (request.groups_size() > kGroupsMax ||
      (request.principal().empty() && request.groups_size() > 0)) {
    return Invalid("INVALID_PRINCIPAL", "groups",
                   absl::StrCat("at most ", kGroupsMax, ", and only with a principal"),
                   {{"limit", absl::StrCat(kGroupsMax)}});
  }
  return verb == Verb::kOperate ? absl::OkStatus() : ValidateTopic(request.topic(), "topic");
}

// "in the groups g, h"; "" without groups.
std::string GroupsText(const access::Caller& caller) {
  const std::vector<std::string>& groups = caller.identity().groups;
  if (groups.empty()) return "";
  return absl::StrCat("in the group", groups.size() == 1 ? " " : "s ", absl::StrJoin(groups, ", "));
}

std::string RuleText(const access::Decision& decision) {
  if (decision.rule != nullptr) {
    return absl::StrCat("the rule in line ", decision.rule->line, " of access_file allows it");
  }
  return decision.allowed
             ? "access_file has no rules, so everyone who authenticates may do everything"
             : "no rule of access_file allows it";
}

std::string ReasonText(const access::Caller& caller, Verb verb, const std::string& topic,
                       const access::Decision& decision) {
  const std::string what =
      verb == Verb::kOperate ? "operate" : absl::StrCat(access::NameOf(verb), " on ", topic);
  const std::string groups = GroupsText(caller);
  return absl::StrCat(caller.principal(), groups.empty() ? "" : absl::StrCat(", ", groups, ","),
                      decision.allowed ? " may " : " may not ", what, ": ", RuleText(decision));
}

void FillQuota(const access::Caller& caller, v1::CheckAccessResponse* response) {
  const access::Quota* const quota = caller.quota();
  if (quota == nullptr) return;
  v1::AccessQuota* const proto = response->mutable_quota();
  proto->set_messages_per_second(static_cast<int64_t>(quota->messages_per_second));
  proto->set_bytes_per_second(static_cast<int64_t>(quota->bytes_per_second));
  proto->set_pending_messages(static_cast<int64_t>(quota->pending_messages));
  proto->set_pending_bytes(static_cast<int64_t>(quota->pending_bytes));
  if (quota->limits_pending()) {
    const access::PendingMeter::Amount pending = caller.meter()->pending();
    proto->set_now_pending_messages(static_cast<int64_t>(pending.messages));
    proto->set_now_pending_bytes(static_cast<int64_t>(pending.bytes));
  }
  proto->set_streams(static_cast<int64_t>(quota->streams));
  proto->set_calls_in_flight(static_cast<int64_t>(quota->calls_in_flight));
  proto->set_open_streams(static_cast<int64_t>(caller.meter()->streams.load()));
  proto->set_open_calls(static_cast<int64_t>(caller.meter()->calls.load()));
}

}  // namespace

Co<absl::Status> CheckAccess(ApiWorker& worker, rpc::Call& call,
                             const v1::CheckAccessRequest& request,
                             v1::CheckAccessResponse* response) {
  const std::optional<Verb> verb = ToVerb(request.verb());
  if (!verb.has_value()) co_return Invalid("INVALID_VERB", "verb", "required, and a known one");
  absl::Status status = Validate(request, *verb);
  if (!status.ok()) co_return status;
  if (call.caller == nullptr) {
    co_return base::MakeError(
        absl::StatusCode::kFailedPrecondition,
        "access control is off: the server has neither access_file nor tokens_file",
        {.reason = "ACCESS_CONTROL_OFF", .field = "", .metadata = {}, .retry_after_ms = 0});
  }
  std::vector<access::CallerPtr> asked = {call.caller};
  const bool is_self = request.principal() == call.caller->principal() && request.groups().empty();
  if (!request.principal().empty() && !is_self) {
    status = CheckRight(worker.context(), call.caller, Verb::kOperate, "");
    if (!status.ok()) co_return status;
    asked = worker.context().access->Imagine(
        {.principal = request.principal(),
         .groups = {request.groups().begin(), request.groups().end()}},
        worker.context().machine_clock->Read());
  }
  // Those that may not come first.
  const auto allowed = std::stable_partition(
      asked.begin(), asked.end(),
      [&](const access::CallerPtr& caller) { return !caller->Allows(*verb, request.topic()); });
  const access::Decision decision = asked[0]->Decide(*verb, request.topic());
  std::string reason = ReasonText(*asked[0], *verb, request.topic(), decision);
  if (!decision.allowed && allowed != asked.end()) {
    const access::Caller& other = **allowed;
    const std::string groups = GroupsText(other);
    absl::StrAppend(&reason, "; but with another token of this name, ",
                    groups.empty() ? "in no group" : groups, ": ",
                    RuleText(other.Decide(*verb, request.topic())));
  }
  response->set_allowed(decision.allowed);
  response->set_principal(asked[0]->principal());
  response->set_explanation(reason);
  FillQuota(*asked[0], response);
  co_return absl::OkStatus();
}

}  // namespace duetime::api
