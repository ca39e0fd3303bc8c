// SPDX-License-Identifier: Apache-2.0
#include "server/api/access/method_rights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"

#include "duetime/v1/message.pb.h"
#include "server/base/check.h"

namespace duetime::api {
namespace {

using access::Verb;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using metrics::RpcMethod;

const std::vector<MethodRights>& Table() {
  constexpr auto kFull = Right::When::kFullView;
  constexpr auto kAudit = Audited::kAlways;
  static const auto* const table = new std::vector<MethodRights>{
      {RpcMethod::kSchedule, {{Verb::kSchedule, "topic"}}},
      {RpcMethod::kScheduleBatch, {{Verb::kSchedule, "messages.topic"}}},
      {RpcMethod::kScheduleStream, {{Verb::kSchedule, "messages.topic"}}},
      {RpcMethod::kReschedule, {{Verb::kSchedule, "key.topic"}}},
      {RpcMethod::kCancel, {{Verb::kCancel, "key.topic"}}, Audited::kIfCancels},
      {RpcMethod::kCancelBatch, {{Verb::kCancel, "cancels.key.topic"}}, Audited::kIfCancels},
      {RpcMethod::kGet, {{Verb::kRead, "key.topic"}, {Verb::kReadPayloads, "key.topic", kFull}}},
      {RpcMethod::kList, {{Verb::kRead, "topic"}, {Verb::kReadPayloads, "topic", kFull}}},
      {RpcMethod::kExplain, {{Verb::kRead, "key.topic"}}},
      {RpcMethod::kSubscribe, {{Verb::kSubscribe, "start.topic"}}},
      {RpcMethod::kPull, {{Verb::kSubscribe, "topic"}}},
      // A lease token is the proof of the right to settle: nobody can guess it.
      {RpcMethod::kSettle, {{Verb::kSubscribe, "topic"}}},

      {RpcMethod::kCreateRecurrence, {{Verb::kSchedule, "recurrence.topic"}}, kAudit},
      {RpcMethod::kUpdateRecurrence, {{Verb::kSchedule, "recurrence.topic"}}, kAudit},
      {RpcMethod::kPauseRecurrence, {{Verb::kSchedule, "topic"}}, kAudit},
      {RpcMethod::kResumeRecurrence, {{Verb::kSchedule, "topic"}}, kAudit},
      {RpcMethod::kDeleteRecurrence, {{Verb::kSchedule, "topic"}}, kAudit},
      {RpcMethod::kGetRecurrence, {{Verb::kRead, "topic"}}},
      {RpcMethod::kListRecurrences, {{Verb::kRead, "topic"}}},
      {RpcMethod::kPreviewRecurrence, {{Verb::kRead, "topic"}}},

      // Every client that has authenticated may call it. It shows counts and damage to kOperate.
      {RpcMethod::kServerInfo, {}},
      // About itself; about others it needs kOperate.
      {RpcMethod::kCheckAccess, {}},
      // A backup contains all payloads.
      {RpcMethod::kStartBackup, {{Verb::kOperate, ""}}, kAudit},
      {RpcMethod::kReadBackup, {{Verb::kOperate, ""}}},
      {RpcMethod::kEndBackup, {{Verb::kOperate, ""}}, kAudit},
      {RpcMethod::kHandOver, {{Verb::kOperate, ""}}, kAudit},
      {RpcMethod::kGetTopic, {{Verb::kRead, "name"}}},
      {RpcMethod::kListTopics, {{Verb::kRead, "topic"}}},
      {RpcMethod::kForecast, {{Verb::kRead, "topic"}}},
      {RpcMethod::kCreateTopic,
       {{Verb::kAdmin, "topic.name"}, {Verb::kSchedule, "topic.settings.dead_letter_topic"}},
       kAudit},
      {RpcMethod::kUpdateTopic,
       {{Verb::kAdmin, "topic.name"}, {Verb::kSchedule, "topic.settings.dead_letter_topic"}},
       kAudit},
      {RpcMethod::kPauseTopic, {{Verb::kAdmin, "name"}}, kAudit},
      {RpcMethod::kResumeTopic, {{Verb::kAdmin, "name"}}, kAudit},
      {RpcMethod::kDeleteTopic, {{Verb::kAdmin, "name"}}, kAudit},

      {RpcMethod::kGetSubscription, {{Verb::kRead, "topic"}}},
      {RpcMethod::kListSubscriptions, {{Verb::kRead, "topic"}}},
      {RpcMethod::kCreateSubscription,
       {{Verb::kAdmin, "subscription.topic"},
        {Verb::kSchedule, "subscription.settings.dead_letter_topic"}},
       kAudit},
      {RpcMethod::kUpdateSubscription,
       {{Verb::kAdmin, "subscription.topic"},
        {Verb::kSchedule, "subscription.settings.dead_letter_topic"}},
       kAudit},
      {RpcMethod::kDeleteSubscription, {{Verb::kAdmin, "topic"}}, kAudit},

      {RpcMethod::kStartBulk, {{Verb::kAdmin, "topic"}}, kAudit},
      {RpcMethod::kGetOperation, {{Verb::kRead, "topic"}}},
      {RpcMethod::kListOperations, {{Verb::kRead, "topic"}}},
      {RpcMethod::kCancelOperation, {{Verb::kAdmin, "topic"}}, kAudit},
  };
  return *table;
}

// Calls `visit` with the text of each field that the path leads to.
template <typename Visit>
void WalkPath(const Message& message, absl::string_view path, const Visit& visit) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(path, absl::MaxSplits('.', 1));
  const FieldDescriptor* const field =
      message.GetDescriptor()->FindFieldByName(std::string(parts.first));
  // A request that has no such field names its object otherwise.
  if (field == nullptr) return;
  const google::protobuf::Reflection* const reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return visit(reflection->GetString(message, field));
  }
  DT_CHECK_EQ(field->cpp_type(), FieldDescriptor::CPPTYPE_MESSAGE);
  if (!field->is_repeated()) {
    if (reflection->HasField(message, field)) {
      WalkPath(reflection->GetMessage(message, field), parts.second, visit);
    }
    return;
  }
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    WalkPath(reflection->GetRepeatedMessage(message, field, i), parts.second, visit);
  }
}

}  // namespace

const MethodRights& RightsOf(metrics::RpcMethod method) {
  static const auto* const by_method = [] {
    auto* rows = new std::vector<const MethodRights*>(metrics::kRpcMethodCount, nullptr);
    for (const MethodRights& row : Table()) (*rows)[static_cast<size_t>(row.method)] = &row;
    return rows;
  }();
  const MethodRights* const row = (*by_method)[static_cast<size_t>(method)];
  DT_CHECK(row != nullptr);
  return *row;
}

std::vector<std::string> TopicsIn(const Message& request, absl::string_view topic_field) {
  std::vector<std::string> topics;
  WalkPath(request, topic_field, [&topics](std::string topic) {
    // Neighbours of a batch mostly name the same topic.
    if (!topic.empty() && (topics.empty() || topics.back() != topic)) {
      topics.push_back(std::move(topic));
    }
  });
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  return topics;
}

bool AsksForPayloads(const Message& request) {
  const FieldDescriptor* const view = request.GetDescriptor()->FindFieldByName("view");
  return view != nullptr &&
         request.GetReflection()->GetEnumValue(request, view) == v1::MESSAGE_VIEW_FULL;
}

std::string ObjectOf(const Message& request) {
  std::string object;
  const auto take = [&object](std::string text) {
    if (object.empty()) object = std::move(text);
  };
  for (const char* const path :
       {"subscription.name", "name", "recurrence.name", "message_id", "key.key"}) {
    WalkPath(request, path, take);
  }
  return object;
}

}  // namespace duetime::api
