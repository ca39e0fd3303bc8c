// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/schedule_stream.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <grpcpp/grpcpp.h>
#include <optional>
#include <thread>
#include <utility>

#include "client/cpp/callback.h"
#include "client/cpp/error.h"
#include "client/cpp/random_id.h"
#include "client/cpp/schedule_result.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "server/base/mutex.h"

namespace duetime::client {

// Owns one thread, which reads. The caller's thread writes and ends the stream. The mutex guards
// the state that both use.
class ScheduleStream::Impl {
 public:
  Impl(const ScheduleStreamOptions& options, OnResult on_result,
       const std::shared_ptr<grpc::Channel>& channel)
      : frames_max_(static_cast<size_t>(std::max(1, options.frames_max))),
        answer_timeout_(std::clamp(options.answer_timeout, absl::Milliseconds(1), kTimeoutMax)),
        on_result_(std::move(on_result)),
        stub_(v1::Messages::NewStub(channel)),
        stream_(stub_->ScheduleStream(&context_)),
        reader_([this] { Read(); }) {}

  ~Impl() {
    Cancel();
    End().IgnoreError();
  }

  absl::Status Send(std::vector<NewMessage> messages) {
    v1::ScheduleStreamRequest request;
    for (NewMessage& message : messages) {
      if (message.request_id.empty()) message.request_id = ids_.Next();
      *request.add_messages() = ToProto(message);
    }
    {
      // Store the messages first, so that no error loses them. The answer may also come before the
      // write returns.
      const base::MutexLock lock(&mutex_);
      sent_ += static_cast<int64_t>(messages.size());
      frames_.push_back(std::move(messages));
    }
    if (status_.has_value()) {
      return status_->ok() ? absl::FailedPreconditionError("the stream was finished") : *status_;
    }
    // The write fails if the stream is over.
    return WaitForAnswers(frames_max_) && stream_->Write(request) ? absl::OkStatus() : End();
  }

  absl::Status Finish() {
    if (status_.has_value()) return *status_;
    stream_->WritesDone();
    WaitForAnswers(std::nullopt);
    return End();
  }

  void Cancel() { context_.TryCancel(); }

  int64_t sent() const {
    const base::MutexLock lock(&mutex_);
    return sent_;
  }
  int64_t answered() const {
    const base::MutexLock lock(&mutex_);
    return answered_;
  }

  std::vector<NewMessage> TakeUnanswered() {
    if (!status_.has_value()) {
      Cancel();
      End().IgnoreError();
    }
    const base::MutexLock lock(&mutex_);
    std::vector<NewMessage> unanswered;
    for (std::vector<NewMessage>& frame : frames_) {
      std::move(frame.begin(), frame.end(), std::back_inserter(unanswered));
    }
    frames_.clear();
    return unanswered;
  }

 private:
  // The longest timeout, so that an infinite one does not overflow the clock's arithmetic.
  static constexpr absl::Duration kTimeoutMax = absl::Hours(24 * 365);

  // Waits until at most `frames_max` frames are unanswered; without a limit, until the stream ends.
  // The end of the stream ends every wait. If no answer comes for answer_timeout_, the function
  // breaks the stream and returns false.
  bool WaitForAnswers(std::optional<size_t> frames_max) {
    const base::MutexLock lock(&mutex_);
    while (!read_over_ && (!frames_max.has_value() || frames_.size() > *frames_max)) {
      const int64_t answers = answers_;
      const auto deadline =
          std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(answer_timeout_);
      while (answers_ == answers && !read_over_) {
        if (changed_.WaitUntil(&mutex_, deadline)) continue;
        if (answers_ != answers || read_over_) break;
        broken_ = absl::DeadlineExceededError("the server did not answer a frame in time");
        context_.TryCancel();
        return false;
      }
    }
    return true;
  }

  // Joins the reader and stores how the stream ended. The stream has ended or is about to end.
  absl::Status End() {
    if (status_.has_value()) return *status_;
    reader_.join();
    absl::Status status = ToAbslStatus(stream_->Finish());
    const base::MutexLock lock(&mutex_);
    // The cause of a cancellation explains more than the cancellation.
    if (!broken_.ok()) status = broken_;
    if (status.ok() && !frames_.empty()) {
      status = absl::InternalError("the server ended the stream before it had answered all of it");
    }
    status_ = status;
    return status;
  }

  void Read() {
    v1::ScheduleStreamResponse response;
    while (stream_->Read(&response)) {
      if (!Take(&response)) {
        context_.TryCancel();
        break;
      }
    }
    const base::MutexLock lock(&mutex_);
    read_over_ = true;
    changed_.NotifyAll();
  }

  // Returns false if the answer does not fit the next unanswered frame.
  bool Take(v1::ScheduleStreamResponse* response) {
    int64_t number = 0;
    {
      const base::MutexLock lock(&mutex_);
      number = answered_;
      if (frames_.empty() || response->first() != answered_ ||
          frames_.front().size() != static_cast<size_t>(response->results_size())) {
        broken_ = absl::InternalError("the server answered a frame that was not the next one");
        return false;
      }
    }
    for (v1::ScheduleResult& result : *response->mutable_results()) {
      RunCallback({}, "on_result", on_result_, number, FromProto(std::move(result)));
      ++number;
    }
    const base::MutexLock lock(&mutex_);
    frames_.pop_front();
    answered_ = number;
    ++answers_;
    changed_.NotifyAll();
    return true;
  }

  const size_t frames_max_;
  const absl::Duration answer_timeout_;
  const OnResult on_result_;
  const std::unique_ptr<v1::Messages::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<
      grpc::ClientReaderWriter<v1::ScheduleStreamRequest, v1::ScheduleStreamResponse>>
      stream_;

  // Only the caller's thread uses it.
  RandomId ids_;
  // How the stream ended. Absent until then.
  std::optional<absl::Status> status_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  // The frames that Send got and the server has not answered, in order.
  std::deque<std::vector<NewMessage>> frames_ ABSL_GUARDED_BY(mutex_);
  // Messages handed to Send, messages answered, frames answered.
  int64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
  // The reader has seen the end of the stream.
  bool read_over_ ABSL_GUARDED_BY(mutex_) = false;
  // Why this side broke the stream.
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);

  // Last, because the thread uses all other members.
  std::thread reader_;
};

ScheduleStream::ScheduleStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ScheduleStream::~ScheduleStream() = default;

absl::StatusOr<std::unique_ptr<ScheduleStream>> ScheduleStream::Open(
    const ScheduleStreamOptions& options, OnResult on_result) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<ScheduleStream>(
      new ScheduleStream(std::make_unique<Impl>(options, std::move(on_result), *channel)));
}

absl::Status ScheduleStream::Send(std::vector<NewMessage> messages) {
  return impl_->Send(std::move(messages));
}
absl::Status ScheduleStream::Finish() { return impl_->Finish(); }
void ScheduleStream::Cancel() { impl_->Cancel(); }
int64_t ScheduleStream::sent() const { return impl_->sent(); }
int64_t ScheduleStream::answered() const { return impl_->answered(); }
std::vector<NewMessage> ScheduleStream::TakeUnanswered() { return impl_->TakeUnanswered(); }

}  // namespace duetime::client
