// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/gatherer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <grpc/grpc.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cpp/delay_client.h"
#include "client/cpp/error.h"
#include "tests/support/proto_text.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::client {
namespace {

using absl::StatusCode;
using Frames = CallServerStream;

// The answer to a Schedule: its message has the key as id.
void ScheduledAs(const v1::StreamedCall& call, v1::CallStreamResponse* response) {
  v1::StreamedAnswer* const answer = response->add_answers();
  answer->set_number(call.number());
  answer->mutable_schedule()->mutable_message()->set_id(call.schedule().key());
}

// Answers each frame in the reverse order.
grpc::Status AnswerAll(Frames* stream) {
  v1::CallStreamRequest frame;
  while (stream->Read(&frame)) {
    v1::CallStreamResponse response;
    for (int i = frame.calls_size() - 1; i >= 0; --i) ScheduledAs(frame.calls(i), &response);
    stream->Write(response);
  }
  return grpc::Status::OK;
}

// Answers the first call with this, in text format. An answer without a number gets that of the
// call.
std::function<grpc::Status(Frames*)> AnswerWith(const std::string& text) {
  return [text](Frames* stream) {
    v1::CallStreamRequest frame;
    if (!stream->Read(&frame)) return grpc::Status::OK;
    auto response = ParseProto<v1::CallStreamResponse>(text);
    for (auto& answer : *response.mutable_answers()) {
      if (answer.number() == 0) answer.set_number(frame.calls(0).number());
    }
    stream->Write(response);
    return AnswerAll(stream);
  };
}

class GathererTest : public testing::Test {
 protected:
  // Starts a server that runs `play` for each stream of calls, and answers calls of their own.
  void Play(std::function<grpc::Status(Frames*)> play) {
    if (play) {
      server_.on_call_stream = [this, play = std::move(play)](Frames* stream) {
        ++streams_;
        return play(stream);
      };
    }
    server_.Answer<v1::ScheduleRequest, v1::ScheduleResponse>({});
    server_.Answer<v1::ServerInfoRequest, v1::ServerInfoResponse>({});
    server_.Start();
    client_ = Connect({});
  }

  // Returns a client that makes one try of each call, and is connected.
  std::unique_ptr<Client> Connect(ClientOptions options) {
    options.server.target = server_.target();
    options.attempts_max = 1;
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE((*client)->ServerInfo().ok());
    return *std::move(client);
  }

  // Makes calls at once, and returns their ends. Each call must get its own answer.
  std::vector<absl::Status> ScheduleMany(int count) {
    std::vector<std::future<absl::Status>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(std::async(std::launch::async, [this, key = absl::StrCat("k", i)] {
        const auto answer = client_->Schedule({.topic = "t", .key = key});
        if (answer.ok()) {
          EXPECT_EQ(answer->message().id(), key);
        }
        return answer.status();
      }));
    }
    std::vector<absl::Status> ends;
    for (auto& call : calls) ends.push_back(call.get());
    return ends;
  }

  size_t SeparateCalls() const { return server_.Seen<v1::ScheduleRequest>().size(); }

  FakeServer server_;
  std::atomic<int> streams_{0};
  std::unique_ptr<Client> client_;
};

TEST_F(GathererTest, EachCallGetsItsAnswer) {
  Play(AnswerAll);
  for (int round = 0; round < 10; ++round) {
    for (const absl::Status& end : ScheduleMany(64)) EXPECT_TRUE(end.ok()) << end;
  }
  EXPECT_EQ(SeparateCalls(), 0u);
  EXPECT_EQ(streams_, 1);
}

TEST_F(GathererTest, TheFourCallsHaveTheirAnswers) {
  std::vector<std::string> answers = {
      "answers { schedule { message { id: 'a' } } }",
      "answers { cancel { outcome: OUTCOME_CANCELLED } }",
      "answers { reschedule { outcome: OUTCOME_RESCHEDULED } }",
      "answers { get { message { id: 'b' } } }",
      "answers { get { message { id: 'b' } } }",
      "answers { }",
  };
  std::vector<v1::StreamedCall::RequestCase> seen;
  Play([&](Frames* stream) {
    v1::CallStreamRequest frame;
    for (const std::string& answer : answers) {
      if (!stream->Read(&frame)) break;
      seen.push_back(frame.calls(0).request_case());
      auto response = ParseProto<v1::CallStreamResponse>(answer);
      response.mutable_answers(0)->set_number(frame.calls(0).number());
      stream->Write(response);
    }
    return grpc::Status::OK;
  });
  EXPECT_EQ(client_->Schedule({.topic = "t"})->message().id(), "a");
  EXPECT_EQ(client_->Cancel(Target::Id("x"))->answer.outcome(),
            v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(client_->Reschedule(Target::Id("x"), absl::Seconds(1))->outcome(),
            v1::RescheduleResponse::OUTCOME_RESCHEDULED);
  EXPECT_EQ(client_->Get(Target::Id("x"))->message().id(), "b");
  EXPECT_EQ(client_->Cancel(Target::Id("x")).status().code(), StatusCode::kInternal)
      << "the answer of another call";
  EXPECT_EQ(client_->Cancel(Target::Id("x")).status().code(), StatusCode::kInternal);
  using Call = v1::StreamedCall;
  EXPECT_EQ(seen, (std::vector<Call::RequestCase>{Call::kSchedule, Call::kCancel, Call::kReschedule,
                                                  Call::kGet, Call::kCancel, Call::kCancel}));
}

TEST_F(GathererTest, AFailureIsTheErrorOfACallOfItsOwn) {
  Play(AnswerWith(
      "answers { number: 77 } answers { error { code: 8 message: 'full' reason: 'TOPIC_FULL' "
      "metadata { key: 'a' value: 'b' } field: 'topic' retry_delay { seconds: 1 } } }"));
  const absl::Status status = client_->Schedule({.topic = "t"}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "full");
  const ErrorInfo info = GetErrorInfo(status);
  EXPECT_EQ(info.reason, "TOPIC_FULL");
  EXPECT_EQ(info.domain, "duetime");
  EXPECT_EQ(info.metadata, (std::map<std::string, std::string>{{"a", "b"}}));
  ASSERT_EQ(info.field_violations.size(), 1u);
  EXPECT_EQ(info.field_violations[0].field, "topic");
  EXPECT_EQ(info.field_violations[0].description, "full");
  EXPECT_EQ(info.retry_delay, absl::Seconds(1));
}

TEST_F(GathererTest, AFailureWithoutAnErrorCodeIsUnknown) {
  Play(AnswerWith("answers { error { message: 'odd' } }"));
  EXPECT_EQ(client_->Schedule({.topic = "t"}).status().code(), StatusCode::kUnknown);
}

// The first stream takes three calls, answers one, and ends. What becomes of the others depends on
// what the stream says.
TEST_F(GathererTest, AStreamEnds) {
  const struct {
    const char* name;
    // The server says that it took so many calls. -1: it says nothing.
    int64_t taken;
    grpc::Status end;
    int failed;
    std::string reason;
  } cases[] = {
      {"says what it took", 1, MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING"), 0, ""},
      {"took them all", 3, MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING"), 2,
       "DRAINING"},
      {"says nothing", -1, MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING"), 2,
       "DRAINING"},
      {"ends without an error", -1, grpc::Status::OK, 2, ""},
      {"began the calls before another member led", -1,
       MakeServerError(grpc::StatusCode::UNAVAILABLE, "NOT_LEADER"), 2, ""},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    client_.reset();
    server_.Stop();
    streams_ = 0;
    Play([&](Frames* stream) {
      if (streams_ > 1) return AnswerAll(stream);
      v1::CallStreamResponse response;
      if (test.taken >= 0) response.set_calls_taken(test.taken);
      v1::CallStreamRequest frame;
      for (int calls = 0; calls < 3 && stream->Read(&frame); calls += frame.calls_size()) {
        if (calls == 0) ScheduledAs(frame.calls(0), &response);
      }
      stream->Write(response);
      return test.end;
    });
    int failed = 0;
    for (const absl::Status& end : ScheduleMany(3)) {
      if (end.ok()) continue;
      ++failed;
      EXPECT_TRUE(absl::IsUnavailable(end)) << end;
      EXPECT_EQ(GetErrorInfo(end).reason, test.reason);
    }
    EXPECT_EQ(failed, test.failed);
    EXPECT_TRUE(client_->Schedule({.topic = "t", .key = "k"}).ok());
    EXPECT_EQ(streams_, 2);
    EXPECT_EQ(SeparateCalls(), 0u);
  }
}

// A stream that answers nothing is not followed by others for the same call.
TEST_F(GathererTest, AStreamThatServesNothingEndsItsCalls) {
  Play([](Frames* stream) {
    v1::CallStreamRequest frame;
    stream->Read(&frame);
    stream->Write(ParseProto<v1::CallStreamResponse>("calls_taken: 0"));
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "NOT_LEADER");
  });
  const absl::Status end = client_->Schedule({.topic = "t"}).status();
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_EQ(GetErrorInfo(end).reason, "NOT_LEADER");
  EXPECT_EQ(streams_, 1);
}

TEST_F(GathererTest, ACallerThatGivesUp) {
  std::promise<void> given_up;
  v1::StreamedCall first;
  Play([&](Frames* stream) {
    v1::CallStreamRequest frame;
    stream->Read(&frame);
    first = frame.calls(0);
    given_up.get_future().wait();
    v1::CallStreamResponse late;
    ScheduledAs(first, &late);
    stream->Write(late);
    return AnswerAll(stream);
  });
  ClientOptions options;
  options.deadline = absl::Milliseconds(200);
  client_ = Connect(options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->Schedule({.topic = "t"}).status()));
  given_up.set_value();
  options.deadline = absl::Seconds(10);
  EXPECT_TRUE(client_->Schedule({.topic = "t", .key = "k"}).ok());
  EXPECT_EQ(first.number(), 1);
  EXPECT_GT(first.timeout().nanos(), 0);
  EXPECT_LE(first.timeout().nanos(), 200'000'000);
  EXPECT_EQ(streams_, 1);
}

TEST_F(GathererTest, CallsOfTheirOwn) {
  const NewMessage plain = {.topic = "t"};
  const struct {
    const char* name;
    NewMessage message;
    bool separate;
    std::function<grpc::Status(Frames*)> play;
    int streams;
  } cases[] = {
      {"large", {.topic = "t", .payload = std::string(64 << 10, 'x')}, false, AnswerAll, 0},
      {"option", plain, true, AnswerAll, 0},
      {"unknown to the server", plain, false,
       [](Frames*) { return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown"); }, 1},
      {"smaller frames than ours", plain, false,
       [](Frames* stream) {
         v1::CallStreamRequest frame;
         stream->Read(&frame);
         stream->Write(ParseProto<v1::CallStreamResponse>("calls_taken: 0"));
         return MakeServerError(grpc::StatusCode::INVALID_ARGUMENT, "BATCH_TOO_LARGE");
       },
       1},
      {"too many streams", plain, false,
       [](Frames*) {
         return MakeServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "STREAM_LIMIT");
       },
       1},
  };
  size_t separate = 0;
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    client_.reset();
    server_.Stop();
    streams_ = 0;
    Play(test.play);
    ClientOptions options;
    options.separate_calls = test.separate;
    client_ = Connect(options);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(client_->Schedule(test.message).ok());
    separate += 2;
    EXPECT_EQ(SeparateCalls(), separate);
    EXPECT_EQ(streams_, test.streams);
  }
}

TEST_F(GathererTest, ACallThatConnectsIsACallOfItsOwn) {
  Play(AnswerAll);
  ClientOptions options;
  options.server.target = server_.target();
  client_ = *Client::Create(options);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client_->Schedule({.topic = "t"}).ok());
  EXPECT_EQ(SeparateCalls(), 1u);
  EXPECT_EQ(streams_, 1);
}

TEST_F(GathererTest, AClosedClientEndsItsStream) {
  std::promise<void> ended;
  std::promise<void> closed;
  Play([&](Frames* stream) {
    v1::CallStreamRequest frame;
    stream->Read(&frame);
    closed.get_future().wait();
    EXPECT_FALSE(stream->Read(&frame));
    ended.set_value();
    return grpc::Status::OK;
  });
  ClientOptions options;
  options.deadline = absl::Milliseconds(50);
  client_ = Connect(options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->Schedule({.topic = "t"}).status()));
  client_.reset();
  closed.set_value();
  ended.get_future().wait();
}

// A stream whose server reads nothing at first, so that calls wait for their frame.
class WaitingCallsTest : public GathererTest {
 protected:
  // Without it, the end of the last object of gRPC waits up to 10 s for a poller of full sockets.
  static void SetUpTestSuite() { grpc_init(); }

  static constexpr size_t kCalls = 100;
  static constexpr size_t kBytes = 60 << 10;
  // gRPC lets a client write one frame or two, of at most 18 of these calls each, to a server that
  // reads nothing. The other calls wait in the end.
  static constexpr size_t kWaiting = 60;

  // Starts a server that runs `play` for each stream, but for the first one not before Go().
  // Returns when many large calls wait.
  void PlayAndFill(std::function<grpc::Status(Frames*)> play) {
    Play([this, play = std::move(play)](Frames* stream) {
      if (streams_ == 1) go_.get_future().wait();
      return play(stream);
    });
    ClientOptions options;
    options.server.target = server_.target();
    const auto channel = *OpenChannel(options.server);
    channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1));
    gatherer_ = std::make_unique<Gatherer>(options, channel);
    for (size_t i = 0; i < kCalls; ++i) {
      calls_.push_back(
          std::async(std::launch::async, [this] { return Call(kBytes, std::chrono::minutes(1)); }));
    }
    while (gatherer_->waiting() < kWaiting) std::this_thread::yield();
  }
  void Go() { go_.set_value(); }

  // Makes a call with a payload of so many bytes.
  grpc::StatusCode Call(size_t bytes, std::chrono::milliseconds time) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + time);
    v1::ScheduleRequest request;
    request.set_payload(std::string(bytes, 'x'));
    v1::ScheduleResponse response;
    return gatherer_->Schedule(&context, request, &response).error_code();
  }

  // Waits for the large calls, and returns how many of them have this end.
  size_t CountOf(grpc::StatusCode end) {
    size_t count = 0;
    for (const auto& call : calls_) count += call.get() == end;
    return count;
  }

  std::promise<void> go_;
  std::unique_ptr<Gatherer> gatherer_;
  std::vector<std::shared_future<grpc::StatusCode>> calls_;
};

TEST_F(WaitingCallsTest, ShareFramesOfABoundedSize) {
  size_t largest = 0;
  PlayAndFill([&](Frames* stream) {
    v1::CallStreamRequest frame;
    while (stream->Read(&frame)) {
      largest = std::max(largest, frame.ByteSizeLong());
      v1::CallStreamResponse response;
      for (const v1::StreamedCall& call : frame.calls()) ScheduledAs(call, &response);
      stream->Write(response);
    }
    return grpc::Status::OK;
  });
  Go();
  EXPECT_EQ(CountOf(grpc::StatusCode::OK), kCalls);
  EXPECT_GT(largest, size_t{1} << 20);
  EXPECT_LT(largest, (size_t{1} << 20) + (size_t{65} << 10));
}

TEST_F(WaitingCallsTest, ACallThatIsGivenUpIsNeverSent) {
  bool sent = false;
  PlayAndFill([&](Frames* stream) {
    v1::CallStreamRequest frame;
    while (stream->Read(&frame)) {
      v1::CallStreamResponse response;
      for (const v1::StreamedCall& call : frame.calls()) {
        sent |= call.schedule().payload().empty();
        ScheduledAs(call, &response);
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  });
  EXPECT_EQ(Call(0, std::chrono::milliseconds(50)), grpc::StatusCode::DEADLINE_EXCEEDED);
  Go();
  EXPECT_EQ(CountOf(grpc::StatusCode::OK), kCalls);
  EXPECT_FALSE(sent);
}

// Without the reason of a limit of streams, the server may have taken the call.
TEST_F(GathererTest, AStreamThatIsDroppedBeforeItsFirstAnswerMayHaveBegunItsCalls) {
  Play([&](Frames* stream) {
    v1::CallStreamRequest frame;
    stream->Read(&frame);
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "the client does not read its answers");
  });
  EXPECT_TRUE(absl::IsUnavailable(client_->Schedule({.topic = "t"}, Repeat::kNever).status()));
  EXPECT_EQ(SeparateCalls(), 0u);
}

TEST_F(WaitingCallsTest, GoOnTheNextStream) {
  PlayAndFill([this](Frames* stream) {
    return streams_ == 1 ? MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING")
                         : AnswerAll(stream);
  });
  Go();
  const size_t answered = CountOf(grpc::StatusCode::OK);
  EXPECT_GE(answered, kWaiting);
  EXPECT_EQ(CountOf(grpc::StatusCode::UNAVAILABLE), kCalls - answered);
  EXPECT_LT(answered, kCalls);
  EXPECT_EQ(streams_, 2);
  EXPECT_EQ(SeparateCalls(), 0u);
}

}  // namespace
}  // namespace duetime::client
