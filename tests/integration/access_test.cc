// SPDX-License-Identifier: Apache-2.0
//
// Who may do what: tokens, rules, quotas and the audit log of the daemon.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"

#include "tests/integration/access_fixture.h"
#include "tests/support/http_get.h"
#include "tests/support/paths.h"

namespace duetime::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST_F(AccessTest, NoMethodForgetsToAsk) {
  StartWithAccess();
  const std::set<std::string> open = {"ServerInfo", "CheckAccess"};
  for (const char* service : {"duetime.v1.Messages", "duetime.v1.Admin"}) {
    const auto* descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const auto* method = descriptor->method(i);
      if (method->client_streaming()) continue;
      SCOPED_TRACE(method->name());
      const std::unique_ptr<google::protobuf::Message> empty(
          google::protobuf::MessageFactory::generated_factory()
              ->GetPrototype(method->input_type())
              ->New());
      const std::string path = descriptor->name() + "/" + method->name();
      EXPECT_EQ(InfoOf(Call("", path, *empty)).reason, "CREDENTIALS_REQUIRED");
      EXPECT_EQ(InfoOf(Call("wrong", path, *empty)).reason, "INVALID_CREDENTIALS");
      const std::string reason = InfoOf(Call("nobody", path, *empty)).reason;
      EXPECT_EQ(reason == "ACCESS_DENIED", open.count(method->name()) == 0) << reason;
    }
  }
  for (const std::string token : {"", "nobody"}) {
    const auto context = As(token);
    const auto stub = v1::Messages::NewStub(tcp_);
    const auto stream = stub->Subscribe(context.get());
    v1::SubscribeRequest start;
    start.mutable_start()->set_topic("a");
    stream->Write(start);
    EXPECT_EQ(InfoOf(stream->Finish()).reason,
              token.empty() ? "CREDENTIALS_REQUIRED" : "ACCESS_DENIED");
    const auto frames = As(token);
    const auto schedule = stub->ScheduleStream(frames.get());
    v1::ScheduleStreamRequest frame;
    *frame.add_messages() = Request("a", Millis(0));
    schedule->Write(frame);
    EXPECT_EQ(InfoOf(schedule->Finish()).reason,
              token.empty() ? "CREDENTIALS_REQUIRED" : "ACCESS_DENIED");
  }
}

TEST_F(AccessTest, ATopicOfOthersLooksAsIfItWereNotThere) {
  StartWithAccess();
  const std::string of_alice = ScheduleAs("alice", "a", Millis(3'600'000));
  ASSERT_EQ(of_alice.size(), 26u);
  EXPECT_EQ(ScheduleAs("bob", "a", Millis(0)), "ACCESS_DENIED");
  EXPECT_EQ(ScheduleAs("bob", "no-such-topic", Millis(0)), "ACCESS_DENIED");
  // What cannot be a topic is not repeated.
  const grpc::Status denied =
      Call("bob", "Messages/Schedule", Request(std::string(100'000, 't'), Millis(0)));
  EXPECT_EQ(InfoOf(denied).reason, "ACCESS_DENIED");
  EXPECT_EQ(denied.error_message(), "bob has no right to schedule");
  ASSERT_EQ(ScheduleAs("bob", "b", Millis(3'600'000)).size(), 26u);

  // By id: as an id that was never given.
  v1::GetRequest get;
  get.set_message_id(of_alice);
  EXPECT_EQ(InfoOf(Call("bob", "Messages/Get", get)).reason, "MESSAGE_NOT_FOUND");
  EXPECT_TRUE(Call("alice", "Messages/Get", get).ok());
  EXPECT_EQ(CancelAs("bob", of_alice), v1::CancelResponse::OUTCOME_NOT_FOUND);
  v1::RescheduleRequest move;
  move.set_message_id(of_alice);
  move.mutable_delay()->set_seconds(1);
  v1::RescheduleResponse moved;
  EXPECT_TRUE(Call("bob", "Messages/Reschedule", move, &moved).ok());
  EXPECT_EQ(moved.outcome(), v1::RescheduleResponse::OUTCOME_NOT_FOUND);
  v1::CancelBatchRequest batch;
  batch.add_cancels()->set_message_id(of_alice);
  v1::CancelBatchResponse cancelled;
  EXPECT_TRUE(Call("bob", "Messages/CancelBatch", batch, &cancelled).ok());
  EXPECT_EQ(cancelled.results(0).cancel().outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  EXPECT_EQ(CancelAs("alice", of_alice), v1::CancelResponse::OUTCOME_CANCELLED);
  // Also after the end, when a tombstone answers.
  EXPECT_EQ(CancelAs("bob", of_alice), v1::CancelResponse::OUTCOME_NOT_FOUND);
  EXPECT_EQ(CancelAs("alice", of_alice), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);

  v1::ListTopicsResponse topics;
  v1::ListTopicsRequest one;
  one.set_page_size(1);
  ASSERT_TRUE(Call("bob", "Admin/ListTopics", one, &topics).ok());
  ASSERT_EQ(topics.topics_size(), 1);
  EXPECT_EQ(topics.topics(0).name(), "b");
  // A token would name a topic.
  EXPECT_EQ(topics.next_page_token(), "");
  v1::ForecastResponse forecast;
  ASSERT_TRUE(Call("alice", "Admin/Forecast", v1::ForecastRequest(), &forecast).ok());
  EXPECT_EQ(forecast.total().messages(), 0);
  ASSERT_TRUE(Call("bob", "Admin/Forecast", v1::ForecastRequest(), &forecast).ok());
  EXPECT_EQ(forecast.total().messages(), 1);
  v1::ServerInfoResponse info;
  ASSERT_TRUE(Call("bob", "Admin/ServerInfo", v1::ServerInfoRequest(), &info).ok());
  EXPECT_FALSE(info.has_counts());
}

// Each item by its own topic; the audit log has one refusal for each call.
TEST_F(AccessTest, ABatchIsJudgedItemByItem) {
  StartWithAccess();
  const std::vector<std::string> topics = {"b", "a", "no-such-topic", "b", "a", "not a topic"};
  const std::vector<std::string> reasons = {"OK", "ACCESS_DENIED", "ACCESS_DENIED",
                                            "OK", "ACCESS_DENIED", "ACCESS_DENIED"};
  v1::ScheduleBatchRequest batch;
  v1::ScheduleStreamRequest frame;
  v1::CancelBatchRequest cancels;
  for (const std::string& topic : topics) {
    *batch.add_messages() = *frame.add_messages() = Request(topic, Millis(3'600'000));
    cancels.add_cancels()->mutable_key()->set_topic(topic);
    cancels.mutable_cancels()->rbegin()->mutable_key()->set_key("k");
  }
  const auto reasons_of = [](const auto& results) {
    std::vector<std::string> all;
    for (const auto& result : results) {
      all.push_back(result.has_error() ? result.error().reason() : "OK");
    }
    return all;
  };
  v1::ScheduleBatchResponse scheduled;
  EXPECT_TRUE(Call("bob", "Messages/ScheduleBatch", batch, &scheduled).ok());
  EXPECT_EQ(reasons_of(scheduled.results()), reasons);
  EXPECT_EQ(scheduled.results(1).error().metadata().at("topic"), "a");
  EXPECT_EQ(scheduled.results(1).error().message(), "bob has no right to schedule on topic a");
  v1::CancelBatchResponse cancelled;
  EXPECT_TRUE(Call("bob", "Messages/CancelBatch", cancels, &cancelled).ok());
  EXPECT_EQ(reasons_of(cancelled.results()), reasons);
  const auto context = As("bob");
  const auto stream = v1::Messages::NewStub(tcp_)->ScheduleStream(context.get());
  v1::ScheduleStreamResponse answer;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write(frame) && stream->Read(&answer));
    EXPECT_EQ(reasons_of(answer.results()), reasons);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  // Nowhere: the call costs the server nothing.
  for (const char* method : {"ScheduleBatch", "CancelBatch"}) {
    const google::protobuf::Message& request =
        *method == 'S' ? static_cast<const google::protobuf::Message&>(batch) : cancels;
    EXPECT_EQ(InfoOf(Call("nobody", std::string("Messages/") + method, request)).reason,
              "ACCESS_DENIED");
  }
  EXPECT_THAT(AuditedCalls(6, "reason"),
              ElementsAre("ScheduleBatch a ACCESS_DENIED", "CancelBatch a ACCESS_DENIED",
                          "ScheduleStream a ACCESS_DENIED", "ScheduleStream a ACCESS_DENIED",
                          "ScheduleBatch a ACCESS_DENIED", "CancelBatch a ACCESS_DENIED"));
}

TEST_F(AccessTest, PayloadsRecurrencesAndOperationsFollowTheirTopics) {
  StartWithAccess();
  v1::CreateRecurrenceRequest create;
  create.mutable_recurrence()->set_name("r");
  create.mutable_recurrence()->set_topic("b");
  create.mutable_recurrence()->mutable_template_()->set_payload("secret");
  create.mutable_recurrence()->mutable_schedule()->mutable_interval()->set_seconds(3'600);
  ASSERT_TRUE(Call("bob", "Messages/CreateRecurrence", create).ok());
  v1::GetRecurrenceRequest named;
  named.set_name("r");
  EXPECT_EQ(InfoOf(Call("alice", "Messages/GetRecurrence", named)).reason, "RECURRENCE_NOT_FOUND");
  v1::DeleteRecurrenceRequest remove;
  remove.set_name("r");
  EXPECT_EQ(InfoOf(Call("alice", "Messages/DeleteRecurrence", remove)).reason,
            "RECURRENCE_NOT_FOUND");
  v1::ListRecurrencesResponse list;
  ASSERT_TRUE(Call("alice", "Messages/ListRecurrences", v1::ListRecurrencesRequest(), &list).ok());
  EXPECT_EQ(list.recurrences_size(), 0);
  // Bob may read, but no payloads.
  v1::GetRecurrenceResponse got;
  ASSERT_TRUE(Call("bob", "Messages/GetRecurrence", named, &got).ok());
  EXPECT_EQ(got.recurrence().template_().payload(), "");
  v1::PauseRecurrenceRequest pause;
  pause.set_name("r");
  v1::PauseRecurrenceResponse paused;
  ASSERT_TRUE(Call("bob", "Messages/PauseRecurrence", pause, &paused).ok());
  EXPECT_EQ(paused.recurrence().template_().payload(), "");
  v1::UpdateRecurrenceRequest change;
  change.mutable_recurrence()->set_name("r");
  change.mutable_recurrence()->mutable_schedule()->mutable_interval()->set_seconds(60);
  change.mutable_update_mask()->add_paths("schedule");
  v1::UpdateRecurrenceResponse changed;
  const grpc::Status update_status = Call("bob", "Messages/UpdateRecurrence", change, &changed);
  ASSERT_TRUE(update_status.ok()) << update_status.error_message();
  EXPECT_EQ(changed.recurrence().template_().payload(), "");
  v1::GetRequest get;
  get.set_message_id(ScheduleAs("bob", "b", Millis(3'600'000)));
  EXPECT_TRUE(Call("bob", "Messages/Get", get).ok());
  get.set_view(v1::MESSAGE_VIEW_FULL);
  EXPECT_EQ(InfoOf(Call("bob", "Messages/Get", get)).reason, "ACCESS_DENIED");

  ScheduleAs("alice", "a", Millis(3'600'000));
  v1::StartBulkRequest bulk;
  bulk.set_topic("a");
  bulk.set_name("op");
  bulk.set_action(v1::BULK_ACTION_CANCEL);
  EXPECT_EQ(InfoOf(Call("bob", "Admin/StartBulk", bulk)).reason, "ACCESS_DENIED");
  ASSERT_TRUE(Call("alice", "Admin/StartBulk", bulk).ok());
  v1::GetOperationRequest operation;
  operation.set_name("op");
  EXPECT_EQ(InfoOf(Call("bob", "Admin/GetOperation", operation)).reason, "OPERATION_NOT_FOUND");
  EXPECT_TRUE(Call("alice", "Admin/GetOperation", operation).ok());
  v1::CancelOperationRequest stop;
  stop.set_name("op");
  EXPECT_EQ(InfoOf(Call("bob", "Admin/CancelOperation", stop)).reason, "ACCESS_DENIED");
  // A topic of one's own must not lead dead letters into a topic of others.
  v1::UpdateTopicRequest update;
  update.mutable_topic()->set_name("a");
  update.mutable_topic()->mutable_settings()->set_dead_letter_topic("b");
  update.mutable_update_mask()->add_paths("settings.dead_letter_topic");
  EXPECT_EQ(InfoOf(Call("alice", "Admin/UpdateTopic", update)).reason, "ACCESS_DENIED");
}

TEST_F(AccessTest, OpenStreamsFollowTheFiles) {
  StartWithAccess();
  MustSchedule("b", Millis(0));
  const auto context = As("bob");
  const auto stub = v1::Messages::NewStub(tcp_);
  const auto stream = stub->Subscribe(context.get());
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("b");
  stream->Write(start);
  v1::SubscribeResponse response;
  std::string id;
  while (id.empty() && stream->Read(&response)) {
    if (response.deliveries_size() > 0) id = response.deliveries(0).message_id();
  }
  const auto since = Clock::now();
  Write("access.toml", Rules() + "\n[groups]\nx = [\"y\"]\n");
  Write("tokens.toml", std::string(kTokens).replace(0, std::string(kTokens).rfind("[["), ""));
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(InfoOf(stream->Finish()).reason, "INVALID_CREDENTIALS");
  EXPECT_LT(Clock::now() - since, Millis(4'000));
  // Its lease is given back.
  Subscription other(channel_, {.topic = "b"});
  const auto received = other.Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.message_id(), id);

  Write("tokens.toml", kTokens);
  Write("access.toml", "[[rule]]\nwho = [\"bob\"]\nmay = [\"schedule\"]\ntopics = [\"b\"]\n");
  WaitUntilMaySchedule("bob", "b");
  EXPECT_EQ(ScheduleAs("alice", "a", Millis(0)), "ACCESS_DENIED");
  // The stream of the Unix user has lost its right.
  const auto ended = other.WaitEnd(Millis(5'000));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(InfoOf(*ended).reason, "ACCESS_DENIED");
  // A file with an error changes nothing.
  Write("access.toml", "[[rule]]\nwho = [\"bob\"]\nmay = [\"everything\"]\ntopics = [\"b\"]\n");
  const auto deadline = Clock::now() + Millis(5'000);
  while (server_->log().find("access.toml:3:") == std::string::npos && Clock::now() < deadline) {
  }
  EXPECT_THAT(server_->log(), HasSubstr("cannot read the access files"));
  EXPECT_EQ(ScheduleAs("bob", "b", Millis(0)).size(), 26u);
}

// Clients without rights must not fill the places for streams.
TEST_F(AccessTest, AStreamWithoutRightsEndsBeforeItsFirstRequest) {
  StartWithAccess();
  const auto stub = v1::Messages::NewStub(tcp_);
  for (const char* token : {"", "nobody"}) {
    const std::string reason = *token == '\0' ? "CREDENTIALS_REQUIRED" : "ACCESS_DENIED";
    const auto subscribing = As(token);
    const auto subscriber = stub->Subscribe(subscribing.get());
    v1::SubscribeResponse response;
    EXPECT_FALSE(subscriber->Read(&response));
    EXPECT_EQ(InfoOf(subscriber->Finish()).reason, reason);
    const auto scheduling = As(token);
    const auto scheduler = stub->ScheduleStream(scheduling.get());
    v1::ScheduleStreamResponse answer;
    EXPECT_FALSE(scheduler->Read(&answer));
    EXPECT_EQ(InfoOf(scheduler->Finish()).reason, reason);
    const auto calling = As(token);
    EXPECT_EQ(InfoOf(stub->CallStream(calling.get())->Finish()).reason, reason);
  }
}

TEST_F(AccessTest, AStreamOfOthersLooksAsIfItWereNotThere) {
  StartWithAccess();
  const auto context = As("alice");
  const auto stream = v1::Messages::NewStub(tcp_)->Subscribe(context.get());
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("a");
  ASSERT_TRUE(stream->Write(start));
  v1::SubscribeResponse started;
  ASSERT_TRUE(stream->Read(&started));
  v1::ListStreamsRequest list;
  const auto list_as = [&](const std::string& token) {
    v1::ListStreamsResponse page;
    EXPECT_TRUE(Call(token, "Admin/ListStreams", list, &page).ok());
    EXPECT_EQ(page.next_page_token(), "");
    return page;
  };
  EXPECT_EQ(list_as("bob").streams_size(), 0);
  const v1::ListStreamsResponse page = list_as("alice");
  ASSERT_EQ(page.streams_size(), 1);
  EXPECT_EQ(page.streams(0).principal(), "alice");
  EXPECT_THAT(page.streams(0).peer(), testing::StartsWith("127.0.0.1:"));
  list.set_topic("a");
  EXPECT_EQ(InfoOf(Call("bob", "Admin/ListStreams", list)).reason, "ACCESS_DENIED");

  v1::EndStreamRequest end;
  end.set_id(page.streams(0).id());
  EXPECT_EQ(InfoOf(Call("bob", "Admin/EndStream", end)).reason, "ACCESS_DENIED");
  EXPECT_TRUE(Call("alice", "Admin/EndStream", end).ok());
  EXPECT_EQ(InfoOf(stream->Finish()).reason, "STREAM_ENDED");
  std::vector<std::string> lines;
  for (const nlohmann::json& line : AuditLines(3)) {
    lines.push_back(absl::StrCat(line.value("principal", ""), " ", line.value("method", ""), " ",
                                 line.value("topic", ""), " ", line.value("object", ""), " ",
                                 line.value("code", "")));
  }
  EXPECT_THAT(lines, UnorderedElementsAre("bob ListStreams a  PERMISSION_DENIED",
                                          "bob EndStream  " + end.id() + " PERMISSION_DENIED",
                                          "alice EndStream a " + end.id() + " OK"));
}

// A call on a stream has the rights, the errors and the lines in the audit log that it has by
// itself.
TEST_F(AccessTest, ACallOnAStreamIsJudgedByItself) {
  StartWithAccess({"--audit-cancels"});
  const auto context = As("bob");
  const auto stream = v1::Messages::NewStub(tcp_)->CallStream(context.get());
  v1::CallStreamRequest frame;
  const std::vector<std::string> topics = {"b", "a"};
  for (const std::string& topic : topics) {
    v1::StreamedCall* call = frame.add_calls();
    call->set_number(frame.calls_size());
    *call->mutable_schedule() = Request(topic, Millis(3'600'000));
    call = frame.add_calls();
    call->set_number(frame.calls_size());
    call->mutable_cancel()->mutable_key()->set_topic(topic);
    call->mutable_cancel()->mutable_key()->set_key("k");
  }
  ASSERT_TRUE(stream->Write(frame));
  stream->WritesDone();
  std::map<int64_t, std::string> reasons;
  for (v1::CallStreamResponse response; stream->Read(&response);) {
    for (const v1::StreamedAnswer& answer : response.answers()) {
      reasons[answer.number()] = answer.has_error() ? answer.error().reason() : "OK";
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(reasons, ElementsAre(Pair(1, "OK"), Pair(2, "OK"), Pair(3, "ACCESS_DENIED"),
                                   Pair(4, "ACCESS_DENIED")));
  EXPECT_THAT(AuditedCalls(3, "code"),
              UnorderedElementsAre("Cancel b OK", "Schedule a PERMISSION_DENIED",
                                   "Cancel a PERMISSION_DENIED"));
}

TEST_F(AccessTest, TheAuditLogHasChangesAndRefusalsAndNoSecrets) {
  StartWithAccess({"--audit-cancels", "--log-level=debug"});
  v1::CreateTopicRequest create;
  create.mutable_topic()->set_name("a");
  ASSERT_TRUE(Call("alice", "Admin/CreateTopic", create).ok());
  v1::ScheduleResponse scheduled;
  ASSERT_TRUE(
      Call("alice", "Messages/Schedule", Request("a", Millis(3'600'000), "the-payload"), &scheduled)
          .ok());
  EXPECT_EQ(CancelAs("alice", scheduled.message().id()), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(InfoOf(Call("bob", "Admin/CreateTopic", create)).reason, "ACCESS_DENIED");
  Call("not-a-token-of-anyone", "Admin/CreateTopic", create);
  const auto context = As("bob");
  const auto stream = v1::Messages::NewStub(tcp_)->Subscribe(context.get());
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("a");
  stream->Write(start);
  EXPECT_EQ(InfoOf(stream->Finish()).reason, "ACCESS_DENIED");
  const std::vector<nlohmann::json> lines = AuditLines(5);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["principal"], "alice");
  EXPECT_EQ(lines[0]["method"], "CreateTopic");
  EXPECT_EQ(lines[0]["topic"], "a");
  EXPECT_EQ(lines[0]["code"], "OK");
  EXPECT_EQ(lines[0]["peer"], "127.0.0.1");
  EXPECT_EQ(lines[1]["method"], "Cancel");
  EXPECT_EQ(lines[1]["object"], scheduled.message().id());
  EXPECT_EQ(lines[2]["reason"], "ACCESS_DENIED");
  EXPECT_EQ(lines[3]["reason"], "INVALID_CREDENTIALS");
  EXPECT_EQ(lines[3]["principal"], "anonymous");
  EXPECT_EQ(lines[4]["method"], "Subscribe");
  EXPECT_EQ(lines[4]["reason"], "ACCESS_DENIED");
  std::ifstream file(directory_.Join("audit.log"));
  const std::string audit{std::istreambuf_iterator<char>(file), {}};
  const RunResult checked = RunProgram({kDaemon, "--check-config", "--data-dir=/nowhere",
                                        "--tokens-file=" + directory_.Join("tokens.toml")});
  for (const std::string& text : {audit, server_->log(), checked.out}) {
    for (const char* secret : {"the-payload", "not-a-token-of-anyone", "2bd806c97f0e00af"}) {
      EXPECT_THAT(text, Not(HasSubstr(secret)));
    }
  }
}

TEST_F(AccessTest, TheToolMakesListsAndRevokesTokens) {
  Write("access.toml",
        Rules() + "\n[[rule]]\nwho = [\"group:g'\"]\nmay = [\"schedule\"]\ntopics = [\"odd\"]\n");
  StartWithAccess();
  const std::string file = "--file=" + directory_.Join("tokens.toml");
  const auto tool = [&](std::vector<std::string> words) {
    words.insert(words.begin(), kTool);
    return RunProgram(words);
  };
  // The name of an existing principal: for rotation.
  const RunResult made =
      tool({"token", "create", "bob", file, "--group", "g'", "--group", "h", "--expires", "+1d"});
  ASSERT_EQ(made.exit.code, 0) << made.err;
  const std::string token = made.out.substr(0, made.out.find('\n'));
  EXPECT_EQ(token.substr(0, 3), "dt_");
  WaitUntilMaySchedule(token, "b");
  EXPECT_TRUE(MaySchedule("bob", "b"));

  const RunResult list = tool({"token", "list", file});
  EXPECT_THAT(list.out, HasSubstr("g',h"));
  EXPECT_THAT(list.out, HasSubstr("never"));
  // One of the two tokens has the group.
  const auto can = [&](const std::string& client, std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"access", "can", client, "schedule", "odd", "--server=" + server_->target()});
    return tool(more).out;
  };
  EXPECT_EQ(can("bob"),
            "bob may not schedule on odd: no rule of access_file allows it; but with another token "
            "of this name, in the groups g', h: the rule in line 15 of access_file allows it\n");
  EXPECT_THAT(can("bob", {"--group=h"}), HasSubstr("bob, in the group h, may not schedule on odd"));
  std::ifstream tokens(directory_.Join("tokens.toml"));
  const std::string text{std::istreambuf_iterator<char>(tokens), {}};
  EXPECT_THAT(text, Not(HasSubstr(token)));
  const std::string id = made.err.substr(made.err.find("token ") + 6, 8);
  EXPECT_EQ(tool({"token", "revoke", "0", file}).exit.code, 3);
  ASSERT_EQ(tool({"token", "revoke", id, file}).exit.code, 0);
  const auto deadline = Clock::now() + Millis(5'000);
  while (MaySchedule(token, "b") && Clock::now() < deadline) {
  }
  EXPECT_FALSE(MaySchedule(token, "b"));
  EXPECT_TRUE(MaySchedule("bob", "b"));
  for (const std::string& name :
       {std::string("a:b"), std::string("anonymous"), std::string("*"), std::string(513, 'a')}) {
    EXPECT_EQ(tool({"token", "create", name, file}).exit.code, 2) << name;
  }
  // Each name that the tool takes leaves a file that can be read.
  const RunResult odd = tool({"token", "create", "o'br\"ien\\ Zoë\n", file, "--group", "g'"});
  ASSERT_EQ(odd.exit.code, 0) << odd.err;
  EXPECT_THAT(tool({"token", "list", file}).out, HasSubstr("Zoë"));
  WaitUntilMaySchedule(odd.out.substr(0, odd.out.find('\n')), "odd");
  EXPECT_THAT(can("o'br\"ien\\ Zoë\n"), HasSubstr("in the group g', may schedule on odd"));

  // The tool is a Unix user here, who may ask about others.
  const std::string server = "--server=" + server_->target();
  const RunResult may = tool({"access", "can", "bob", "cancel", "b", server});
  EXPECT_EQ(may.exit.code, 0) << may.err;
  EXPECT_EQ(may.out, "bob may cancel on b: the rule in line 6 of access_file allows it\n");
  const RunResult may_not = tool({"access", "can", "bob", "cancel", "a", server});
  EXPECT_EQ(may_not.exit.code, 3);
  EXPECT_EQ(may_not.out, "bob may not cancel on a: no rule of access_file allows it\n");
  EXPECT_EQ(tool({"access", "can", "me", "operate", server}).exit.code, 0);
}

TEST_F(AccessTest, AStartRefusesAFileWithAnError) {
  Write("access.toml", "[[rule]]\nwho = [\"a\"]\nmay = [\"fly\"]\ntopics = [\"*\"]\n");
  const RunResult run =
      RunProgram({kDaemon, "--data-dir=" + directory_.Join("d"), "--init", "--listen=127.0.0.1:0",
                  "--metrics-listen=", "--access-file=" + directory_.Join("access.toml")});
  EXPECT_EQ(run.exit.code, 78);
  EXPECT_THAT(run.err, HasSubstr("access.toml:3:"));
  EXPECT_FALSE(std::filesystem::exists(directory_.Join("d")));
}

}  // namespace
}  // namespace duetime::test
