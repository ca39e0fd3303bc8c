// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/id_fields.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/failure.pb.h"
#include "duetime/v1/message.pb.h"

namespace duetime::gateway {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::array<absl::string_view, 6> kIdNames = {"message_id",      "previous_message_id",
                                                       "next_message_id", "ordering_key_holder",
                                                       "dead_letter_id",  "lease_token"};
// Lists of tokens: of SubscribeRequest, SubscribeResponse and SettleResponse. And one of ids: of
// Message.
constexpr std::array<absl::string_view, 4> kIdLists = {"settled", "extended", "begun",
                                                       "dead_letter_ids"};

bool IsId(const FieldDescriptor& field) {
  if (field.type() != FieldDescriptor::TYPE_STRING) return false;
  if (field.is_repeated()) {
    return std::find(kIdLists.begin(), kIdLists.end(), field.name()) != kIdLists.end();
  }
  return IsIdName(field.name()) ||
         (field.containing_type() == v1::Message::descriptor() && field.name() == "id");
}

// What to do with a message of one type.
struct Plan {
  std::vector<const FieldDescriptor*> ids;
  // Fields whose messages have ids.
  std::vector<const FieldDescriptor*> inner;
  bool has_metadata = false;

  bool empty() const { return ids.empty() && inner.empty() && !has_metadata; }
};

// No type of duetime contains itself.
const Plan& PlanOf(const Descriptor* type) {
  thread_local absl::flat_hash_map<const Descriptor*, std::unique_ptr<Plan>> plans;
  if (const auto it = plans.find(type); it != plans.end()) return *it->second;
  auto plan = std::make_unique<Plan>();
  plan->has_metadata = type == v1::Failure::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (IsId(*field)) plan->ids.push_back(field);
    if (field->type() == FieldDescriptor::TYPE_MESSAGE && !field->is_map() &&
        !PlanOf(field->message_type()).empty()) {
      plan->inner.push_back(field);
    }
  }
  return *plans.emplace(type, std::move(plan)).first->second;
}

void Change(const std::function<std::string(const std::string&)>& change, std::string* text) {
  if (!text->empty()) *text = change(*text);
}

void ChangeField(const FieldDescriptor* field,
                 const std::function<std::string(const std::string&)>& change, Message* message) {
  const Reflection* const reflection = message->GetReflection();
  std::string scratch;
  if (field->is_repeated()) {
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      std::string text = reflection->GetRepeatedString(*message, field, i);
      Change(change, &text);
      reflection->SetRepeatedString(message, field, i, std::move(text));
    }
  } else if (reflection->HasField(*message, field)) {
    reflection->SetString(message, field,
                          change(reflection->GetStringReference(*message, field, &scratch)));
  }
}

}  // namespace

bool IsIdName(const std::string& name) {
  return std::find(kIdNames.begin(), kIdNames.end(), name) != kIdNames.end();
}

void ChangeIds(Message* message, const std::function<std::string(const std::string&)>& change) {
  const Plan& plan = PlanOf(message->GetDescriptor());
  for (const FieldDescriptor* field : plan.ids) ChangeField(field, change, message);
  const Reflection* const reflection = message->GetReflection();
  for (const FieldDescriptor* field : plan.inner) {
    if (field->is_repeated()) {
      const int size = reflection->FieldSize(*message, field);
      for (int i = 0; i < size; ++i) {
        ChangeIds(reflection->MutableRepeatedMessage(message, field, i), change);
      }
    } else if (reflection->HasField(*message, field)) {
      ChangeIds(reflection->MutableMessage(message, field), change);
    }
  }
  if (!plan.has_metadata) return;
  for (auto& [name, value] : *static_cast<v1::Failure*>(message)->mutable_metadata()) {
    if (IsIdName(name)) Change(change, &value);
  }
}

}  // namespace duetime::gateway
