// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/schedule_stream.h"

#include <functional>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/client/fake_server.h"

namespace duetime::client {
namespace {

// Answers one frame: an id for each message, and a refusal for each one without a topic.
v1::ScheduleStreamResponse AnswerTo(const v1::ScheduleStreamRequest& frame, int64_t first) {
  v1::ScheduleStreamResponse response;
  response.set_first(first);
  for (const v1::ScheduleRequest& message : frame.messages()) {
    v1::ScheduleResult* result = response.add_results();
    if (message.topic().empty()) {
      result->mutable_error()->set_code(3);
    } else {
      result->mutable_message()->set_id("id-" + message.topic());
      result->set_outcome(v1::SCHEDULE_OUTCOME_CREATED);
    }
  }
  return response;
}

// Answers `frames` frames. Returns after that many, or when the client has closed its side.
void AnswerFrames(ScheduleServerStream* stream, int frames) {
  v1::ScheduleStreamRequest frame;
  for (int64_t first = 0; frames > 0 && stream->Read(&frame); --frames) {
    stream->Write(AnswerTo(frame, first));
    first += frame.messages_size();
  }
}

grpc::Status ReadAll(ScheduleServerStream* stream) {
  v1::ScheduleStreamRequest frame;
  while (stream->Read(&frame)) {
  }
  return grpc::Status::OK;
}

std::vector<NewMessage> Frame(const std::vector<std::string>& topics) {
  std::vector<NewMessage> frame;
  for (const std::string& topic : topics) frame.push_back({.topic = topic});
  return frame;
}

class ScheduleStreamTest : public testing::Test {
 protected:
  std::unique_ptr<ScheduleStream> Open(const ScheduleStreamOptions& wanted = {}) {
    ScheduleStreamOptions options = wanted;
    options.server.target = server_.target();
    auto stream = ScheduleStream::Open(
        options, [this](int64_t number, const absl::StatusOr<v1::ScheduleResponse>& result) {
          const std::lock_guard lock(mutex_);
          EXPECT_EQ(number, static_cast<int64_t>(results_.size()));
          results_.push_back(result.ok() ? result->message().id() : "refused");
        });
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }
  // Starts a server that runs `play` for each stream.
  void Play(std::function<grpc::Status(ScheduleServerStream*)> play) {
    server_.on_schedule_stream = std::move(play);
    server_.Start();
  }
  std::vector<std::string> Results() {
    const std::lock_guard lock(mutex_);
    return results_;
  }

  FakeServer server_;
  std::mutex mutex_;
  std::vector<std::string> results_;
};

TEST_F(ScheduleStreamTest, EveryMessageGetsItsResultInOrder) {
  std::mutex mutex;
  std::set<std::string> request_ids;
  Play([&](ScheduleServerStream* stream) {
    v1::ScheduleStreamRequest frame;
    for (int64_t first = 0; stream->Read(&frame); first += frame.messages_size()) {
      const std::lock_guard lock(mutex);
      for (const auto& message : frame.messages()) request_ids.insert(message.request_id());
      stream->Write(AnswerTo(frame, first));
    }
    return grpc::Status::OK;
  });
  // Fewer places than frames, so that Send has to wait.
  const auto stream = Open({.server = {}, .frames_max = 2});
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_TRUE(stream->Send(Frame({name, "", name + "x"})).ok());
    expected.insert(expected.end(), {"id-" + name, "refused", "id-" + name + "x"});
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Results(), expected);
  EXPECT_EQ(stream->sent(), 60);
  EXPECT_EQ(stream->answered(), 60);
  EXPECT_TRUE(stream->TakeUnanswered().empty());
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(request_ids.size(), 60u) << "each message has a request id of its own";
  }
  EXPECT_EQ(stream->Send(Frame({"late"})).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ScheduleStreamTest, ACallbackThatThrowsDoesNotEndIt) {
  Play([](ScheduleServerStream* stream) {
    AnswerFrames(stream, 2);
    return grpc::Status::OK;
  });
  ScheduleStreamOptions options;
  options.server.target = server_.target();
  int calls = 0;
  auto stream = ScheduleStream::Open(options, [&](int64_t, const auto&) {
    ++calls;
    throw std::runtime_error("on purpose");
  });
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE((*stream)->Send(Frame({"a", "b"})).ok());
  EXPECT_TRUE((*stream)->Send(Frame({"c"})).ok());
  EXPECT_TRUE((*stream)->Finish().ok());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ((*stream)->answered(), 3);
}

TEST_F(ScheduleStreamTest, AfterABreakItKnowsWhatIsInDoubt) {
  Play([](ScheduleServerStream* stream) {
    AnswerFrames(stream, 1);
    v1::ScheduleStreamRequest frame;
    stream->Read(&frame);
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING", 10);
  });
  const auto stream = Open();
  ASSERT_TRUE(stream->Send(Frame({"a", "b"})).ok());
  // Either Send or Finish reports the end of the stream.
  absl::Status status = stream->Send({{.topic = "c", .request_id = "mine"}, {.topic = "d"}});
  if (status.ok()) status = stream->Finish();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(Results(), (std::vector<std::string>{"id-a", "id-b"}));
  EXPECT_EQ(stream->answered(), 2);
  EXPECT_EQ(stream->sent(), 4);
  // A frame sent after the end is in doubt like the others.
  EXPECT_TRUE(absl::IsUnavailable(stream->Send(Frame({"e"}))));
  const std::vector<NewMessage> unanswered = stream->TakeUnanswered();
  ASSERT_EQ(unanswered.size(), 3u);
  EXPECT_EQ(unanswered[0].topic, "c");
  EXPECT_EQ(unanswered[0].request_id, "mine");
  EXPECT_EQ(unanswered[1].topic, "d");
  EXPECT_EQ(unanswered[1].request_id.size(), 32u);
  EXPECT_EQ(unanswered[2].topic, "e");
  EXPECT_TRUE(stream->TakeUnanswered().empty());
}

TEST_F(ScheduleStreamTest, AServerThatDoesNotAnswerIsGivenUp) {
  Play(ReadAll);
  const auto stream =
      Open({.server = {}, .frames_max = 1, .answer_timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(stream->Send(Frame({"a"})).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream->Send(Frame({"b"}))));
  EXPECT_EQ(stream->TakeUnanswered().size(), 2u);
}

TEST_F(ScheduleStreamTest, AnEndBeforeTheAnswersIsAnErrorEvenIfTheServerCallsItOk) {
  Play([](ScheduleServerStream* stream) {
    v1::ScheduleStreamRequest frame;
    stream->Read(&frame);
    return grpc::Status::OK;
  });
  const auto stream = Open();
  ASSERT_TRUE(stream->Send(Frame({"a"})).ok());
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(stream->TakeUnanswered().size(), 1u);
}

TEST_F(ScheduleStreamTest, AnAnswerToAnotherFrameIsAnError) {
  Play([](ScheduleServerStream* stream) {
    v1::ScheduleStreamRequest frame;
    stream->Read(&frame);
    stream->Write(AnswerTo(frame, 7));
    return ReadAll(stream);
  });
  const auto stream = Open();
  ASSERT_TRUE(stream->Send(Frame({"a"})).ok());
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Results().empty());
}

TEST_F(ScheduleStreamTest, CancelAndDestructionEndIt) {
  Play(ReadAll);
  auto stream = Open();
  ASSERT_TRUE(stream->Send(Frame({"a"})).ok());
  stream->Cancel();
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
  stream = Open();
  ASSERT_TRUE(stream->Send(Frame({"a"})).ok());
  stream.reset();
}

TEST_F(ScheduleStreamTest, NoServerEndsIt) {
  const auto stream = Open();
  absl::Status status = stream->Send(Frame({"a"}));
  if (status.ok()) status = stream->Finish();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(stream->TakeUnanswered().size(), 1u);
}

}  // namespace
}  // namespace duetime::client
