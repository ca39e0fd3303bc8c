// SPDX-License-Identifier: Apache-2.0
#include "server/api/access/authorization.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/access/pending_count.h"
#include "server/api/access/request_fields.h"
#include "server/api/call_table.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/client_credentials.h"

namespace duetime::api {
namespace {

using access::CallerPtr;
using access::QuotaName;
using access::Verb;

// A name that no topic can have is not repeated in errors and logs: it may be long.
bool CanBeTopic(absl::string_view name) { return ValidateTopic(name, "topic").ok(); }

absl::Status AccessDeniedError(const access::Caller& caller, Verb verb, absl::string_view topic) {
  if (caller.identity().anonymous()) {
    return base::MakeError(
        absl::StatusCode::kUnauthenticated,
        "this call needs a token, a client certificate or a Unix socket",
        {.reason = "CREDENTIALS_REQUIRED", .field = "", .metadata = {}, .retry_after_ms = 0});
  }
  if (!CanBeTopic(topic)) topic = "";
  const std::string on = topic.empty() ? "" : absl::StrCat(" on topic ", topic);
  base::ErrorDetail detail{
      .reason = "ACCESS_DENIED",
      .field = "",
      .metadata = {{"principal", caller.principal()}, {"verb", access::NameOf(verb)}},
      .retry_after_ms = 0};
  if (!topic.empty()) detail.metadata.emplace_back("topic", std::string(topic));
  return base::MakeError(
      absl::StatusCode::kPermissionDenied,
      absl::StrCat(caller.principal(), " has no right to ", access::NameOf(verb), on), detail);
}

// Writes what a call did, or that it was refused.
class Auditor {
 public:
  // REQUIRES: `call` outlives the call of End.
  Auditor(ServingContext* context, const rpc::Call* call, bool always)
      : context_(context), call_(call), always_(always) {}

  void End(const absl::Status& status) const {
    // No method may answer before it has asked for the client's rights.
    DT_CHECK(!status.ok() || call_->authorized);
    if (!always_ && !IsRefusal(status)) return;
    runtime::AuditEntry entry;
    entry.peer = rpc::PeerHost(call_->server_context());
    entry.method = NameOf(call_->method().id);
    if (call_->caller != nullptr) entry.principal = call_->caller->principal();
    if (call_->subject.has_value()) {
      entry.topic = call_->subject->topic;
      entry.object = call_->subject->object;
    }
    WriteAudit(*context_, status, std::move(entry));
  }

 private:
  ServingContext* const context_;
  const rpc::Call* const call_;
  const bool always_;
};

rpc::Call::Subject SubjectOf(const google::protobuf::Message& request, const v1::Call& method) {
  rpc::Call::Subject subject;
  for (const v1::CallRight& right : method.rights()) {
    const std::vector<std::string> topics = TopicsIn(request, right.topic());
    if (!subject.topic.empty() || topics.empty() || !CanBeTopic(topics.front())) continue;
    subject.topic = topics.front();
  }
  subject.object = ObjectOf(request).substr(0, kKeyBytesMax);
  return subject;
}

bool IsAudited(const ServingContext& context, metrics::RpcMethod method) {
  if (context.audit == nullptr) return false;
  const v1::CallAudit audit = CallOf(method).audit();
  return audit == v1::CALL_AUDIT_ALWAYS ||
         (audit == v1::CALL_AUDIT_CANCELS && context.audit->cancels());
}

// A client's topics, as shards ask for them.
class CallerScope final : public protocol::TopicScope {
 public:
  CallerScope(CallerPtr caller, Verb verb, const ServingContext* context)
      : caller_(std::move(caller)), verb_(verb), context_(context) {}

  bool Covers(storage::TopicId topic) const override {
    return caller_->Allows(verb_, context_->catalog().TopicName(topic));
  }

 private:
  const CallerPtr caller_;
  const Verb verb_;
  const ServingContext* const context_;
};

// The limits that a request is charged against.
struct ChargedLimit {
  uint64_t access::Quota::*of;
  access::Meter::Limit verdict;
  QuotaName name;
  bool bytes;
};
constexpr ChargedLimit kChargedLimits[] = {
    {&access::Quota::messages_per_second, access::Meter::Limit::kMessages,
     QuotaName::kMessagesPerSecond, false},
    {&access::Quota::bytes_per_second, access::Meter::Limit::kBytes, QuotaName::kBytesPerSecond,
     true},
    {&access::Quota::pending_messages, access::Meter::Limit::kPendingMessages,
     QuotaName::kPendingMessages, false},
    {&access::Quota::pending_bytes, access::Meter::Limit::kPendingBytes, QuotaName::kPendingBytes,
     true},
};

// The messages of a request that a quota is asked for, in their order.
struct Charges {
  std::vector<size_t> positions;
  std::vector<uint64_t> sizes;

  void Add(size_t position, uint64_t size) {
    positions.push_back(position);
    sizes.push_back(size);
  }
};

// The quota of a client or of a topic.
struct ChargedQuota {
  const access::Quota& quota;
  access::Meter* meter;
  std::string of;
  // Counts the charges for metrics. Null: the quota is that of a topic.
  const access::Caller* counted = nullptr;
};

// Takes the messages from a quota until it refuses one; that one and the later ones are refused.
void Charge(ServingContext& context, const ChargedQuota& charged, const Charges& charges,
            RefusedItems* refused) {
  const access::Quota& quota = charged.quota;
  const access::Caller* const counted = charged.counted;
  const access::Meter::Verdict verdict =
      charged.meter->Take(context.clock->Read().mono_ms,
                          {.messages_per_second = quota.messages_per_second,
                           .bytes_per_second = quota.bytes_per_second,
                           .pending_messages = quota.pending_messages,
                           .pending_bytes = quota.pending_bytes},
                          charges.sizes);
  for (const ChargedLimit& limit : kChargedLimits) {
    if (quota.*limit.of == 0) continue;
    if (counted != nullptr) {
      counted->CountUsed(limit.name, limit.bytes ? verdict.taken.bytes : verdict.taken.messages);
    }
    if (verdict.limit != limit.verdict) continue;
    if (counted != nullptr) counted->CountRefused(limit.name);
    const absl::Status error = QuotaError(access::kQuotaNames[static_cast<size_t>(limit.name)],
                                          quota.*limit.of, charged.of, verdict.wait_ms);
    for (size_t i = verdict.taken.messages; i < charges.positions.size(); ++i) {
      refused->emplace(charges.positions[i], error);
    }
  }
}

// A message that a request schedules. Of a recurrence, its first occurrence.
struct ScheduledMessage {
  absl::string_view topic;
  uint64_t size = 0;
};

// In the order of the request. The topics are in the request.
std::vector<ScheduledMessage> MessagesOf(const google::protobuf::Message& request) {
  std::vector<ScheduledMessage> messages;
  const auto add = [&messages](const auto& message) {
    messages.push_back({.topic = message.topic(), .size = message.ByteSizeLong()});
  };
  if (const auto* one = dynamic_cast<const v1::ScheduleRequest*>(&request)) {
    add(*one);
  } else if (const auto* batch = dynamic_cast<const v1::ScheduleBatchRequest*>(&request)) {
    for (const v1::ScheduleRequest& message : batch->messages()) add(message);
  } else if (const auto* frame = dynamic_cast<const v1::ScheduleStreamRequest*>(&request)) {
    for (const v1::ScheduleRequest& message : frame->messages()) add(message);
  } else if (const auto* create = dynamic_cast<const v1::CreateRecurrenceRequest*>(&request)) {
    messages.push_back({.topic = create->recurrence().topic(),
                        .size = create->recurrence().template_().ByteSizeLong()});
  }
  return messages;
}

// Charges the messages of a request to the client and to their topics. Those in `refused` are not
// charged, and what the quotas refuse is added.
void ChargeQuotas(ServingContext& context, const CallerPtr& caller,
                  const google::protobuf::Message& request, RefusedItems* refused) {
  if (caller->policy().quotas.empty()) return;
  const std::vector<ScheduledMessage> messages = MessagesOf(request);
  const size_t denied = refused->size();
  // First, because a client over its own quota must not use up that of a topic.
  if (const access::Quota* const quota = caller->quota(); quota != nullptr) {
    Charges all;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!refused->contains(i)) all.Add(i, messages[i].size);
    }
    if (!all.positions.empty()) {
      if (quota->limits_pending()) CountPendingOf(context, caller);
      const ChargedQuota own{.quota = *quota,
                             .meter = caller->meter(),
                             .of = std::string(caller->principal()),
                             .counted = caller.get()};
      Charge(context, own, all, refused);
    }
  }
  absl::flat_hash_map<absl::string_view, Charges> by_topic;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!refused->contains(i)) by_topic[messages[i].topic].Add(i, messages[i].size);
  }
  for (const auto& [topic, charges] : by_topic) {
    const access::Quota* const quota = caller->policy().QuotaOfTopic(topic);
    if (quota == nullptr || !CanBeTopic(topic)) continue;
    const std::shared_ptr<access::Meter> meter = context.access->MeterOfTopic(std::string(topic));
    if (quota->limits_pending()) CountPendingOfTopic(context, std::string(topic), meter);
    const ChargedQuota of_topic{
        .quota = *quota, .meter = meter.get(), .of = absl::StrCat("topic ", topic)};
    Charge(context, of_topic, charges, refused);
  }
  if (refused->size() > denied) {
    context.access->over_quota.fetch_add(1, std::memory_order_relaxed);
  }
}

// Checks the right to the topic of each item, and adds those without it to `refused`. An error: the
// client has the right on no topic.
absl::Status CheckItemRights(ServingContext& context, const CallerPtr& caller,
                             const grpc::ServerContext& client, metrics::RpcMethod method,
                             const google::protobuf::Message& request, RefusedItems* refused) {
  const v1::Call& call = CallOf(method);
  DT_CHECK_EQ(call.rights_size(), 1);
  const Verb verb = *ToVerb(call.rights(0).verb());
  if (!caller->AllowsSomewhere(verb)) {
    return CountedRefusal(context, AccessDeniedError(*caller, verb, ""));
  }
  const std::vector<absl::string_view> topics = TopicsOfItems(request, call.rights(0).topic());
  // Neighbours mostly name the same topic.
  absl::string_view last;
  absl::Status status;
  for (size_t i = 0; i < topics.size(); ++i) {
    // An item without a topic is refused later, or names its message by id.
    if (topics[i].empty()) continue;
    if (topics[i] != last) {
      last = topics[i];
      status =
          caller->Allows(verb, last) ? absl::OkStatus() : AccessDeniedError(*caller, verb, last);
    }
    if (status.ok()) continue;
    if (refused->empty()) {
      // Counted and in the audit log once, however many items are refused.
      runtime::AuditEntry entry;
      entry.peer = rpc::PeerHost(client);
      entry.principal = caller->principal();
      entry.method = NameOf(method);
      if (CanBeTopic(last)) entry.topic = std::string(last);
      WriteAudit(context, CountedRefusal(context, status), std::move(entry));
    }
    refused->emplace(i, status);
  }
  return absl::OkStatus();
}

// Sets the client by the credentials of the call.
absl::Status FindCaller(ServingContext& context, rpc::Call& call) {
  const access::Credentials credentials = rpc::CredentialsOf(call.server_context());
  const base::Now now = context.machine_clock->Read();
  absl::StatusOr<CallerPtr> caller = context.access->Authenticate(credentials, now);
  if (!caller.ok()) {
    call.delay_ms = context.access->PaceRefusal(credentials.peer, now.mono_ms);
    return CountedRefusal(context, caller.status());
  }
  call.caller = *std::move(caller);
  return absl::OkStatus();
}

// Notes what the call is about. From here on, the call may be answered.
void BeginAuthorize(rpc::Call& call, const google::protobuf::Message& request) {
  if (call.subject.has_value()) call.subject = SubjectOf(request, CallOf(call.method().id));
  call.authorized = true;
}

}  // namespace

std::optional<Verb> ToVerb(v1::AccessVerb verb) {
  switch (verb) {
    case v1::ACCESS_VERB_SCHEDULE:
      return Verb::kSchedule;
    case v1::ACCESS_VERB_CANCEL:
      return Verb::kCancel;
    case v1::ACCESS_VERB_READ:
      return Verb::kRead;
    case v1::ACCESS_VERB_READ_PAYLOADS:
      return Verb::kReadPayloads;
    case v1::ACCESS_VERB_SUBSCRIBE:
      return Verb::kSubscribe;
    case v1::ACCESS_VERB_ADMIN:
      return Verb::kAdmin;
    case v1::ACCESS_VERB_OPERATE:
      return Verb::kOperate;
    default:
      return std::nullopt;
  }
}

absl::Status QuotaError(absl::string_view quota, uint64_t limit, absl::string_view of,
                        uint64_t wait_ms) {
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("the quota ", quota, " = ", limit, " of ", of, " is used up"),
                         {.reason = "QUOTA_EXCEEDED",
                          .field = "",
                          .metadata = {{"quota", std::string(quota)},
                                       {"limit", absl::StrCat(limit)},
                                       {"of", std::string(of)}},
                          .retry_after_ms = wait_ms});
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

void WriteAudit(ServingContext& context, const absl::Status& status, runtime::AuditEntry entry) {
  const base::Now now = context.machine_clock->Read();
  if (IsRefusal(status) && context.access != nullptr &&
      !context.access->CountRefusal(entry.peer, now.mono_ms, absl::IsUnauthenticated(status))) {
    return;
  }
  if (context.audit == nullptr) return;
  entry.code = absl::StatusCodeToString(status.code());
  if (const auto detail = base::GetErrorDetail(status)) entry.reason = detail->reason;
  context.audit->Write(now.wall_ms, entry);
}

absl::Status CountedRefusal(ServingContext& context, const absl::Status& status) {
  access::AccessControl& access = *context.access;
  std::atomic<uint64_t>& counter = absl::IsUnauthenticated(status)    ? access.unauthenticated
                                   : absl::IsPermissionDenied(status) ? access.denied
                                                                      : access.over_quota;
  counter.fetch_add(1, std::memory_order_relaxed);
  return status;
}

uint64_t PaceRefusal(ServingContext& context, const CallerPtr& caller) {
  return caller->meter()->PaceRefusal(context.machine_clock->Read().mono_ms);
}

absl::Status CheckRight(ServingContext& context, const CallerPtr& caller, Verb verb,
                        absl::string_view topic) {
  if (Allows(caller, verb, topic)) return absl::OkStatus();
  return CountedRefusal(context, AccessDeniedError(*caller, verb, topic));
}

absl::Status Authenticate(ApiWorker& worker, rpc::Call& call) {
  ServingContext& context = worker.context();
  const bool audited = IsAudited(context, call.method().id);
  if (context.access == nullptr && !audited) return absl::OkStatus();
  const Auditor auditor(&context, &call, audited);
  call.on_end = [auditor](const absl::Status& status) { auditor.End(status); };
  if (context.audit != nullptr) call.subject.emplace();
  if (context.access == nullptr) return absl::OkStatus();
  // A stream has authenticated the client for its calls.
  if (call.caller == nullptr) {
    if (absl::Status status = FindCaller(context, call); !status.ok()) return status;
  }
  const access::Quota* const quota = call.caller->quota();
  if (quota == nullptr || quota->calls_in_flight == 0) return absl::OkStatus();
  const bool over = call.caller->meter()->calls.fetch_add(1) >= quota->calls_in_flight;
  call.on_end = [auditor, caller = call.caller](const absl::Status& status) {
    caller->meter()->calls.fetch_sub(1);
    auditor.End(status);
  };
  if (!over) {
    call.caller->CountUsed(QuotaName::kCallsInFlight, 1);
    return absl::OkStatus();
  }
  call.caller->CountRefused(QuotaName::kCallsInFlight);
  call.delay_ms = PaceRefusal(context, call.caller);
  constexpr uint64_t kRetryMs = 100;
  return CountedRefusal(context, QuotaError("calls_in_flight", quota->calls_in_flight,
                                            call.caller->principal(), kRetryMs));
}

absl::Status Authorize(ApiWorker& worker, rpc::Call& call,
                       const google::protobuf::Message& request) {
  BeginAuthorize(call, request);
  if (call.caller == nullptr) return absl::OkStatus();
  absl::Status status = CheckRights(worker.context(), call.caller, call.method().id, request);
  if (status.ok()) {
    RefusedItems refused;
    ChargeQuotas(worker.context(), call.caller, request, &refused);
    if (!refused.empty()) status = refused.begin()->second;
  }
  if (!status.ok()) call.delay_ms = PaceRefusal(worker.context(), call.caller);
  return status;
}

absl::Status AuthorizeItems(ApiWorker& worker, rpc::Call& call,
                            const google::protobuf::Message& request, RefusedItems* refused) {
  BeginAuthorize(call, request);
  absl::Status status = AuthorizeItems(worker.context(), call.caller, call.server_context(),
                                       call.method().id, request, refused);
  if (!status.ok() || !refused->empty()) call.delay_ms = PaceRefusal(worker.context(), call.caller);
  return status;
}

absl::Status AuthorizeItems(ServingContext& context, const CallerPtr& caller,
                            const grpc::ServerContext& client, metrics::RpcMethod method,
                            const google::protobuf::Message& request, RefusedItems* refused) {
  if (caller == nullptr) return absl::OkStatus();
  absl::Status status = CheckItemRights(context, caller, client, method, request, refused);
  if (status.ok()) ChargeQuotas(context, caller, request, refused);
  return status;
}

absl::Status CheckRights(ServingContext& context, const CallerPtr& caller,
                         metrics::RpcMethod method, const google::protobuf::Message& request) {
  if (caller == nullptr) return absl::OkStatus();
  const v1::Call& call = CallOf(method);
  absl::Status status;
  if (call.rights().empty() && caller->identity().anonymous() &&
      !caller->AllowsSomewhere(Verb::kRead)) {
    status = AccessDeniedError(*caller, Verb::kRead, "");
  }
  for (const v1::CallRight& right : call.rights()) {
    if (right.when() == v1::CALL_RIGHT_WHEN_FULL_VIEW && !AsksForPayloads(request)) continue;
    const Verb verb = *ToVerb(right.verb());
    const std::vector<std::string> topics = TopicsIn(request, right.topic());
    for (const std::string& topic : topics) {
      if (status.ok() && !caller->Allows(verb, topic)) {
        status = AccessDeniedError(*caller, verb, topic);
      }
    }
    const bool needed = right.when() != v1::CALL_RIGHT_WHEN_NAMED;
    if (status.ok() && topics.empty() && needed && !caller->AllowsSomewhere(verb)) {
      status = AccessDeniedError(*caller, verb, "");
    }
  }
  return status.ok() ? status : CountedRefusal(context, status);
}

bool Allows(const CallerPtr& caller, Verb verb, absl::string_view topic) {
  return caller == nullptr || caller->Allows(verb, topic);
}

bool Allows(ApiWorker& worker, const CallerPtr& caller, Verb verb, storage::TopicId topic) {
  return caller == nullptr || caller->Allows(verb, worker.context().catalog().TopicName(topic));
}

protocol::TopicScopePtr ScopeOf(ApiWorker& worker, const CallerPtr& caller, Verb verb) {
  if (caller == nullptr || caller->AllowsEverywhere(verb)) return nullptr;
  return std::make_shared<const CallerScope>(caller, verb, &worker.context());
}

}  // namespace duetime::api
