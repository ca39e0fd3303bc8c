// SPDX-License-Identifier: Apache-2.0
//
// The table of rights against the protos.
#include "server/api/access/method_rights.h"

#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

// Whose requests name an object without its topic, ask for all topics, or work on the whole server.
const std::set<std::string>& WithoutTopic() {
  static const auto* const methods = new std::set<std::string>{
      "PauseRecurrence",   "ResumeRecurrence", "DeleteRecurrence", "GetRecurrence",
      "PreviewRecurrence", "ListTopics",       "GetOperation",     "CancelOperation",
      "StartBackup",       "ReadBackup",       "EndBackup",        "HandOver"};
  return *methods;
}

bool LeadsToText(const Descriptor* type, const std::string& path) {
  const FieldDescriptor* field = nullptr;
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    field = type == nullptr ? nullptr : type->FindFieldByName(std::string(part));
    if (field == nullptr) return false;
    type = field->message_type();
  }
  return field->type() == FieldDescriptor::TYPE_STRING;
}

TEST(MethodRightsTest, EachMethodHasARowWhoseTopicsExist) {
  size_t methods = 0;
  for (const char* service : {"duetime.v1.Messages", "duetime.v1.Admin"}) {
    const auto* descriptor = DescriptorPool::generated_pool()->FindServiceByName(service);
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const auto* method = descriptor->method(i);
      SCOPED_TRACE(method->name());
      size_t id = 0;
      while (id < metrics::kRpcMethodCount && method->name() != metrics::kRpcMethodNames[id]) ++id;
      ASSERT_LT(id, metrics::kRpcMethodCount);
      const MethodRights& row = RightsOf(static_cast<metrics::RpcMethod>(id));
      const bool open = method->name() == "ServerInfo" || method->name() == "CheckAccess";
      EXPECT_EQ(row.rights.empty(), open);
      for (const Right& right : row.rights) {
        EXPECT_EQ(LeadsToText(method->input_type(), right.topic_field),
                  WithoutTopic().count(method->name()) == 0)
            << right.topic_field;
      }
      ++methods;
    }
  }
  EXPECT_GE(methods, 39u);
}

TEST(MethodRightsTest, FindsTopicsAndObjects) {
  v1::ScheduleBatchRequest batch;
  for (const char* topic : {"b", "a", "b", ""}) batch.add_messages()->set_topic(topic);
  EXPECT_EQ(TopicsIn(batch, "messages.topic"), (std::vector<std::string>{"a", "b"}));
  v1::CancelRequest cancel;
  EXPECT_TRUE(TopicsIn(cancel, "key.topic").empty());
  cancel.mutable_key()->set_topic("t");
  cancel.mutable_key()->set_key("k");
  EXPECT_EQ(TopicsIn(cancel, "key.topic"), std::vector<std::string>{"t"});
  EXPECT_EQ(ObjectOf(cancel), "k");
  v1::ListRequest list;
  EXPECT_FALSE(AsksForPayloads(list));
  list.set_view(v1::MESSAGE_VIEW_FULL);
  EXPECT_TRUE(AsksForPayloads(list));
}

}  // namespace
}  // namespace duetime::api
