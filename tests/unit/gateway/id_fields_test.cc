// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/id_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>

#include "google/protobuf/dynamic_message.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::gateway {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Fills all fields of `message` with texts, some levels deep.
void Fill(Message* message) {
  const auto* const reflection = message->GetReflection();
  const Descriptor* const type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (field->is_repeated()) {
        reflection->AddString(message, field, "x");
      } else {
        reflection->SetString(message, field, "x");
      }
    } else if (field->type() == FieldDescriptor::TYPE_MESSAGE && !field->is_map()) {
      Fill(field->is_repeated() ? reflection->AddMessage(message, field)
                                : reflection->MutableMessage(message, field));
    }
  }
}

// Adds the names of the fields that hold "y".
void Collect(const Message& message, std::set<std::string>* names) {
  const auto* const reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count && !field->is_map(); ++i) {
      if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text = field->is_repeated()
                                     ? reflection->GetRepeatedString(message, field, i)
                                     : reflection->GetString(message, field);
        if (text == "y") names->insert(field->containing_type()->name() + "." + field->name());
      } else if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
        Collect(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                     : reflection->GetMessage(message, field),
                names);
      }
    }
  }
}

// All fields with an id or a token in the requests and responses of the API. If this list changes,
// think of what a gateway must do with the field.
TEST(IdFields, AreThese) {
  std::set<std::string> names;
  for (const auto* file :
       {v1::CallStreamRequest::descriptor()->file(), v1::ServerInfoRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service(0)->method_count(); ++i) {
      const auto* const method = file->service(0)->method(i);
      for (const Descriptor* type : {method->input_type(), method->output_type()}) {
        const std::unique_ptr<Message> message(
            google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
        Fill(message.get());
        ChangeIds(message.get(), [](const std::string& text) {
          EXPECT_EQ(text, "x");
          return std::string("y");
        });
        Collect(*message, &names);
      }
    }
  }
  EXPECT_THAT(names,
              testing::ElementsAre(
                  "BulkFilter.message_id", "CancelResponse.message_id", "DeadLetter.message_id",
                  "Delivery.lease_token", "Delivery.message_id", "HeldKey.message_id",
                  "Message.dead_letter_ids", "Message.id", "Recurrence.next_message_id",
                  "RescheduleResponse.message_id", "ScheduleResponse.previous_message_id",
                  "ScheduleResult.previous_message_id", "SettleRefusal.lease_token",
                  "SettleResponse.extended", "SettleResponse.settled", "Settlement.lease_token",
                  "SubscribeRequest.begun", "SubscribeResponse.begun", "SubscribeResponse.extended",
                  "SubscribeResponse.settled", "SubscriptionStatus.dead_letter_id",
                  "SubscriptionStatus.ordering_key_holder"));
}

TEST(IdFields, AreAlsoInTheMetadataOfAnError) {
  v1::ScheduleBatchResponse response;
  auto* const metadata = response.add_results()->mutable_error()->mutable_metadata();
  (*metadata)["message_id"] = "x";
  (*metadata)["topic"] = "x";
  (*metadata)["key"] = "";
  ChangeIds(&response, [](const std::string& text) { return "a." + text; });
  EXPECT_EQ(metadata->at("message_id"), "a.x");
  EXPECT_EQ(metadata->at("topic"), "x");
}

TEST(IdFields, LeaveEmptyTextsEmpty) {
  v1::ScheduleResponse response;
  response.mutable_message()->set_topic("t");
  ChangeIds(&response, [](const std::string&) { return std::string("y"); });
  EXPECT_EQ(response.message().id(), "");
  EXPECT_EQ(response.previous_message_id(), "");
}

}  // namespace
}  // namespace duetime::gateway
