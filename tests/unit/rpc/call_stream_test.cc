// SPDX-License-Identifier: Apache-2.0
//
// CallStream, through a socket.
#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class CallStreamTest : public ServerTest {
 protected:
  using Stream = grpc::ClientReaderWriterInterface<v1::CallStreamRequest, v1::CallStreamResponse>;

  std::unique_ptr<Stream> Open() {
    context_ = NewContext();
    return messages_->CallStream(context_.get());
  }
  static v1::CallStreamRequest Frame(const std::string& text) {
    return Asked<v1::CallStreamRequest>(text).proto;
  }
  // A Schedule of one message.
  static std::string ScheduleText(int number, const std::string& topic = "orders") {
    return absl::StrCat("calls { number: ", number, " schedule { topic: '", topic,
                        "' delay { seconds: 100 } } } ");
  }
  // Reads until so many calls are answered, or the stream ends. The last response stays in `last_`.
  std::map<int64_t, v1::StreamedAnswer> Answers(Stream* stream, size_t count) {
    std::map<int64_t, v1::StreamedAnswer> answers;
    while (answers.size() < count && stream->Read(&last_)) {
      for (const v1::StreamedAnswer& answer : last_.answers()) {
        EXPECT_TRUE(answers.emplace(answer.number(), answer).second) << answer.number();
      }
    }
    return answers;
  }
  // A server that has the topic `orders`, and whose store holds up every further append.
  GatedStore* StartGated(const api::ServerOptions& options) {
    GatedStore* const gate = UseGatedStore();
    Start(options);
    MustSchedule(NewMessage("orders", "p", 100));
    gate->SetOpen(false);
    return gate;
  }
  uint64_t Ended(metrics::RpcMethod method, grpc::StatusCode code) {
    return stats_.of(method).ended[static_cast<size_t>(code)].load();
  }

  std::unique_ptr<grpc::ClientContext> context_;
  v1::CallStreamResponse last_;
};

TEST_F(CallStreamTest, EachCallHasTheAnswerThatItHasByItself) {
  shards_ = 3;
  Start();
  const std::string pending = MustSchedule(NewMessage("orders", "p", 100));
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(absl::StrCat(
      ScheduleText(-5), "calls { number: 2 get { message_id: '", pending,
      "' view: MESSAGE_VIEW_FULL } } calls { number: 3 reschedule { message_id: '", pending,
      "' delay { seconds: 200 } } } calls { number: 4 cancel { message_id: 'no id' } } ",
      "calls { number: 5 cancel { key { topic: 'orders' key: 'k' } } } ",
      ScheduleText(6, "not a topic"), "calls { number: 7 get {} timeout { seconds: 1 } }"))));
  const auto answers = Answers(stream.get(), 7);
  EXPECT_EQ(answers.at(-5).schedule().outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(answers.at(2).get().message().payload(), "p");
  EXPECT_EQ(answers.at(3).reschedule().message().id(), pending);
  EXPECT_EQ(ReasonOf(answers.at(4).error()), "INVALID_MESSAGE_ID");
  EXPECT_EQ(answers.at(5).cancel().outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  EXPECT_EQ(ReasonOf(answers.at(6).error()), "INVALID_TOPIC");
  EXPECT_EQ(ReasonOf(answers.at(7).error()), "TARGET_MISSING");
  // A number is free again.
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(2))));
  EXPECT_TRUE(Answers(stream.get(), 1).at(2).has_schedule());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&last_));
  EXPECT_TRUE(stream->Finish().ok());
  // Metrics count the calls, not only the stream.
  EXPECT_EQ(Ended(api::MethodOf<v1::ScheduleRequest>(), grpc::StatusCode::OK), 3u);
  EXPECT_EQ(Ended(api::MethodOf<v1::ScheduleRequest>(), grpc::StatusCode::INVALID_ARGUMENT), 1u);
  EXPECT_EQ(Ended(api::MethodOf<v1::CancelRequest>(), grpc::StatusCode::OK), 1u);
  EXPECT_EQ(Ended(api::MethodOf<v1::CallStreamRequest>(), grpc::StatusCode::OK), 1u);
}

TEST_F(CallStreamTest, NoCallWaitsForAnother) {
  GatedStore* const gate = StartGated(DefaultOptions());
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(
      Frame(ScheduleText(1) + "calls { number: 2 get { key { topic: 'orders' key: 'k' } } }")));
  EXPECT_EQ(ReasonOf(Answers(stream.get(), 1).at(2).error()), "MESSAGE_NOT_FOUND");
  gate->SetOpen(true);
  EXPECT_TRUE(Answers(stream.get(), 1).at(1).has_schedule());
}

TEST_F(CallStreamTest, ABadFrameEndsTheStreamBehindTheCallsBeforeIt) {
  api::ServerOptions options = DefaultOptions();
  options.limits.batch_messages_max = 2;
  Start(options);
  MustSchedule(NewMessage("orders", "p", 100));
  for (const auto& [frame, reason] : std::map<std::string, std::string>{
           {"calls { number: 9 }", "MALFORMED_REQUEST"},
           {ScheduleText(9) + ScheduleText(9), "MALFORMED_REQUEST"},
           {ScheduleText(7) + ScheduleText(8) + ScheduleText(9), "BATCH_TOO_LARGE"}}) {
    const auto stream = Open();
    ASSERT_TRUE(stream->Write(Frame(ScheduleText(1) + ScheduleText(2))));
    ASSERT_TRUE(stream->Write(Frame(frame)));
    stream->Write(Frame(ScheduleText(3)));
    const auto answers = Answers(stream.get(), 4);
    EXPECT_EQ(answers.size(), 2u) << frame;
    EXPECT_EQ(last_.calls_taken(), 2) << frame;
    EXPECT_EQ(ReasonOf(stream->Finish()), reason);
  }
}

TEST_F(CallStreamTest, OpenCallsAreBounded) {
  api::ServerOptions options = DefaultOptions();
  options.limits.call_stream_calls_max = 1;
  GatedStore* const gate = StartGated(options);
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1))));
  ASSERT_TRUE(stream->Write(Frame("calls { number: 2 get {} }")));
  gate->AwaitAppend();
  // The second call needs no append, and would be answered by now.
  EXPECT_EQ(stats_.of(api::MethodOf<v1::GetRequest>()).started.load(), 0u);
  gate->SetOpen(true);
  EXPECT_EQ(Answers(stream.get(), 1).begin()->first, 1);
  EXPECT_EQ(Answers(stream.get(), 1).begin()->first, 2);
}

TEST_F(CallStreamTest, StreamsHaveALimit) {
  api::ServerOptions options = DefaultOptions();
  options.streams_max = 1;
  Start(options);
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1))));
  EXPECT_EQ(Answers(stream.get(), 1).size(), 1u);
  const auto other_context = NewContext();
  EXPECT_EQ(ReasonOf(messages_->CallStream(other_context.get())->Finish()), "STREAM_LIMIT");
}

TEST_F(CallStreamTest, AServerThatDrainsTakesCancelsUntilItEnds) {
  Start();
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1))));
  EXPECT_TRUE(Answers(stream.get(), 1).at(1).has_schedule());
  server_->Drain();
  ASSERT_TRUE(stream->Write(
      Frame(ScheduleText(2) + "calls { number: 3 cancel { key { topic: 'orders' key: 'k' } } }")));
  const auto answers = Answers(stream.get(), 2);
  EXPECT_EQ(ReasonOf(answers.at(2).error()), "DRAINING");
  EXPECT_TRUE(answers.at(3).has_cancel());
  std::thread end([this] { server_->Shutdown(std::chrono::seconds(1)); });
  EXPECT_TRUE(stream->Read(&last_));
  EXPECT_EQ(last_.calls_taken(), 3);
  EXPECT_EQ(ReasonOf(stream->Finish()), "DRAINING");
  end.join();
}

TEST_F(CallStreamTest, AFailureOfTheStorageAnswersTheCallsAndEndsIt) {
  Start();
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1))));
  EXPECT_EQ(Answers(stream.get(), 1).size(), 1u);
  store().FailNextAppend(test::TestStore::Fault::kUnknownLost);
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(2))));
  EXPECT_EQ(ReasonOf(Answers(stream.get(), 1).at(2).error()), "STORAGE_FAILED");
  while (!last_.has_calls_taken() && stream->Read(&last_)) {
  }
  EXPECT_EQ(last_.calls_taken(), 2);
  EXPECT_EQ(ReasonOf(stream->Finish()), "STORAGE_FAILED");
}

TEST_F(CallStreamTest, TheCallsOfAClientThatLeavesEndAllTheSame) {
  GatedStore* const gate = StartGated(DefaultOptions());
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1) + ScheduleText(2))));
  gate->AwaitAppend();
  context_->TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  gate->SetOpen(true);
  MustSchedule(NewMessage("orders", "p", 10));
  StopAll();
  EXPECT_EQ(Ended(api::MethodOf<v1::ScheduleRequest>(), grpc::StatusCode::OK), 4u);
}

TEST_F(CallStreamTest, AClientThatDoesNotReadItsAnswersLosesTheStream) {
  constexpr int kAnswers = 20;
  api::ServerOptions options = DefaultOptions();
  options.untaken_answers_bytes_max = 1 << 20;
  Start(options);
  const std::string id = MustSchedule(NewMessage("orders", std::string(500'000, 'x'), 100));
  const auto stream = Open();
  v1::CallStreamRequest frame;
  for (int i = 0; i < kAnswers; ++i) {
    v1::StreamedCall* const call = frame.add_calls();
    call->set_number(i);
    call->mutable_get()->set_message_id(id);
    call->mutable_get()->set_view(v1::MESSAGE_VIEW_FULL);
  }
  ASSERT_TRUE(stream->Write(frame));
  const auto end = std::chrono::steady_clock::now() + kTestDeadline;
  while (stats_.answers_dropped.load() == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_LT(Answers(stream.get(), kAnswers).size(), size_t{kAnswers});
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(stats_.answers_dropped.load(), 1u);
}

// The server ends the stream before the shard answers, and waits on for the answer.
TEST_F(CallStreamTest, ACallMayOutliveItsStream) {
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;
  GatedStore* const gate = StartGated(options);
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1))));
  gate->AwaitAppend();
  std::thread end([this] { server_->Shutdown(kTestDeadline); });
  EXPECT_EQ(ReasonOf(stream->Finish()), "DRAINING");
  gate->SetOpen(true);
  end.join();
  EXPECT_EQ(Ended(api::MethodOf<v1::ScheduleRequest>(), grpc::StatusCode::OK), 2u);
}

// The shard does not answer before the server has ended.
TEST_F(CallStreamTest, AnEndDoesNotWaitForOpenCalls) {
  api::ServerOptions options = DefaultOptions();
  // The server looks this often whether its streams must end.
  options.heartbeat_ms = 20;
  GatedStore* const gate = StartGated(options);
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Frame(ScheduleText(1))));
  gate->AwaitAppend();
  server_->Shutdown(std::chrono::milliseconds(10));
  EXPECT_NE(stream->Finish().error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(Ended(api::MethodOf<v1::ScheduleRequest>(), grpc::StatusCode::UNAVAILABLE), 1u);
  gate->SetOpen(true);
}

}  // namespace
}  // namespace duetime::rpc
