// SPDX-License-Identifier: Apache-2.0
#include "client/subscriber_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/convert.h"

namespace duetime::client {
namespace {

// Frames kept for reuse: one being read and one for each of a few handlers. More only wait in the
// queue.
constexpr size_t kFreeFramesMax = 8;
// Waits are bounded so that "for ever" does not overflow the clock's arithmetic.
constexpr absl::Duration kWaitMax = absl::Hours(24 * 365);

std::chrono::steady_clock::time_point After(absl::Duration wait) {
  const absl::Duration bounded = std::clamp(wait, absl::ZeroDuration(), kWaitMax);
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(bounded);
}

}  // namespace

void SubscriberState::BeginStream() {
  const std::lock_guard lock(mutex_);
  ++stream_;
  stream_open_ = true;
  read_ended_ = false;
  draining_ = false;
  last_frame_ = std::chrono::steady_clock::now();
}

void SubscriberState::EndStream() {
  const std::lock_guard lock(mutex_);
  stream_open_ = false;
  for (const Work& work : queue_) counts_.skipped += work.end - work.begin;
  queue_.clear();
  outgoing_.Clear();
  counts_.lost += unconfirmed_;
  unconfirmed_ = 0;
  nacks_.clear();
  write_ready_.notify_all();
  changed_.notify_all();
}

SubscriberState::StreamFate SubscriberState::WatchStream(absl::Duration silence_max) {
  std::unique_lock lock(mutex_);
  const auto silence =
      absl::ToChronoNanoseconds(std::clamp(silence_max, absl::Milliseconds(1), kWaitMax));
  for (;;) {
    if (read_ended_) return StreamFate::kOver;
    if (closing_) return StreamFate::kClose;
    const SteadyTime deadline = last_frame_ + silence;
    if (std::chrono::steady_clock::now() >= deadline) return StreamFate::kSilent;
    changed_.wait_until(lock, deadline);
  }
}

bool SubscriberState::Pause(absl::Duration wait) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, After(wait), [this] { return stopping_; });
}

bool SubscriberState::Running() const {
  const std::lock_guard lock(mutex_);
  return !stopping_;
}

void SubscriberState::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  status_ = status;
  changed_.notify_all();
}

std::shared_ptr<v1::SubscribeResponse> SubscriberState::NewFrame() {
  const std::lock_guard lock(mutex_);
  if (free_frames_.empty()) return std::make_shared<v1::SubscribeResponse>();
  auto frame = std::move(free_frames_.back());
  free_frames_.pop_back();
  return frame;
}

void SubscriberState::OnFrame(std::shared_ptr<v1::SubscribeResponse> frame) {
  const std::lock_guard lock(mutex_);
  last_frame_ = std::chrono::steady_clock::now();
  if (frame->has_started()) ++counts_.streams;
  if (frame->settled_size() > 0 || frame->refused_size() > 0) Confirm(*frame);
  if (frame->has_drain()) {
    draining_ = true;
    write_ready_.notify_all();
  }
  if (frame->deliveries_size() == 0) {
    Recycle(std::move(frame));
  } else if (!WantsWork()) {
    counts_.skipped += frame->deliveries_size();
    Recycle(std::move(frame));
  } else {
    const int size = frame->deliveries_size();
    queue_.push_back({.frame = std::move(frame), .begin = 0, .end = size, .stream = stream_});
    if (handler_threads_ == 1) {
      work_ready_.notify_one();
    } else {
      work_ready_.notify_all();
    }
  }
}

void SubscriberState::Confirm(const v1::SubscribeResponse& response) {
  for (const uint64_t token : response.settled()) {
    if (!nacks_.empty() && nacks_.erase(token) > 0) {
      ++counts_.nacked;
    } else {
      ++counts_.acked;
    }
  }
  for (const v1::SettleRefusal& refusal : response.refused()) nacks_.erase(refusal.lease_token());
  counts_.refused += response.refused_size();
  unconfirmed_ -= response.settled_size() + response.refused_size();
  if (unconfirmed_ > 0) return;
  if (stopping_) changed_.notify_all();
  if (draining_) write_ready_.notify_all();
}

void SubscriberState::Recycle(std::shared_ptr<v1::SubscribeResponse> frame) {
  if (free_frames_.size() < kFreeFramesMax) free_frames_.push_back(std::move(frame));
}

void SubscriberState::OnReadEnd() {
  const std::lock_guard lock(mutex_);
  read_ended_ = true;
  changed_.notify_all();
}

std::optional<Work> SubscriberState::TakeWork() {
  std::unique_lock lock(mutex_);
  work_ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  if (stopping_) return std::nullopt;
  ++busy_handlers_;
  Work& front = queue_.front();
  // One thread takes a frame at a time, which costs one lock; several take a message at a time, so
  // that none waits behind another's slow ones.
  Work work = front;
  if (handler_threads_ > 1) work.end = work.begin + 1;
  front.begin = work.end;
  if (front.begin == front.end) queue_.pop_front();
  return work;
}

bool SubscriberState::Settle(const Work& work, uint64_t lease_token, const Settlement& settlement) {
  const std::lock_guard lock(mutex_);
  const bool current = stream_open_ && work.stream == stream_;
  ++counts_.delivered;
  if (settlement.kind == Settlement::Kind::kLeave) {
    ++counts_.left;
  } else if (!current) {
    ++counts_.lost;
  } else {
    if (settlement.kind == Settlement::Kind::kAck) {
      outgoing_.add_ack(lease_token);
    } else {
      v1::Nack* nack = outgoing_.add_nack();
      nack->set_lease_token(lease_token);
      *nack->mutable_delay() = ToProto(settlement.delay);
      nack->set_reason(settlement.reason);
      nacks_.insert(lease_token);
    }
    ++unconfirmed_;
    write_ready_.notify_one();
  }
  return current && !stopping_;
}

void SubscriberState::FinishWork(Work work, int handled) {
  const std::lock_guard lock(mutex_);
  --busy_handlers_;
  counts_.skipped += work.end - work.begin - handled;
  // Every holder of a frame lets go of it under the lock, so the count is exact here.
  if (work.frame.use_count() == 1) Recycle(std::move(work.frame));
  work.frame.reset();
  if (draining_) write_ready_.notify_all();
}

SubscriberState::WriteTask SubscriberState::NextWrite(v1::SubscribeRequest* request) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!stream_open_) return WriteTask::kEnd;
    if (outgoing_.ack_size() > 0 || outgoing_.nack_size() > 0) {
      request->Clear();
      request->Swap(&outgoing_);
      ++counts_.settle_requests;
      return WriteTask::kWrite;
    }
    // Asked to drain, and nothing is left to settle: the server need not wait for its grace to run
    // out.
    if (draining_ && queue_.empty() && busy_handlers_ == 0 && unconfirmed_ == 0) {
      return WriteTask::kHalfClose;
    }
    write_ready_.wait(lock);
  }
}

void SubscriberState::RequestStop() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  stopping_ = true;
  lost_before_stop_ = counts_.lost;
  for (const Work& work : queue_) counts_.skipped += work.end - work.begin;
  queue_.clear();
  work_ready_.notify_all();
  changed_.notify_all();
}

bool SubscriberState::WaitConfirmed(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  const bool answered = changed_.wait_until(lock, After(timeout),
                                            [this] { return unconfirmed_ == 0 || !stream_open_; });
  return answered && counts_.lost == lost_before_stop_;
}

void SubscriberState::Close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

bool SubscriberState::WaitUntilEnded(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, After(timeout), [this] { return ended_; });
}

absl::Status SubscriberState::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

SubscriberCounts SubscriberState::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace duetime::client
