// SPDX-License-Identifier: Apache-2.0
#include "client/schedule_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <grpcpp/grpcpp.h>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "client/error.h"
#include "client/random_id.h"
#include "client/schedule_result.h"
#include "duetime/v1/messages.grpc.pb.h"

namespace duetime::client {

// One thread of its own, which reads; the caller's thread writes and ends the stream. What they
// share is under the mutex.
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
      // Before all else, so that no error loses them, and before the write, since the answer may
      // come before the write returns.
      const std::lock_guard lock(mutex_);
      sent_ += static_cast<int64_t>(messages.size());
      frames_.push_back(std::move(messages));
    }
    if (status_.has_value()) {
      return status_->ok() ? absl::FailedPreconditionError("the stream was finished") : *status_;
    }
    const auto has_room = [this] { return frames_.size() <= frames_max_ || read_over_; };
    // The write of a stream that is over fails.
    return WaitUntil(has_room) && stream_->Write(request) ? absl::OkStatus() : End();
  }

  absl::Status Finish() {
    if (status_.has_value()) return *status_;
    stream_->WritesDone();
    WaitUntil([this] { return read_over_; });
    return End();
  }

  void Cancel() { context_.TryCancel(); }

  int64_t sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  int64_t answered() const {
    const std::lock_guard lock(mutex_);
    return answered_;
  }

  std::vector<NewMessage> TakeUnanswered() {
    if (!status_.has_value()) {
      Cancel();
      End().IgnoreError();
    }
    std::vector<NewMessage> unanswered;
    for (std::vector<NewMessage>& frame : frames_) {
      std::move(frame.begin(), frame.end(), std::back_inserter(unanswered));
    }
    frames_.clear();
    return unanswered;
  }

 private:
  // "For ever", far from where the clocks' arithmetic overflows.
  static constexpr absl::Duration kTimeoutMax = absl::Hours(24 * 365);

  // Waits for `done`. False, and the stream is broken, if no answer came for answer_timeout.
  template <typename Done>
  bool WaitUntil(Done done) {
    std::unique_lock lock(mutex_);
    while (!done()) {
      const int64_t answered = answers_;
      const bool moved = changed_.wait_for(lock, absl::ToChronoNanoseconds(answer_timeout_),
                                           [&] { return done() || answers_ != answered; });
      if (moved) continue;
      broken_ = absl::DeadlineExceededError("the server did not answer a frame in time");
      context_.TryCancel();
      return false;
    }
    return true;
  }

  // Takes the end of the stream, which has come or is about to. Afterwards there is no reader.
  absl::Status End() {
    if (status_.has_value()) return *status_;
    reader_.join();
    absl::Status status = ToAbslStatus(stream_->Finish());
    // What was found here explains more than the cancellation that it led to.
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
    const std::lock_guard lock(mutex_);
    read_over_ = true;
    changed_.notify_all();
  }

  // False if the answer is not one to what was sent.
  bool Take(v1::ScheduleStreamResponse* response) {
    int64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = answered_;
      if (frames_.empty() || response->first() != answered_ ||
          frames_.front().size() != static_cast<size_t>(response->results_size())) {
        broken_ = absl::InternalError("the server answered a frame that was not the next one");
        return false;
      }
    }
    for (v1::ScheduleResult& result : *response->mutable_results()) {
      if (on_result_) on_result_(number, FromProto(std::move(result)));
      ++number;
    }
    const std::lock_guard lock(mutex_);
    frames_.pop_front();
    answered_ = number;
    ++answers_;
    changed_.notify_all();
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

  // The caller's thread only.
  RandomId ids_;
  // How the stream ended, once it has.
  std::optional<absl::Status> status_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Handed to Send and not answered, in order. After the end of the reader the caller's thread has
  // it alone.
  std::deque<std::vector<NewMessage>> frames_;
  int64_t sent_ = 0;
  int64_t answered_ = 0;
  // Frames answered.
  int64_t answers_ = 0;
  // The reader has seen the end.
  bool read_over_ = false;
  // Why this side broke the stream.
  absl::Status broken_;

  // Last: it starts when all else is there.
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
