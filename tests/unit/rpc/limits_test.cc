// SPDX-License-Identifier: Apache-2.0
//
// The table of all limits of the configuration, and for each limit that counts things in the
// server: dead things do not fill it.
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

#include "server/config/knobs.h"
#include "tests/support/paths.h"
#include "tests/unit/rpc/subscription_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A server with small limits, and the dead things that could fill them.
class LimitsTest : public SubscriptionFixture {
 protected:
  // What ended counts for the safety of a repeat as long as request_retention.
  LimitsTest() { node_options_.limits.request_retention_ms = 0; }

  v1::Counts Counts() { return Must(&Admin::ServerInfo, "").counts(); }
  // Repeats `done` until it is true, within the deadline of a test.
  template <typename Done>
  static void Await(Done done) {
    const auto end = std::chrono::steady_clock::now() + kTestDeadline;
    bool is = done();
    while (!is && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      is = done();
    }
    EXPECT_TRUE(is);
  }
  std::string Refusal(const v1::ScheduleRequest& request) {
    const grpc::Status status = Call(&Messages::Schedule, request);
    return status.ok() ? "" : absl::StrCat(ReasonOf(status), ": ", status.error_message());
  }
  void Cancel(const std::string& id) { Must(&Messages::Cancel, "message_id: '" + id + "'"); }
  grpc::Status NewRecurrence(const std::string& name, bool once, const std::string& payload = "p",
                             bool validate_only = false) {
    return Call(&Messages::CreateRecurrence,
                absl::StrCat("recurrence { name: '", name, "' topic: 't' template { payload: '",
                             payload, "' } schedule { interval { seconds: 3600 } max_count: ",
                             once ? 1 : 0, " } } validate_only: ", validate_only ? 1 : 0));
  }
  void Complete(const std::string& name, const std::string& payload = "p") {
    const grpc::Status status = NewRecurrence(name, /*once=*/true, payload);
    ASSERT_TRUE(status.ok()) << status.error_message();
    v1::GetRecurrenceResponse got;
    Await([&] {
      return Call(&Messages::GetRecurrence, "name: '" + name + "'", &got).ok() &&
             got.recurrence().state() == v1::Recurrence::STATE_COMPLETED;
    });
  }
  bool Known(const std::string& recurrence) {
    return Call(&Messages::GetRecurrence, "name: '" + recurrence + "'").ok();
  }
  void DeleteRecurrence(const std::string& name) {
    Must(&Messages::DeleteRecurrence, "name: '" + name + "'");
  }
  grpc::Status StartOperation(const std::string& name) {
    return Call(&Admin::StartBulk, "topic: 't' action: BULK_ACTION_CANCEL name: '" + name + "'");
  }
  void AwaitOperation(const std::string& name) {
    v1::GetOperationResponse got;
    Await([&] {
      return Call(&Admin::GetOperation, "name: '" + name + "'", &got).ok() &&
             got.operation().state() == v1::Operation::STATE_DONE;
    });
  }

 public:
  void Topics() {
    node_options_.catalog.topics_max = 2;
    Start();
    for (const std::string name : {"a", "b"}) {
      ASSERT_TRUE(CreateTopic(name).ok());
      ASSERT_TRUE(DeleteTopic(name).ok());
    }
    EXPECT_EQ(Refusal(NewMessage("c", "p", 10)), "");
    EXPECT_EQ(Refusal(NewMessage("d", "p", 10)), "");
    EXPECT_EQ(Counts().topics(), 2);
    EXPECT_EQ(Counts().deleted_topics(), 2);
    EXPECT_EQ(Refusal(NewMessage("a", "p", 10)), "TOPIC_LIMIT: too many topics, limit 2");
    EXPECT_EQ(ReasonOf(CreateTopic("a")), "TOPIC_LIMIT");
  }
  // Their tombstones are kept, and then their names end.
  void DeletedTopics() {
    node_options_.catalog.topics_max = 2;
    Start();
    const auto come_and_go = [this](const std::string& name) {
      Cancel(MustSchedule(NewMessage(name, "p", 10)));
      ASSERT_TRUE(DeleteTopic(name).ok());
    };
    for (int i = 0; i < 4; ++i) come_and_go(absl::StrCat("old", i));
    EXPECT_EQ(Counts().deleted_topics(), 4);
    EXPECT_THAT(Refusal(NewMessage("new", "p", 10)),
                StartsWith("TOPIC_LIMIT: too many names of deleted topics"));
    for (int i = 0; i < 20; ++i) {
      clock_.Pass(25 * 3'600'000);
      EXPECT_EQ(Counts().deleted_topics(), 0) << i;
      come_and_go(absl::StrCat("new", i));
    }
    EXPECT_EQ(Counts().deleted_topics(), 1);
  }
  void Subscriptions() {
    node_options_.catalog.subscriptions_max = 2;
    Start();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(Create("t", absl::StrCat("s", i)).ok());
      ASSERT_TRUE(Delete("t", absl::StrCat("s", i)).ok());
    }
    EXPECT_EQ(Counts().subscriptions(), 0);
    EXPECT_TRUE(Create("t", "a").ok());
    EXPECT_TRUE(Create("t", "b").ok());
    EXPECT_EQ(ReasonOf(Create("t", "c")), "SUBSCRIPTION_LIMIT");
    EXPECT_EQ(Counts().subscriptions(), 2);
  }
  void PendingMessages() {
    node_options_.limits.scheduler.low_watermark_period_ms = 10;
    Start();
    ASSERT_TRUE(CreateTopic("t", "max_pending: 3").ok());
    for (int i = 0; i < 5; ++i) Cancel(MustSchedule(NewMessage("t", "cancelled", 1'000)));
    v1::ScheduleRequest expires = NewMessage("t", "expired");
    expires.mutable_ttl()->set_nanos(1'000'000);
    expires.set_late_policy(v1::Message::LATE_POLICY_DROP);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Refusal(expires), "");
    // Nobody subscribes. The server looks for expired messages once in ten seconds.
    for (int i = 0; i < 3; ++i) {
      Await([&] {
        clock_.Jump(10'000);
        return Refusal(NewMessage("t", "live", 1'000)).empty();
      });
    }
    EXPECT_THAT(Refusal(NewMessage("t", "live", 1'000)), StartsWith("TOPIC_FULL"));
    EXPECT_EQ(Must(&Admin::GetTopic, "name: 't'").topic().counts().pending(), 3);
  }
  void MessagesOfAMinute() {
    Start();
    ASSERT_TRUE(CreateTopic("t", "minute_limit { messages: 3 policy: POLICY_REFUSE }").ok());
    v1::ScheduleRequest request = NewMessage("t", "p");
    request.mutable_deliver_time()->set_seconds(
        static_cast<int64_t>(clock_.Read().wall_ms / 60'000 + 10) * 60);
    for (int i = 0; i < 5; ++i) Cancel(MustSchedule(request));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Refusal(request), "");
    EXPECT_THAT(Refusal(request), StartsWith("MINUTE_FULL"));
  }
  void Recurrences() {
    node_options_.limits.recurrences_max = 2;
    Start();
    for (const std::string name : {"a", "b", "c"}) {
      ASSERT_TRUE(NewRecurrence(name, /*once=*/false).ok());
      DeleteRecurrence(name);
    }
    for (const std::string name : {"d", "e", "f"}) Complete(name);
    EXPECT_FALSE(Known("d")) << "it completed first";
    EXPECT_TRUE(NewRecurrence("check", /*once=*/false, "p", /*validate_only=*/true).ok());
    EXPECT_TRUE(Known("e") && Known("f"));
    EXPECT_TRUE(NewRecurrence("live1", /*once=*/false).ok());
    EXPECT_TRUE(NewRecurrence("live2", /*once=*/false).ok());
    const grpc::Status full = NewRecurrence("live3", /*once=*/false);
    EXPECT_EQ(ReasonOf(full), "RECURRENCE_LIMIT");
    EXPECT_EQ(full.error_message(), "the limit of recurrences is reached: 2");
  }
  void Templates() {
    node_options_.limits.recurrence_bytes_max = 1'000;
    Start();
    const std::string large(400, 'x');
    for (const std::string name : {"a", "b", "c"}) Complete(name, large);
    EXPECT_TRUE(NewRecurrence("live1", /*once=*/false, large).ok());
    EXPECT_TRUE(NewRecurrence("live2", /*once=*/false, large).ok());
    const grpc::Status full = NewRecurrence("live3", /*once=*/false, large);
    EXPECT_EQ(ReasonOf(full), "RECURRENCE_LIMIT");
    EXPECT_EQ(full.error_message(), "the limit of bytes of templates is reached: 1000");
  }
  void Operations() {
    shards_ = 2;
    node_options_.limits.operations_max = 2;
    Start();
    ASSERT_TRUE(CreateTopic("t").ok());
    for (int i = 0; i < 5; ++i) {
      const grpc::Status status = StartOperation(absl::StrCat("op", i));
      ASSERT_TRUE(status.ok()) << i << status.error_message();
      AwaitOperation(absl::StrCat("op", i));
    }
  }
  void Streams() {
    api::ServerOptions options = DefaultOptions();
    options.streams_max = 1;
    Start(options);
    for (const bool cancelled : {true, false, true}) {
      Await([this] { return Counts().streams() == 0; });
      TestSubscriber subscriber(messages_.get());
      subscriber.Start("t");
      EXPECT_EQ(Counts().streams(), 1);
      EXPECT_EQ(Reason(&Messages::Pull, "topic: 't'"), "STREAM_LIMIT");
      cancelled ? subscriber.Cancel() : subscriber.HalfClose();
      subscriber.Finish();
    }
    Await([this] { return Counts().streams() == 0; });
    for (int i = 0; i < 2; ++i) Must(&Messages::Pull, "topic: 't'");
    const auto scheduled = [this](bool wait) {
      const auto context = NewContext();
      const auto stream = messages_->ScheduleStream(context.get());
      v1::ScheduleStreamRequest frame;
      *frame.add_messages() = NewMessage("t", "p", 1'000);
      v1::ScheduleStreamResponse response;
      const bool answered = stream->Write(frame) && stream->Read(&response);
      if (wait) {
        stream->WritesDone();
        EXPECT_TRUE(stream->Finish().ok());
      } else {
        context->TryCancel();
        static_cast<void>(stream->Finish());
      }
      return answered;
    };
    EXPECT_TRUE(scheduled(/*wait=*/false));
    Await([&] { return scheduled(/*wait=*/false); });
  }
  void OutstandingMessages() {
    api::ServerOptions options = DefaultOptions();
    options.limits.outstanding_messages_max = 1;
    Start(options);
    MustSchedule(NewMessage("t", "first"));
    TestSubscriber subscriber(messages_.get());
    subscriber.Start("t", /*max_messages=*/1);
    subscriber.ReadDeliveries(1);
    // The lease ends, and the message waits for its next attempt.
    clock_.Jump(61'000);
    MustSchedule(NewMessage("t", "second"));
    subscriber.ReadDeliveries(2);
    Await([&] { return Counts().in_flight() == 1; });
  }
  void DueMessages() {
    node_options_.limits.due_max = 4;
    node_options_.limits.due_idle_max = 2;
    Start();
    std::vector<std::string> ids;
    for (int i = 0; i < 12; ++i) ids.push_back(MustSchedule(NewMessage("t", "dead")));
    for (const std::string& id : ids) Cancel(id);
    MustSchedule(NewMessage("t", "live"));
    TestSubscriber subscriber(messages_.get());
    subscriber.Start("t");
    subscriber.ReadDeliveries(1);
    EXPECT_EQ(subscriber.payloads(), (std::multiset<std::string>{"live"}));
    EXPECT_EQ(Counts().due_ready(), 0);
  }
  void Requests() {
    api::ServerOptions options = DefaultOptions();
    options.reads_max = 1;
    options.open_answers_bytes_max = 1 << 20;
    node_options_.mailbox.commands_max = 1;
    node_options_.limits.waiting_max = 1;
    Start(options);
    // A call may find the one place in the mailbox taken.
    v1::ScheduleResponse scheduled;
    Await([&] {
      const auto message = NewMessage("t", std::string(700'000, 'x'), 1'000);
      return Call(&Messages::Schedule, message, &scheduled).ok();
    });
    for (int i = 0; i < 5; ++i) {
      Await([&] { return Call(&Messages::List, "topic: 't'").ok(); });
      v1::GetRequest get;
      get.set_message_id(scheduled.message().id());
      v1::GetResponse got;
      // Some clients do not wait for their answer.
      const auto context = NewContext();
      if (i % 2 == 0) context->set_deadline(std::chrono::system_clock::now());
      static_cast<void>(messages_->Get(context.get(), get, &got));
      Await([&] { return messages_->Get(NewContext().get(), get, &got).ok(); });
    }
  }
  void Connections() {
    api::ServerOptions options = DefaultOptions();
    options.connections_max = 2;
    Start(options);
    for (int i = 0; i < 5; ++i) {
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto channel = grpc::CreateCustomChannel(server_->addresses()[0],
                                                     grpc::InsecureChannelCredentials(), own);
      const auto context = NewContext();
      context->set_wait_for_ready(true);
      v1::ServerInfoResponse info;
      EXPECT_TRUE(v1::Admin::NewStub(channel)->ServerInfo(context.get(), {}, &info).ok()) << i;
    }
  }
};

// While a repeat of its request must find what ended, it keeps its place, and the error says so.
TEST_F(LimitsTest, WhatEndedKeepsItsPlaceForRepeats) {
  node_options_.limits.request_retention_ms = 3'600'000;
  node_options_.limits.recurrences_max = 1;
  node_options_.limits.operations_max = 1;
  Start();
  Complete("r");
  const grpc::Status recurrence = NewRecurrence("s", /*once=*/false);
  EXPECT_EQ(ReasonOf(recurrence), "RECURRENCE_LIMIT");
  EXPECT_EQ(recurrence.error_message(),
            "the limit of recurrences is reached: 1; recurrences that completed within "
            "request_retention: 1");
  EXPECT_TRUE(NewRecurrence("r", /*once=*/true).ok()) << "a repeat";
  ASSERT_TRUE(StartOperation("op").ok());
  AwaitOperation("op");
  const grpc::Status operation = StartOperation("other");
  EXPECT_EQ(ReasonOf(operation), "OPERATION_LIMIT");
  EXPECT_EQ(operation.error_message(),
            "the limit of operations that run, or ended within request_retention, is reached: 1");
  EXPECT_TRUE(StartOperation("op").ok()) << "a repeat";
}

struct Limit {
  // The knob, or the setting of a topic. `deleted_topics` is the second limit of topics_max.
  std::string name;
  std::string counts;
  // Shows what the limit counts. Empty: none.
  std::string metric;
  // The reason of the error. Empty: nothing is refused.
  std::string reason;
  // Fills the limit with dead things. Null: nothing dead counts, and why.
  void (LimitsTest::*fill)() = nullptr;
  std::string why = {};
};

void PrintTo(const Limit& limit, std::ostream* out) { *out << limit.name; }

constexpr char kOneRequest[] = "bounds one request";
constexpr char kOneWrite[] = "bounds one write, file or frame";

const Limit kLimits[] = {
    // ---- Things that live in the server
    {"topics_max", "topics that exist, and reserved names", "duetime_topics", "TOPIC_LIMIT",
     &LimitsTest::Topics},
    {"deleted_topics", "names of deleted topics, while something names their numbers",
     "duetime_deleted_topics", "TOPIC_LIMIT", &LimitsTest::DeletedTopics},
    {"subscriptions_max", "subscriptions of a topic", "duetime_subscriptions", "SUBSCRIPTION_LIMIT",
     &LimitsTest::Subscriptions},
    {"max_pending", "messages of a topic that have not ended", "", "TOPIC_FULL",
     &LimitsTest::PendingMessages},
    {"minute_limit", "such messages of a topic that are due in one minute", "", "MINUTE_FULL",
     &LimitsTest::MessagesOfAMinute},
    {"recurrences_max", "recurrences of a shard", "duetime_recurrences", "RECURRENCE_LIMIT",
     &LimitsTest::Recurrences},
    {"recurrence_bytes_max", "the bytes of their templates", "", "RECURRENCE_LIMIT",
     &LimitsTest::Templates},
    {"operations_max", "operations that run, or are kept", "duetime_operations_running",
     "OPERATION_LIMIT", &LimitsTest::Operations},
    {"streams_max",
     "subscribers and waiting Pulls; apart from them ScheduleStreams, and CallStreams",
     "duetime_streams", "STREAM_LIMIT", &LimitsTest::Streams},
    {"call_stream_calls_max", "calls without an answer on one stream", "duetime_rpc_in_flight", "",
     nullptr, "the stream is read again when calls are answered"},
    {"outstanding_messages_max", "leases of one subscriber", "duetime_in_flight", "",
     &LimitsTest::OutstandingMessages},
    {"due_max", "due messages in the memory of a shard", "duetime_due_backlog", "",
     &LimitsTest::DueMessages},
    {"due_idle_max", "those of a topic without subscribers", "duetime_due_backlog", "",
     &LimitsTest::DueMessages},
    {"loaded_max", "messages in the timing wheel of a shard", "duetime_pending_future_loaded", "",
     nullptr, "what does not fit waits on disk, and a cancelled message leaves the wheel in turn"},
    {"recent_messages_max", "messages whose cancels read nothing", "duetime_recent_messages_bytes",
     "", nullptr, "a new message takes the place of the oldest"},
    {"metrics_pairs_max", "pairs with metrics of their own", "duetime_metrics_pairs", "", nullptr,
     "the others share the names *"},
    // ---- Requests and connections
    {"reads_max", "waiting lists and forecasts", "", "OVERLOADED", &LimitsTest::Requests},
    {"open_answers_bytes_max", "payloads and pages of open answers", "duetime_open_answers_bytes",
     "OVERLOADED", &LimitsTest::Requests},
    {"mailbox_commands_max", "requests that wait for a shard", "duetime_mailbox_commands",
     "OVERLOADED", &LimitsTest::Requests},
    {"mailbox_bytes_max", "their bytes", "duetime_mailbox_bytes", "OVERLOADED",
     &LimitsTest::Requests},
    {"waiting_max", "requests that wait for a change of the same message",
     "duetime_requests_waiting", "OVERLOADED", &LimitsTest::Requests},
    {"connections_max", "open connections", "duetime_connections", "", &LimitsTest::Connections},
    {"connections_per_peer_max", "those of one address", "duetime_connections", "", nullptr,
     "connection_table_test"},
    {"metrics_connections_max", "open connections for metrics", "", "", nullptr,
     "the oldest is closed: page_server_test"},
    {"connection_resets_max", "resets in a second", "duetime_connections_cut_total", "", nullptr,
     "a rate"},
    {"connection_idle_frames_max", "frames in a second", "duetime_connections_cut_total", "",
     nullptr, "a rate"},
    {"auth_failures_max", "refused credentials in a second", "", "TOO_MANY_REFUSED_CREDENTIALS",
     nullptr, "a rate"},
    {"unfinished_requests_max", "requests that have not arrived", "", "", nullptr,
     "the connection with the most is closed: frame_budget_test"},
    {"untaken_answers_bytes_max", "answers that clients have not read", "", "", nullptr,
     "the oldest is dropped: untaken_answers_test"},
    {"stream_unsent_bytes_max", "deliveries that one subscriber has not read",
     "duetime_stream_unsent_bytes", "", nullptr, "they end with their stream"},
    {"gateway_open_bytes_max", "requests that wait for their cells", "", "OVERLOADED", nullptr,
     "a request waits for gateway_wait_ms at most"},
    // ---- Bounds of one thing
    {"payload_bytes_max", "", "", "PAYLOAD_TOO_LARGE", nullptr, kOneRequest},
    {"attributes_max", "", "", "", nullptr, kOneRequest},
    {"attributes_bytes_max", "", "", "", nullptr, kOneRequest},
    {"labels_max", "", "", "", nullptr, kOneRequest},
    {"batch_messages_max", "", "", "", nullptr, kOneRequest},
    {"batch_bytes_max", "", "", "", nullptr, kOneRequest},
    {"frame_messages_max", "", "", "", nullptr, kOneWrite},
    {"frame_bytes_max", "", "", "", nullptr, kOneWrite},
    {"group_records_max", "", "", "", nullptr, kOneWrite},
    {"group_bytes_max", "", "", "", nullptr, kOneWrite},
    {"wal_bytes_max", "", "", "", nullptr, kOneWrite},
    {"audit_file_bytes_max", "", "", "", nullptr, kOneWrite},
    {"audit_files_max", "", "", "", nullptr, "the oldest file goes"},
};

class DeadThingsTest : public LimitsTest, public ::testing::WithParamInterface<Limit> {};

TEST_P(DeadThingsTest, LeaveRoomForLiveOnes) { (this->*GetParam().fill)(); }

std::vector<Limit> Filled() {
  std::vector<Limit> filled;
  // Some limits share one test.
  for (const Limit& limit : kLimits) {
    const bool first = filled.empty() || filled.back().fill != limit.fill;
    if (limit.fill != nullptr && first) filled.push_back(limit);
  }
  return filled;
}

INSTANTIATE_TEST_SUITE_P(Limits, DeadThingsTest, ::testing::ValuesIn(Filled()),
                         [](const auto& test) { return test.param.name; });

std::string Text(const std::vector<std::string>& files) {
  std::ostringstream all;
  for (const std::string& file : files) {
    std::ifstream in(absl::StrCat(test::kSourceRoot, "/", file));
    EXPECT_TRUE(in.good()) << file;
    all << in.rdbuf();
  }
  return all.str();
}

TEST(LimitsTableTest, HasEveryLimitOfTheConfiguration) {
  std::set<std::string> knobs;
  for (const config::Knob& knob : config::Knobs()) {
    if (knob.number() == nullptr || knob.unit == config::Unit::kMillis) continue;
    if (absl::EndsWith(knob.name, "_max")) knobs.insert(knob.name);
  }
  std::set<std::string> table;
  for (const Limit& limit : kLimits) {
    EXPECT_TRUE(table.insert(limit.name).second) << limit.name;
    EXPECT_NE(limit.fill == nullptr, limit.why.empty()) << limit.name;
  }
  for (const char* setting : {"deleted_topics", "max_pending", "minute_limit"})
    EXPECT_EQ(table.erase(setting), 1u);
  EXPECT_EQ(table, knobs);
}

TEST(LimitsTableTest, NamesMetricsAndReasonsThatExist) {
  const std::string metrics = Text({"deploy/METRICS.md"});
  const std::string reasons =
      Text({"proto/duetime/v1/messages.proto", "proto/duetime/v1/admin.proto",
            "proto/duetime/v1/message.proto"});
  for (const Limit& limit : kLimits) {
    if (!limit.metric.empty()) {
      EXPECT_THAT(metrics, HasSubstr("`" + limit.metric + "`")) << limit.name;
    }
    if (!limit.reason.empty()) {
      EXPECT_THAT(reasons, HasSubstr(limit.reason)) << limit.name;
    }
  }
}

}  // namespace
}  // namespace duetime::rpc
