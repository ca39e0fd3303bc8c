// SPDX-License-Identifier: Apache-2.0
#include "client/subscriber_state.h"

#include <algorithm>
#include <chrono>
#include <string>
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

// The longest reason that a server takes; with a longer one it would refuse the whole stream.
constexpr size_t kReasonBytesMax = 255;

// Cut at a character, if it is UTF-8.
std::string FittingReason(const std::string& reason) {
  if (reason.size() <= kReasonBytesMax) return reason;
  size_t size = kReasonBytesMax;
  while (size > 0 && (static_cast<unsigned char>(reason[size]) & 0xC0) == 0x80) --size;
  return reason.substr(0, size);
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
  ClearQueue();
  leases_.Clear();
  outgoing_.Clear();
  counts_.lost += unconfirmed_;
  unconfirmed_ = 0;
  not_acks_.clear();
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

std::shared_ptr<Frame> SubscriberState::NewFrame() {
  const std::lock_guard lock(mutex_);
  if (free_frames_.empty()) return std::make_shared<Frame>();
  auto frame = std::move(free_frames_.back());
  free_frames_.pop_back();
  return frame;
}

void SubscriberState::OnFrame(std::shared_ptr<Frame> frame) {
  const std::lock_guard lock(mutex_);
  last_frame_ = std::chrono::steady_clock::now();
  const v1::SubscribeResponse& response = frame->response;
  if (response.has_started()) {
    ++counts_.streams;
    leases_.Start(FromProto(response.started().lease_duration()));
    write_ready_.notify_all();
  }
  Confirm(response);
  if (response.has_drain()) {
    draining_ = true;
    write_ready_.notify_all();
  }
  const int size = response.deliveries_size();
  if (size == 0) {
    Recycle(std::move(frame));
  } else if (!WantsWork()) {
    counts_.skipped += size;
    Recycle(std::move(frame));
  } else {
    leases_.Add(frame.get(), last_frame_);
    queue_.push_back({.frame = std::move(frame), .begin = 0, .end = size, .stream = stream_});
    if (handler_threads_ == 1) {
      work_ready_.notify_one();
    } else {
      work_ready_.notify_all();
    }
  }
}

void SubscriberState::Confirm(const v1::SubscribeResponse& response) {
  for (const uint64_t token : response.extended()) leases_.OnExtended(token);
  counts_.extended += response.extended_size();
  if (response.settled().empty() && response.refused().empty()) return;
  unconfirmed_ -= response.settled_size();
  for (const uint64_t token : response.settled()) {
    const auto kind = not_acks_.empty() ? not_acks_.end() : not_acks_.find(token);
    if (kind == not_acks_.end()) {
      ++counts_.acked;
      continue;
    }
    ++(kind->second == Settlement::Kind::kNack ? counts_.nacked : counts_.dead_lettered);
    not_acks_.erase(kind);
  }
  for (const v1::SettleRefusal& refusal : response.refused()) OnRefused(refusal);
  if (unconfirmed_ > 0) return;
  if (stopping_) changed_.notify_all();
  if (draining_) write_ready_.notify_all();
}

// A token may have been sent in a request to prolong its lease and then in a settlement. The server
// answers the two in that order.
void SubscriberState::OnRefused(const v1::SettleRefusal& refusal) {
  if (leases_.OnRefused(refusal.lease_token())) {
    ++counts_.leases_lost;
    return;
  }
  not_acks_.erase(refusal.lease_token());
  ++counts_.refused;
  --unconfirmed_;
}

void SubscriberState::ClearQueue() {
  for (const Work& work : queue_) {
    counts_.skipped += work.end - work.begin;
    for (int i = work.begin; i < work.end; ++i) leases_.Release(work.frame.get(), i);
  }
  queue_.clear();
}

void SubscriberState::Recycle(std::shared_ptr<Frame> frame) {
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

bool SubscriberState::Settle(const Work& work, int index, const Settlement& settlement) {
  const std::lock_guard lock(mutex_);
  const bool current = stream_open_ && work.stream == stream_;
  ++counts_.delivered;
  leases_.Release(work.frame.get(), index);
  if (settlement.kind == Settlement::Kind::kLeave) {
    ++counts_.left;
  } else if (!current) {
    ++counts_.lost;
  } else {
    AddOutgoing(work.frame->response.deliveries(index).lease_token(), settlement);
    ++unconfirmed_;
    write_ready_.notify_one();
  }
  return current && !stopping_;
}

void SubscriberState::AddOutgoing(uint64_t lease_token, const Settlement& settlement) {
  if (settlement.kind == Settlement::Kind::kAck) {
    outgoing_.add_ack(lease_token);
    return;
  }
  not_acks_.emplace(lease_token, settlement.kind);
  if (settlement.kind == Settlement::Kind::kDeadLetter) {
    v1::DeadLetterLease* dead_letter = outgoing_.add_dead_letter();
    dead_letter->set_lease_token(lease_token);
    dead_letter->set_reason(FittingReason(settlement.reason));
    return;
  }
  v1::Nack* nack = outgoing_.add_nack();
  nack->set_lease_token(lease_token);
  if (settlement.delay.has_value()) *nack->mutable_delay() = ToProto(*settlement.delay);
  nack->set_reason(FittingReason(settlement.reason));
}

void SubscriberState::FinishWork(Work work, int handled) {
  const std::lock_guard lock(mutex_);
  --busy_handlers_;
  counts_.skipped += work.end - work.begin - handled;
  for (int i = work.begin + handled; i < work.end; ++i) leases_.Release(work.frame.get(), i);
  // Every holder of a frame lets go of it under the lock, so the count is exact here.
  if (work.frame.use_count() == 1) Recycle(std::move(work.frame));
  work.frame.reset();
  if (draining_) write_ready_.notify_all();
  if (stopping_) changed_.notify_all();
}

SubscriberState::WriteTask SubscriberState::NextWrite(v1::SubscribeRequest* request) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!stream_open_) return WriteTask::kEnd;
    request->Clear();
    request->Swap(&outgoing_);
    const bool settles =
        request->ack_size() + request->nack_size() + request->dead_letter_size() > 0;
    if (settles) ++counts_.settle_requests;
    const SteadyTime now = std::chrono::steady_clock::now();
    leases_.Collect(now, request);
    if (settles || request->extend_size() > 0) return WriteTask::kWrite;
    // Asked to drain, and nothing is left to settle: the server need not wait for its grace to run
    // out.
    if (draining_ && queue_.empty() && busy_handlers_ == 0 && unconfirmed_ == 0) {
      return WriteTask::kHalfClose;
    }
    if (const std::optional<SteadyTime> next = leases_.NextCollect(now); next.has_value()) {
      write_ready_.wait_until(lock, *next);
    } else {
      write_ready_.wait(lock);
    }
  }
}

void SubscriberState::RequestStop() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  stopping_ = true;
  lost_before_stop_ = counts_.lost;
  ClearQueue();
  work_ready_.notify_all();
  changed_.notify_all();
}

bool SubscriberState::WaitHandled(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, After(timeout), [this] { return busy_handlers_ == 0; });
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
