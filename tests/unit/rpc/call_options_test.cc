// SPDX-License-Identifier: Apache-2.0
//
// The options of the protos' methods against the protos, the server and a gateway.
#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/call.pb.h"
#include "duetime/v1/messages.pb.h"
#include "server/api/access/authorization.h"
#include "server/api/access/request_fields.h"
#include "server/api/call_table.h"
#include "server/api/unary.h"
#include "server/gateway/unary.h"

namespace duetime::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;

// Whose requests name an object without its topic, ask for all topics, or work on the whole server.
const std::set<std::string>& WithoutTopic() {
  static const auto* const methods = new std::set<std::string>{
      "PauseRecurrence",   "ResumeRecurrence", "DeleteRecurrence", "GetRecurrence",
      "PreviewRecurrence", "ListTopics",       "GetOperation",     "CancelOperation",
      "StartBackup",       "ReadBackup",       "EndBackup",        "HandOver",
      "EndStream",         "Settle",           "SetClock",         "Advance",
      "AdvanceToNext"};
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

// The name of a method of duetime.v1, and what it needs and does.
std::vector<std::pair<const MethodDescriptor*, const v1::Call*>> Methods() {
  std::vector<std::pair<const MethodDescriptor*, const v1::Call*>> methods;
  for (const metrics::RpcMethod id : OurMethods()) {
    EXPECT_EQ(api::MethodOf(api::DescriptorOf(id).input_type()), id);
    methods.emplace_back(&api::DescriptorOf(id), &api::CallOf(id));
  }
  return methods;
}

TEST(CallOptionsTest, EachMethodSaysWhatItNeedsAndDoes) {
  for (const auto& [method, call] : Methods()) {
    SCOPED_TRACE(method->name());
    EXPECT_TRUE(method->options().HasExtension(v1::call));
    EXPECT_NE(call->repeat(), v1::CALL_REPEAT_UNSPECIFIED);
    EXPECT_NE(call->route(), v1::CALL_ROUTE_UNSPECIFIED);
    // The calls on a stream need their own rights.
    const std::set<std::string> all_may = {"ServerInfo", "CheckAccess", "CallStream", "GetClock"};
    const bool open = all_may.contains(method->name());
    EXPECT_EQ(call->rights().empty(), open);
    for (const v1::CallRight& right : call->rights()) {
      EXPECT_TRUE(ToVerb(right.verb()).has_value());
      EXPECT_EQ(LeadsToText(method->input_type(), right.topic()),
                WithoutTopic().count(method->name()) == 0)
          << right.topic();
    }
  }
  EXPECT_GE(Methods().size(), 44u);
}

TEST(CallOptionsTest, EachVerbOfTheProtosIsOneOfTheRules) {
  const auto* verbs = v1::AccessVerb_descriptor();
  EXPECT_EQ(verbs->value_count(), static_cast<int>(access::kVerbCount) + 1);
  for (int i = 1; i < verbs->value_count(); ++i) {
    const auto verb = ToVerb(static_cast<v1::AccessVerb>(verbs->value(i)->number()));
    ASSERT_TRUE(verb.has_value());
    EXPECT_EQ(absl::AsciiStrToLower(verbs->value(i)->name()),
              absl::StrCat("access_verb_", access::NameOf(*verb)));
  }
}

TEST(CallOptionsTest, ServerAndGatewayHaveARowForEachUnaryMethod) {
  for (const auto& [method, call] : Methods()) {
    SCOPED_TRACE(method->name());
    const metrics::RpcMethod id = api::MethodOf(method->input_type());
    const auto rows = [id, method = method](std::span<const rpc::UnaryMethod> methods) {
      return std::count_if(methods.begin(), methods.end(), [&](const rpc::UnaryMethod& row) {
        return row.id == id && row.descriptor == method;
      });
    };
    EXPECT_EQ(rows(UnaryMethods()), method->client_streaming() ? 0 : 1);
    const bool none = method->client_streaming() || call->route() == v1::CALL_ROUTE_NONE;
    EXPECT_EQ(rows(gateway::UnaryMethods()), none ? 0 : 1);
  }
}

TEST(CallOptionsTest, FindsTopicsAndObjects) {
  v1::ScheduleBatchRequest batch;
  for (const char* topic : {"b", "a", "b", ""}) batch.add_messages()->set_topic(topic);
  EXPECT_EQ(TopicsIn(batch, "messages.topic"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(TopicsOfItems(batch, "messages.topic"),
            (std::vector<absl::string_view>{"b", "a", "b", ""}));
  v1::CancelBatchRequest cancels;
  cancels.add_cancels()->set_message_id("id");
  cancels.add_cancels()->mutable_key()->set_topic("a");
  EXPECT_EQ(TopicsOfItems(cancels, "cancels.key.topic"), (std::vector<absl::string_view>{"", "a"}));
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
