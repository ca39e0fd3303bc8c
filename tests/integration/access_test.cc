// SPDX-License-Identifier: Apache-2.0
//
// Who may do what: tokens, rules, quotas and the audit log of the daemon.
#include <fstream>
#include <grpcpp/generic/generic_stub.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"

#include "tests/integration/daemon_fixture.h"
#include "tests/support/http_get.h"

namespace duetime::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The SHA-256 of the tokens "alice", "bob" and "nobody".
constexpr char kTokens[] = R"(
[[token]]
name = "alice"
sha256 = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90"
[[token]]
name = "bob"
sha256 = "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9"
[[token]]
name = "nobody"
sha256 = "6382b3cc881412b77bfcaeed026001c00d9e3025e66c20f6e7e92f079851462a"
)";

// With the user of the test as operator, by its number.
std::string Rules() {
  return R"(
[[rule]]
who = ["alice"]
may = ["schedule", "cancel", "read_payloads", "subscribe", "admin"]
topics = ["a", "a.*"]
[[rule]]
who = ["bob"]
may = ["schedule", "cancel", "read", "subscribe"]
topics = ["b"]
[[rule]]
may = ["schedule", "cancel", "read_payloads", "subscribe", "admin", "operate"]
topics = ["*"]
who = ["unix:)" +
         std::to_string(getuid()) + "\"]\n";
}

class AccessTest : public DaemonTest {
 protected:
  AccessTest() {
    Write("tokens.toml", kTokens);
    Write("access.toml", Rules());
  }

  // A change must be in another inode, as tools write files: the clock of a file's time is coarse.
  void Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.Join(name);
    std::ofstream(path + ".new", std::ios::trunc) << text;
    std::filesystem::rename(path + ".new", path);
  }

  void StartWithAccess(std::vector<std::string> flags = {}, bool metrics = false) {
    flags.push_back("--access-file=" + directory_.Join("access.toml"));
    flags.push_back("--tokens-file=" + directory_.Join("tokens.toml"));
    flags.push_back("--audit-log=" + directory_.Join("audit.log"));
    StartDaemon(flags, /*tcp=*/true, metrics);
    tcp_ = grpc::CreateChannel(server_->tcp_target(), grpc::InsecureChannelCredentials());
  }

  // The context of a call with a token. "": over TCP, the client is anonymous.
  static std::unique_ptr<grpc::ClientContext> As(const std::string& token) {
    auto context = std::make_unique<grpc::ClientContext>();
    SetDeadline(context.get());
    if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
    return context;
  }

  // Makes any unary call.
  grpc::Status Call(const std::string& token, const std::string& path,
                    const google::protobuf::Message& request,
                    google::protobuf::Message* response = nullptr) {
    grpc::GenericStub stub(tcp_);
    grpc::CompletionQueue queue;
    const auto context = As(token);
    const grpc::Slice slice(request.SerializeAsString());
    const grpc::ByteBuffer bytes(&slice, 1);
    auto call = stub.PrepareUnaryCall(context.get(), "/duetime.v1." + path, bytes, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    if (status.ok() && response != nullptr) {
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(answer.Dump(&slices).ok());
      std::string text;
      for (const grpc::Slice& part : slices) {
        text.append(reinterpret_cast<const char*>(part.begin()), part.size());
      }
      EXPECT_TRUE(response->ParseFromString(text));
    }
    return status;
  }

  std::string ScheduleAs(const std::string& token, const std::string& topic, Millis delay) {
    v1::ScheduleResponse response;
    const grpc::Status status = Call(token, "Messages/Schedule", Request(topic, delay), &response);
    return status.ok() ? response.message().id() : InfoOf(status).reason;
  }

  v1::CancelResponse::Outcome CancelAs(const std::string& token, const std::string& id) {
    v1::CancelRequest request;
    request.set_message_id(id);
    v1::CancelResponse response;
    EXPECT_TRUE(Call(token, "Messages/Cancel", request, &response).ok());
    return response.outcome();
  }

  bool MaySchedule(const std::string& token, const std::string& topic) {
    constexpr size_t kIdBytes = 26;
    return ScheduleAs(token, topic, Millis(3'600'000)).size() == kIdBytes;
  }

  // The server reads the files about once a second.
  void WaitUntilMaySchedule(const std::string& token, const std::string& topic) {
    const auto deadline = Clock::now() + Millis(5'000);
    while (!MaySchedule(token, topic) && Clock::now() < deadline) {
    }
    EXPECT_TRUE(MaySchedule(token, topic));
  }

  std::vector<nlohmann::json> Audited() {
    std::vector<nlohmann::json> lines;
    std::ifstream file(directory_.Join("audit.log"));
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  const TempDirectory directory_;
  std::shared_ptr<grpc::Channel> tcp_;
};

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

  // One item refuses the whole batch: the forecast below counts no message of it.
  v1::ScheduleBatchRequest mixed;
  *mixed.add_messages() = Request("b", Millis(3'600'000));
  *mixed.add_messages() = Request("a", Millis(3'600'000));
  EXPECT_EQ(InfoOf(Call("bob", "Messages/ScheduleBatch", mixed)).reason, "ACCESS_DENIED");

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
  }
}

TEST_F(AccessTest, ARefusedClientUsesNothingOfTheQuotaOfATopic) {
  Write("access.toml", Rules() + R"(
[[quota]]
who = ["alice"]
messages_per_second = 1
[[quota]]
topics = ["a"]
messages_per_second = 100
)");
  StartWithAccess();
  size_t refused = 0;
  for (int i = 0; i < 300; ++i) {
    if (ScheduleAs("alice", "a", Millis(3'600'000)) == "QUOTA_EXCEEDED") ++refused;
  }
  EXPECT_GT(refused, 250u);
  MustSchedule("a", Millis(3'600'000));
}

TEST_F(AccessTest, QuotasNameThemselvesAndHoldForEachClient) {
  Write("access.toml", Rules() + R"(
[[quota]]
who = ["alice", "bob"]
messages_per_second = 5
streams = 1
[[quota]]
topics = ["a.slow"]
messages_per_second = 1
)");
  StartWithAccess({}, /*metrics=*/true);
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 50; ++i) *batch.add_messages() = Request("a", Millis(3'600'000));
  ASSERT_TRUE(Call("alice", "Messages/ScheduleBatch", batch).ok());
  const grpc::Status refused = Call("alice", "Messages/Schedule", Request("a", Millis(0)));
  const client::ErrorInfo info = InfoOf(refused);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(info.reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(info.metadata.at("quota"), "messages_per_second");
  EXPECT_EQ(info.metadata.at("of"), "alice");
  ASSERT_TRUE(info.retry_delay.has_value());
  EXPECT_GT(*info.retry_delay, absl::Seconds(7));
  EXPECT_EQ(ScheduleAs("bob", "b", Millis(0)).size(), 26u);
  // Each topic has a quota of its own, whoever schedules.
  for (int i = 0; i < 3; ++i) MustSchedule("a.fast", Millis(3'600'000));
  v1::Message message;
  ASSERT_TRUE(Schedule(Request("a.slow", Millis(3'600'000)), &message).ok());
  ASSERT_TRUE(Schedule(Request("a.slow", Millis(3'600'000)), &message).ok());
  EXPECT_EQ(InfoOf(Schedule(Request("a.slow", Millis(3'600'000)), &message)).metadata.at("of"),
            "topic a.slow");

  const auto stub = v1::Messages::NewStub(tcp_);
  const auto first = As("bob");
  const auto second = As("bob");
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("b");
  const auto one = stub->Subscribe(first.get());
  one->Write(start);
  v1::SubscribeResponse response;
  ASSERT_TRUE(one->Read(&response));
  EXPECT_EQ(InfoOf(stub->Subscribe(second.get())->Finish()).metadata.at("quota"), "streams");
  v1::CheckAccessRequest check;
  check.set_verb(v1::ACCESS_VERB_CANCEL);
  check.set_topic("b");
  v1::CheckAccessResponse answer;
  ASSERT_TRUE(Call("bob", "Admin/CheckAccess", check, &answer).ok());
  EXPECT_TRUE(answer.allowed());
  EXPECT_EQ(answer.principal(), "bob");
  EXPECT_EQ(answer.quota().open_streams(), 1);
  EXPECT_THAT(answer.explanation(), HasSubstr("line 6"));
  check.set_principal("alice");
  EXPECT_EQ(InfoOf(Call("bob", "Admin/CheckAccess", check)).reason, "ACCESS_DENIED");
  const std::string metrics = HttpGet(server_->metrics_port(), "/metrics");
  for (const char* line : {"used_total{principal=\"alice\",quota=\"messages_per_second\"} 50",
                           "refused_total{principal=\"alice\",quota=\"messages_per_second\"} 1",
                           "used_total{principal=\"bob\",quota=\"messages_per_second\"} 1",
                           "used_total{principal=\"bob\",quota=\"streams\"} 1",
                           "refused_total{principal=\"bob\",quota=\"streams\"} 1"}) {
    EXPECT_THAT(metrics, HasSubstr(std::string("\nduetime_quota_") + line + "\n"));
  }
  EXPECT_THAT(metrics, Not(HasSubstr("quota=\"bytes_per_second\"")));
  EXPECT_THAT(metrics, Not(HasSubstr("principal=\"unix:")));
  first->TryCancel();
}

TEST_F(AccessTest, CallsInFlightAreCountedUntilTheirEnd) {
  Write("access.toml", Rules() + "\n[[quota]]\nwho = [\"bob\"]\ncalls_in_flight = 1\n");
  StartWithAccess();
  const auto stub = v1::Messages::NewStub(tcp_);
  // One call after the other is one at a time.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(MaySchedule("bob", "b"));
  v1::PullRequest pull;
  pull.set_topic("b");
  pull.mutable_wait()->set_seconds(20);
  const auto context = As("bob");
  v1::PullResponse response;
  grpc::CompletionQueue queue;
  const auto waiting = stub->AsyncPull(context.get(), pull, &queue);
  grpc::Status status;
  waiting->Finish(&response, &status, &queue);
  const auto deadline = Clock::now() + Millis(5'000);
  std::string reason;
  while (reason != "QUOTA_EXCEEDED" && Clock::now() < deadline) {
    reason = ScheduleAs("bob", "b", Millis(3'600'000));
  }
  EXPECT_EQ(reason, "QUOTA_EXCEEDED");
  context->TryCancel();
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  WaitUntilMaySchedule("bob", "b");
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
  const auto deadline = Clock::now() + Millis(5'000);
  while (Audited().size() < 5 && Clock::now() < deadline) {
  }
  const std::vector<nlohmann::json> lines = Audited();
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
  const RunResult checked = RunProgram({DUETIME_DAEMON, "--check-config", "--data-dir=/nowhere",
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
    words.insert(words.begin(), DUETIME_CLI);
    return RunProgram(words);
  };
  // The name of an existing principal: for rotation.
  const RunResult made =
      tool({"token", "create", "bob", file, "--group", "g", "--group", "h", "--expires", "+1d"});
  ASSERT_EQ(made.exit.code, 0) << made.err;
  const std::string token = made.out.substr(0, made.out.find('\n'));
  EXPECT_EQ(token.substr(0, 3), "dt_");
  WaitUntilMaySchedule(token, "b");
  EXPECT_TRUE(MaySchedule("bob", "b"));

  const RunResult list = tool({"token", "list", file});
  EXPECT_THAT(list.out, HasSubstr("g,h"));
  EXPECT_THAT(list.out, HasSubstr("never"));
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
  const RunResult run = RunProgram(
      {DUETIME_DAEMON, "--data-dir=" + directory_.Join("d"), "--init", "--listen=127.0.0.1:0",
       "--metrics-listen=", "--access-file=" + directory_.Join("access.toml")});
  EXPECT_EQ(run.exit.code, 78);
  EXPECT_THAT(run.err, HasSubstr("access.toml:3:"));
  EXPECT_FALSE(std::filesystem::exists(directory_.Join("d")));
}

}  // namespace
}  // namespace duetime::test
