// SPDX-License-Identifier: Apache-2.0
//
// ScheduleStream, through a socket.
#include <atomic>
#include <set>
#include <string>

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class ScheduleStreamTest : public ServerTest {
 protected:
  static v1::ScheduleStreamRequest Frame(int messages, const std::string& key_prefix) {
    v1::ScheduleStreamRequest frame;
    for (int i = 0; i < messages; ++i) {
      *frame.add_messages() = NewMessage("orders", "p", 100);
      if (!key_prefix.empty() && i % 2 == 0) {
        frame.mutable_messages(i)->set_key(key_prefix + std::to_string(i));
      }
    }
    return frame;
  }
};

TEST_F(ScheduleStreamTest, AnswersFrameByFrameInOrder) {
  shards_ = 3;
  Start();
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  constexpr int kFrames = 100;
  // The client writes more frames than the server handles at once, and reads no answer until the
  // last is written. The server must hold back, and no frame may be lost.
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(stream->Write(Frame(i % 7, "f" + std::to_string(i) + "-")));
  }
  ASSERT_TRUE(stream->WritesDone());
  std::set<std::string> ids;
  int64_t first = 0;
  v1::ScheduleStreamResponse response;
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(stream->Read(&response)) << i;
    ASSERT_EQ(response.results_size(), i % 7);
    EXPECT_EQ(response.first(), first);
    first += i % 7;
    for (int j = 0; j < response.results_size(); ++j) {
      const v1::ScheduleResult& result = response.results(j);
      ASSERT_TRUE(result.has_message());
      EXPECT_EQ(result.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
      EXPECT_TRUE(ids.insert(result.message().id()).second);
      EXPECT_EQ(result.message().key(),
                j % 2 == 0 ? "f" + std::to_string(i) + "-" + std::to_string(j) : "");
    }
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(stats_.of(api::MethodOf<v1::ScheduleStreamRequest>()).ended[0].load(), 1u);
}

TEST_F(ScheduleStreamTest, ARefusedMessageDoesNotEndTheStream) {
  Start();
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamRequest frame = Frame(3, "");
  frame.mutable_messages(1)->set_topic("not a topic");
  ASSERT_TRUE(stream->Write(frame));
  v1::ScheduleStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.results(0).has_message());
  EXPECT_EQ(ReasonOf(response.results(1).error()), "INVALID_TOPIC");
  EXPECT_TRUE(response.results(2).has_message());
  ASSERT_TRUE(stream->Write({}));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.results_size(), 0);
  EXPECT_EQ(response.first(), 3);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ScheduleStreamTest, AFrameThatIsTooLargeEndsTheStreamBehindTheOthers) {
  api::ServerOptions options = DefaultOptions();
  options.limits.batch_messages_max = 10;
  Start(options);
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  ASSERT_TRUE(stream->Write(Frame(10, "")));
  ASSERT_TRUE(stream->Write(Frame(11, "")));
  v1::ScheduleStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.results_size(), 10);
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "BATCH_TOO_LARGE");
}

TEST_F(ScheduleStreamTest, ALowDiskIsToldFrameByFrame) {
  std::atomic<bool> low{true};
  disk_low_ = [&] { return low.load(); };
  Start();
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamResponse response;
  ASSERT_TRUE(stream->Write(Frame(2, "")));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(ReasonOf(response.results(1).error()), "DISK_LOW");
  low = false;
  ASSERT_TRUE(stream->Write(Frame(2, "")));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.results(1).has_message());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ScheduleStreamTest, StreamsHaveALimit) {
  api::ServerOptions options = DefaultOptions();
  options.streams_max = 1;
  Start(options);
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamResponse response;
  ASSERT_TRUE(stream->Write(Frame(1, "")));
  ASSERT_TRUE(stream->Read(&response));
  const auto other_context = NewContext();
  const auto other = messages_->ScheduleStream(other_context.get());
  EXPECT_FALSE(other->Read(&response));
  EXPECT_EQ(ReasonOf(other->Finish()), "STREAM_LIMIT");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ScheduleStreamTest, ADrainEndsIt) {
  Start();
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamResponse response;
  ASSERT_TRUE(stream->Write(Frame(1, "")));
  ASSERT_TRUE(stream->Read(&response));
  server_->Drain();
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
  const auto late_context = NewContext();
  EXPECT_EQ(ReasonOf(messages_->ScheduleStream(late_context.get())->Finish()), "DRAINING");
}

TEST_F(ScheduleStreamTest, AFailureOfTheStorageEndsIt) {
  Start();
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamResponse response;
  ASSERT_TRUE(stream->Write(Frame(1, "")));
  ASSERT_TRUE(stream->Read(&response));
  store().FailNextAppend(test::TestStore::Fault::kUnknownLost);
  ASSERT_TRUE(stream->Write(Frame(1, "")));
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "STORAGE_FAILED");
}

TEST_F(ScheduleStreamTest, AClientThatLeavesIsForgotten) {
  Start();
  {
    const auto context = NewContext();
    const auto stream = messages_->ScheduleStream(context.get());
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->Write(Frame(3, "")));
    context->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // The server still serves.
  MustSchedule(NewMessage("orders", "p", 10));
}

}  // namespace
}  // namespace duetime::rpc
