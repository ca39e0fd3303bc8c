// SPDX-License-Identifier: Apache-2.0
#include "server/api/access/request_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"

#include "duetime/v1/message.pb.h"
#include "server/base/check.h"

namespace duetime::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls `visit` with the text of each field that the path leads to. The text is in the message.
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
    std::string unused;
    return visit(absl::string_view(reflection->GetStringReference(message, field, &unused)));
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

std::vector<std::string> TopicsIn(const Message& request, absl::string_view topic_field) {
  std::vector<std::string> topics;
  WalkPath(request, topic_field, [&topics](absl::string_view topic) {
    // Neighbours of a batch mostly name the same topic.
    if (!topic.empty() && (topics.empty() || topics.back() != topic)) topics.emplace_back(topic);
  });
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  return topics;
}

std::vector<absl::string_view> TopicsOfItems(const Message& request,
                                             absl::string_view topic_field) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(topic_field, absl::MaxSplits('.', 1));
  const FieldDescriptor* const items =
      request.GetDescriptor()->FindFieldByName(std::string(parts.first));
  DT_CHECK(items != nullptr && items->is_repeated());
  const google::protobuf::Reflection* const reflection = request.GetReflection();
  std::vector<absl::string_view> topics(static_cast<size_t>(reflection->FieldSize(request, items)));
  for (size_t i = 0; i < topics.size(); ++i) {
    WalkPath(reflection->GetRepeatedMessage(request, items, static_cast<int>(i)), parts.second,
             [&](absl::string_view topic) { topics[i] = topic; });
  }
  return topics;
}

bool AsksForPayloads(const Message& request) {
  const FieldDescriptor* const view = request.GetDescriptor()->FindFieldByName("view");
  return view != nullptr &&
         request.GetReflection()->GetEnumValue(request, view) == v1::MESSAGE_VIEW_FULL;
}

std::string ObjectOf(const Message& request) {
  std::string object;
  const auto take = [&object](absl::string_view text) {
    if (object.empty()) object = std::string(text);
  };
  for (const char* const path :
       {"subscription.name", "name", "recurrence.name", "message_id", "key.key", "id"}) {
    WalkPath(request, path, take);
  }
  return object;
}

}  // namespace duetime::api
