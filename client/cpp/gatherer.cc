// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/gatherer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "client/cpp/convert.h"
#include "client/cpp/error.h"

namespace duetime::client {
namespace {

using Clock = std::chrono::steady_clock;

// The most calls and bytes of a frame.
constexpr int kFrameCallsMax = 1'000;
constexpr size_t kFrameBytesMax = 1 << 20;
// A larger request is a call of its own, so that it delays no other call.
constexpr size_t kGatheredBytesMax = 64 << 10;
// After a server refused the stream, calls are calls of their own for so long.
constexpr std::chrono::seconds kSeparatePause{10};
// A server would take zero for no answer at all.
constexpr absl::Duration kTimeoutMin = absl::Milliseconds(1);

// A method of the stub, and its request and answer in the messages of the stream.
template <typename Request, typename Response>
struct StreamedMethod {
  grpc::Status (v1::Messages::Stub::*separate)(grpc::ClientContext*, const Request&, Response*);
  Request* (v1::StreamedCall::*request)();
  bool (v1::StreamedAnswer::*has_answer)() const;
  Response* (v1::StreamedAnswer::*answer)();
};

// The status that a call of its own would have.
grpc::Status StatusOf(const v1::Failure& failure) {
  google::rpc::Status details;
  const bool known = failure.code() > 0 && failure.code() <= grpc::StatusCode::UNAUTHENTICATED;
  details.set_code(known ? failure.code() : static_cast<int>(grpc::StatusCode::UNKNOWN));
  details.set_message(failure.message());
  google::rpc::ErrorInfo info;
  info.set_reason(failure.reason());
  info.set_domain("duetime");
  *info.mutable_metadata() = failure.metadata();
  details.add_details()->PackFrom(info);
  if (!failure.field().empty()) {
    google::rpc::BadRequest request;
    auto* const violation = request.add_field_violations();
    violation->set_field(failure.field());
    violation->set_description(failure.message());
    details.add_details()->PackFrom(request);
  }
  if (failure.has_retry_delay()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = failure.retry_delay();
    details.add_details()->PackFrom(retry);
  }
  return {static_cast<grpc::StatusCode>(details.code()), failure.message(),
          details.SerializeAsString()};
}

}  // namespace

// One try of a call. The mutex guards it from Add until its outcome.
struct Gatherer::PendingCall {
  enum class Outcome { kNone, kAnswer, kError, kNotTaken };

  explicit PendingCall(std::chrono::system_clock::time_point end)
      : deadline(Clock::now() + (end - std::chrono::system_clock::now())) {}

  void End(Outcome how) {
    outcome = how;
    ended.NotifyOne();
  }

  const Clock::time_point deadline;
  // Of the request.
  size_t bytes = 0;
  // Empty once it is sent. 0: not sent.
  v1::StreamedCall call;
  int64_t number = 0;

  Outcome outcome = Outcome::kNone;
  v1::StreamedAnswer answer;
  grpc::Status error;
  base::CondVar ended;
};

// One stream. The gatherer's mutex guards its fields, except that gRPC reads `frame` while
// `writing` and writes `response` while it reads. OnDone deletes the stream: a hold delays it while
// a frame may be sent from outside of the functions of the reactor.
class Gatherer::Stream final
    : public grpc::ClientBidiReactor<v1::CallStreamRequest, v1::CallStreamResponse> {
 public:
  explicit Stream(Gatherer* gatherer) : gatherer_(gatherer) {
    context.set_wait_for_ready(gatherer->several_);
    gatherer->stub_->async()->CallStream(&context, this);
    AddHold();
  }

  // Sends `frame`; the first one opens the stream. The stream may end before it returns.
  // REQUIRES: FillFrame returned true for this thread, which does not hold the mutex.
  void Send() {
    if (frame.calls(0).number() > 1) return StartWrite(&frame);
    StartRead(&response);
    StartWrite(&frame);
    StartCall();
  }

  grpc::ClientContext context;
  v1::CallStreamRequest frame;
  v1::CallStreamResponse response;
  bool writing = false;
  // No frame is sent any more.
  bool broken = false;
  bool read_over = false;
  // The calls that were sent and have no outcome, by number.
  std::unordered_map<int64_t, PendingCall*> open;
  int64_t sent = 0;
  // The server has answered something.
  bool served = false;
  std::optional<int64_t> calls_taken;

 private:
  void OnReadDone(bool ok) override {
    bool release = false;
    {
      const base::MutexLock lock(&gatherer_->mutex_);
      if (ok) {
        gatherer_->OnAnswers(&response);
      } else {
        broken = read_over = true;
        release = !writing;
      }
    }
    if (ok) StartRead(&response);
    if (release) RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    bool more = false;
    bool release = false;
    {
      const base::MutexLock lock(&gatherer_->mutex_);
      frame = v1::CallStreamRequest();
      writing = false;
      if (!ok) broken = true;
      more = gatherer_->FillFrame();
      release = read_over;
    }
    if (more) {
      Send();
    } else if (release) {
      RemoveHold();
    }
  }

  void OnDone(const grpc::Status& status) override { gatherer_->OnEnd(status); }

  Gatherer* const gatherer_;
};

Gatherer::Gatherer(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel)
    : separate_calls_(options.separate_calls),
      several_(HasSeveralAddresses(options.server.target)),
      channel_(channel),
      stub_(v1::Messages::NewStub(channel)) {}

Gatherer::~Gatherer() {
  const base::MutexLock lock(&mutex_);
  // gRPC calls no function of a reactor inside TryCancel. The mutex keeps the stream.
  if (stream_ != nullptr) stream_->context.TryCancel();
  while (stream_ != nullptr) stream_ended_.Wait(&mutex_);
}

grpc::Status Gatherer::Schedule(grpc::ClientContext* context, const v1::ScheduleRequest& request,
                                v1::ScheduleResponse* response) {
  return Call(
      StreamedMethod<v1::ScheduleRequest, v1::ScheduleResponse>{
          &v1::Messages::Stub::Schedule, &v1::StreamedCall::mutable_schedule,
          &v1::StreamedAnswer::has_schedule, &v1::StreamedAnswer::mutable_schedule},
      context, request, response);
}

grpc::Status Gatherer::Cancel(grpc::ClientContext* context, const v1::CancelRequest& request,
                              v1::CancelResponse* response) {
  return Call(
      StreamedMethod<v1::CancelRequest, v1::CancelResponse>{
          &v1::Messages::Stub::Cancel, &v1::StreamedCall::mutable_cancel,
          &v1::StreamedAnswer::has_cancel, &v1::StreamedAnswer::mutable_cancel},
      context, request, response);
}

grpc::Status Gatherer::Reschedule(grpc::ClientContext* context,
                                  const v1::RescheduleRequest& request,
                                  v1::RescheduleResponse* response) {
  return Call(
      StreamedMethod<v1::RescheduleRequest, v1::RescheduleResponse>{
          &v1::Messages::Stub::Reschedule, &v1::StreamedCall::mutable_reschedule,
          &v1::StreamedAnswer::has_reschedule, &v1::StreamedAnswer::mutable_reschedule},
      context, request, response);
}

grpc::Status Gatherer::Get(grpc::ClientContext* context, const v1::GetRequest& request,
                           v1::GetResponse* response) {
  return Call(StreamedMethod<v1::GetRequest, v1::GetResponse>{&v1::Messages::Stub::Get,
                                                              &v1::StreamedCall::mutable_get,
                                                              &v1::StreamedAnswer::has_get,
                                                              &v1::StreamedAnswer::mutable_get},
              context, request, response);
}

template <typename Method, typename Request, typename Response>
grpc::Status Gatherer::Call(const Method& method, grpc::ClientContext* context,
                            const Request& request, Response* response) {
  const size_t bytes = request.ByteSizeLong();
  while (!separate_calls_ && bytes <= kGatheredBytesMax) {
    PendingCall call(context->deadline());
    call.bytes = bytes;
    *(call.call.*method.request)() = request;
    if (!Run(&call)) break;
    if (call.outcome == PendingCall::Outcome::kNotTaken) continue;
    if (call.outcome == PendingCall::Outcome::kError) return call.error;
    if (call.answer.has_error()) return StatusOf(call.answer.error());
    if (!(call.answer.*method.has_answer)()) {
      return {grpc::StatusCode::INTERNAL, "the server answered a call with an unknown answer"};
    }
    response->Swap((call.answer.*method.answer)());
    return grpc::Status::OK;
  }
  return (stub_.get()->*method.separate)(context, request, response);
}

bool Gatherer::Run(PendingCall* call) {
  if (!Add(call)) return false;
  const base::MutexLock lock(&mutex_);
  while (call->outcome == PendingCall::Outcome::kNone) {
    if (call->ended.WaitUntil(&mutex_, call->deadline)) continue;
    if (call->outcome != PendingCall::Outcome::kNone) break;
    Forget(call);
    call->error = {grpc::StatusCode::DEADLINE_EXCEEDED,
                   "the call had no answer before its deadline"};
    call->outcome = PendingCall::Outcome::kError;
  }
  return true;
}

bool Gatherer::Add(PendingCall* call) {
  Stream* stream = nullptr;
  {
    const base::MutexLock lock(&mutex_);
    if (stream_ == nullptr) {
      // While the channel connects, callers may give up, and a frame that was begun would still
      // have their calls.
      if (Clock::now() < separate_until_ || channel_->GetState(false) != GRPC_CHANNEL_READY) {
        return false;
      }
      stream_ = std::make_unique<Stream>(this);
    }
    waiting_.push_back(call);
    if (!FillFrame()) return true;
    stream = stream_.get();
  }
  stream->Send();
  return true;
}

void Gatherer::Forget(PendingCall* call) {
  if (call->number == 0) {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), call));
  } else {
    stream_->open.erase(call->number);
  }
}

bool Gatherer::FillFrame() {
  Stream& stream = *stream_;
  if (stream.writing || stream.broken || waiting_.empty()) return false;
  stream.writing = true;
  const Clock::time_point now = Clock::now();
  size_t bytes = 0;
  while (!waiting_.empty() && stream.frame.calls_size() < kFrameCallsMax &&
         bytes <= kFrameBytesMax) {
    PendingCall* const call = waiting_.front();
    waiting_.pop_front();
    bytes += call->bytes;
    call->number = ++stream.sent;
    stream.open.emplace(call->number, call);
    v1::StreamedCall* const sent = stream.frame.add_calls();
    sent->Swap(&call->call);
    sent->set_number(call->number);
    *sent->mutable_timeout() =
        ToProto(std::max(absl::FromChrono(call->deadline - now), kTimeoutMin));
  }
  return true;
}

void Gatherer::OnAnswers(v1::CallStreamResponse* response) {
  stream_->served |= response->answers_size() > 0;
  stream_->calls_taken =
      response->has_calls_taken() ? std::optional(response->calls_taken()) : std::nullopt;
  for (v1::StreamedAnswer& answer : *response->mutable_answers()) {
    const auto found = stream_->open.find(answer.number());
    if (found == stream_->open.end()) continue;
    found->second->answer.Swap(&answer);
    found->second->End(PendingCall::Outcome::kAnswer);
    stream_->open.erase(found);
  }
}

void Gatherer::OnEnd(const grpc::Status& status) {
  using grpc::StatusCode;
  grpc::Status error = status;
  if (status.ok()) {
    error = {StatusCode::UNAVAILABLE, "the server ended the stream of calls before it answered"};
  }
  const base::MutexLock lock(&mutex_);
  const Stream& stream = *stream_;
  const StatusCode code = error.error_code();
  // The server knows no such stream, has too many, or allows only smaller frames.
  const bool refused = (code == StatusCode::INVALID_ARGUMENT && stream.calls_taken.has_value()) ||
                       (!stream.served && (code == StatusCode::UNIMPLEMENTED ||
                                           code == StatusCode::RESOURCE_EXHAUSTED));
  if (refused) separate_until_ = Clock::now() + kSeparatePause;
  const std::string reason = GetErrorInfo(ToAbslStatus(error)).reason;
  const bool none_taken =
      !stream.served && (code == StatusCode::UNIMPLEMENTED || reason == "STREAM_LIMIT");
  // Of a call, these say that it changed nothing. The stream may have begun the call.
  if (code == StatusCode::RESOURCE_EXHAUSTED || (stream.served && reason == "NOT_LEADER")) {
    error = {StatusCode::UNAVAILABLE, error.error_message()};
  }
  for (const auto& [number, call] : stream.open) {
    // A stream that answered nothing would be followed by others like it.
    const bool not_taken =
        none_taken || ((stream.served || refused) && stream.calls_taken.has_value() &&
                       number > *stream.calls_taken);
    if (!not_taken) call->error = error;
    call->End(not_taken ? PendingCall::Outcome::kNotTaken : PendingCall::Outcome::kError);
  }
  for (PendingCall* const call : waiting_) call->End(PendingCall::Outcome::kNotTaken);
  waiting_.clear();
  stream_.reset();
  stream_ended_.NotifyAll();
}

}  // namespace duetime::client
