// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/subscriber_state.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

// Frames kept for reuse: one for the reader and one for each of a few handlers. More frames would
// only wait in the queue.
constexpr size_t kFreeFramesMax = 8;
// The longest wait, so that an infinite wait does not overflow the clock's arithmetic.
constexpr absl::Duration kWaitMax = absl::Hours(24 * 365);

std::chrono::steady_clock::time_point After(absl::Duration wait) {
  const absl::Duration bounded = std::clamp(wait, absl::ZeroDuration(), kWaitMax);
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(bounded);
}

// The longest reason that the server accepts. It ends the stream if it gets a longer one.
constexpr size_t kReasonBytesMax = 255;

// The bytes of the character that begins at `at`; 0 if this is not UTF-8.
size_t CharacterBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? text[i] & 0xFF : 0; };
  const int first = byte(at);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  // The range of the second byte excludes characters that have a shorter form, surrogates, and what
  // is beyond Unicode.
  const int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (first < 0xC2 || first > 0xF4 || byte(at + 1) < least || byte(at + 1) > most) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (byte(at + i) < 0x80 || byte(at + i) > 0xBF) return 0;
  }
  return size;
}

// A reason that the server accepts.
std::string FittingReason(std::string reason) {
  size_t fitting = 0;
  size_t end = 0;
  while (end < reason.size()) {
    const size_t size = CharacterBytes(reason, end);
    if (size == 0) {
      for (char& c : reason) c = (c & 0x80) != 0 ? '?' : c;
      return reason.substr(0, kReasonBytesMax);
    }
    end += size;
    if (end <= kReasonBytesMax) fitting = end;
  }
  return reason.substr(0, fitting);
}

// What the server's limit counts.
int SettlementsIn(const v1::SubscribeRequest& request) {
  return request.settlements_size() + request.begun_size();
}

// Moves the elements that exceed `room` from the end of `from` to `to`. Returns the room left.
template <typename Element>
int MoveExcess(int room, google::protobuf::RepeatedPtrField<Element>* from,
               google::protobuf::RepeatedPtrField<Element>* to) {
  const int kept = std::min(room, from->size());
  for (int i = kept; i < from->size(); ++i) *to->Add() = std::move(*from->Mutable(i));
  from->DeleteSubrange(kept, from->size() - kept);
  return room - kept;
}

}  // namespace

std::optional<int64_t> SubscriberState::BeginStream() {
  const base::MutexLock lock(&mutex_);
  if (max_deliveries_ > 0) {
    while (!stopping_ && busy_handlers_ > 0) changed_.Wait(&mutex_);
    if (Done()) End(absl::OkStatus());
    if (stopping_ || ended_) return std::nullopt;
    stream_left_ = max_deliveries_ - counts_.delivered;
  }
  ++stream_;
  stream_open_ = true;
  read_ended_ = false;
  draining_ = false;
  last_frame_ = std::chrono::steady_clock::now();
  return stream_left_;
}

void SubscriberState::EndStream() {
  const base::MutexLock lock(&mutex_);
  stream_open_ = false;
  ClearQueue();
  leases_.Clear();
  outgoing_.Clear();
  counts_.lost += unconfirmed_;
  unconfirmed_ = 0;
  not_acks_.clear();
  skipped_.clear();
  write_ready_.NotifyAll();
  changed_.NotifyAll();
}

SubscriberState::StreamEvent SubscriberState::WatchStream(absl::Duration silence_max) {
  const base::MutexLock lock(&mutex_);
  const auto silence =
      absl::ToChronoNanoseconds(std::clamp(silence_max, absl::Milliseconds(1), kWaitMax));
  for (;;) {
    if (read_ended_) return StreamEvent::kOver;
    if (closing_) return StreamEvent::kClose;
    const SteadyTime deadline = last_frame_ + silence;
    if (std::chrono::steady_clock::now() >= deadline) return StreamEvent::kSilent;
    changed_.WaitUntil(&mutex_, deadline);
  }
}

bool SubscriberState::Pause(absl::Duration wait) {
  const base::MutexLock lock(&mutex_);
  const SteadyTime deadline = After(wait);
  while (!stopping_ && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return !stopping_;
}

bool SubscriberState::Running() const {
  const base::MutexLock lock(&mutex_);
  return !stopping_;
}

bool SubscriberState::EndIfDone() {
  const base::MutexLock lock(&mutex_);
  if (Done()) End(absl::OkStatus());
  return ended_;
}

void SubscriberState::Fail(const absl::Status& status) {
  const base::MutexLock lock(&mutex_);
  End(status);
}

void SubscriberState::End(const absl::Status& status) {
  ended_ = true;
  status_ = status;
  changed_.NotifyAll();
}

std::shared_ptr<Frame> SubscriberState::NewFrame() {
  const base::MutexLock lock(&mutex_);
  if (free_frames_.empty()) return std::make_shared<Frame>();
  auto frame = std::move(free_frames_.back());
  free_frames_.pop_back();
  return frame;
}

void SubscriberState::OnFrame(std::shared_ptr<Frame> frame) {
  const base::MutexLock lock(&mutex_);
  last_frame_ = std::chrono::steady_clock::now();
  const v1::SubscribeResponse& response = frame->response;
  if (response.has_started()) {
    ++counts_.streams;
    leases_.Start(FromProto(response.started().lease_duration()));
    const int credit = response.started().max_outstanding_messages();
    request_max_ = credit > 0 ? credit : std::numeric_limits<int>::max();
    write_ready_.NotifyAll();
  }
  Confirm(response);
  if (response.has_drain()) {
    draining_ = true;
    write_ready_.NotifyAll();
  }
  int size = response.deliveries_size();
  leases_.Add(frame.get(), last_frame_);
  if (max_deliveries_ > 0) {
    // Older servers do not know max_deliveries.
    const int excess = static_cast<int>(std::max(size - stream_left_, int64_t{0}));
    Skip(frame.get(), size - excess, size, stream_);
    size -= excess;
    stream_left_ -= size;
    if (stream_left_ == 0) draining_ = true;
  }
  if (size == 0) {
    Recycle(std::move(frame));
  } else if (stopping_ || !stream_open_) {
    Skip(frame.get(), 0, size, stream_);
    Recycle(std::move(frame));
  } else {
    queue_.push_back({.frame = std::move(frame), .begin = 0, .end = size, .stream = stream_});
    if (handler_threads_ == 1) {
      work_ready_.NotifyOne();
    } else {
      work_ready_.NotifyAll();
    }
  }
}

void SubscriberState::Confirm(const v1::SubscribeResponse& response) {
  for (const std::string& token : response.extended()) leases_.OnExtended(token);
  counts_.extended += response.extended_size();
  for (const std::string& token : response.begun()) leases_.OnBegun(token, last_frame_);
  // A handler may wait for the answer to its report.
  if (!response.begun().empty() || !response.refused().empty()) changed_.NotifyAll();
  if (response.settled().empty() && response.refused().empty()) return;
  for (const std::string& token : response.settled()) {
    leases_.OnSettled(token);
    if (!skipped_.empty() && skipped_.erase(token) > 0) continue;
    --unconfirmed_;
    const auto kind = not_acks_.empty() ? not_acks_.end() : not_acks_.find(token);
    if (kind == not_acks_.end()) {
      ++counts_.acked;
      continue;
    }
    ++(kind->second == Settlement::Kind::kNack      ? counts_.nacked
       : kind->second == Settlement::Kind::kRelease ? counts_.released
                                                    : counts_.dead_lettered);
    not_acks_.erase(kind);
  }
  for (const v1::SettleRefusal& refusal : response.refused()) OnRefused(refusal);
  if (unconfirmed_ > 0) return;
  if (stopping_) changed_.NotifyAll();
  if (draining_) write_ready_.NotifyAll();
}

// A token may have been sent first in extensions and a report, and then in a settlement. The server
// answers them in that order.
void SubscriberState::OnRefused(const v1::SettleRefusal& refusal) {
  if (leases_.OnRefused(refusal.lease_token())) return;
  if (skipped_.erase(refusal.lease_token()) > 0) return;
  not_acks_.erase(refusal.lease_token());
  ++counts_.refused;
  ++counts_.refusals[refusal.reason()];
  --unconfirmed_;
}

void SubscriberState::Skip(Frame* frame, int begin, int end, uint64_t stream) {
  for (int i = begin; i < end; ++i) {
    if (leases_.Remove(frame, i)) SkipOne(frame->response.deliveries(i), stream);
  }
}

void SubscriberState::SkipOne(const v1::Delivery& delivery, uint64_t stream) {
  ++counts_.skipped;
  if (!stopping_ || !IsOpen(stream)) return;
  *outgoing_.add_settlements() = ToProto(Settlement::Release(), delivery.lease_token());
  skipped_.insert(delivery.lease_token());
  write_ready_.NotifyOne();
}

void SubscriberState::OnGivenBack(std::vector<std::string> tokens) {
  if (tokens.empty()) return;
  counts_.skipped += static_cast<int64_t>(tokens.size());
  for (std::string& token : tokens) skipped_.insert(std::move(token));
  // The server delivers these messages again, so the queue must not keep the first copies.
  std::erase_if(queue_, [](const Work& work) {
    const auto& waits = work.frame->waits;
    return std::find(waits.begin() + work.begin, waits.begin() + work.end, true) ==
           waits.begin() + work.end;
  });
}

void SubscriberState::ClearQueue() {
  for (const Work& work : queue_) Skip(work.frame.get(), work.begin, work.end, work.stream);
  queue_.clear();
}

void SubscriberState::Recycle(std::shared_ptr<Frame> frame) {
  if (free_frames_.size() < kFreeFramesMax) free_frames_.push_back(std::move(frame));
}

void SubscriberState::OnReadEnd() {
  const base::MutexLock lock(&mutex_);
  read_ended_ = true;
  changed_.NotifyAll();
}

std::optional<Work> SubscriberState::TakeWork(int handler) {
  const base::MutexLock lock(&mutex_);
  for (;;) {
    while (!stopping_ && queue_.empty()) work_ready_.Wait(&mutex_);
    if (stopping_) return std::nullopt;
    ++busy_handlers_;
    Work& front = queue_.front();
    // A single thread takes a whole frame, which costs one lock. Several threads take one message
    // each, so that no message waits behind a slow one.
    Work work = front;
    work.handler = handler;
    if (handler_threads_ > 1) work.end = work.begin + 1;
    front.begin = work.end;
    if (front.begin == front.end) queue_.pop_front();
    if (BeginNext(&work)) return work;
    FinishWork(&work);
  }
}

bool SubscriberState::BeginNext(Work* work) {
  for (; work->begin < work->end; ++work->begin) {
    if (stopping_ || !IsOpen(work->stream)) return false;
    const SteadyTime now = std::chrono::steady_clock::now();
    const auto taken = leases_.Take(work->handler, work->frame.get(), work->begin, now);
    if (taken == LeaseKeeper::Taken::kLost) ++counts_.skipped;
    if (taken != LeaseKeeper::Taken::kYes) continue;
    if (now + LeaseKeeper::kReportAlone < writer_wakes_) write_ready_.NotifyOne();
    if (!work->delivery().confirm_begun() || AwaitConfirmation(work->stream, work->handler)) {
      return true;
    }
    leases_.End(work->handler);
    SkipOne(work->delivery(), work->stream);
  }
  return false;
}

bool SubscriberState::AwaitConfirmation(uint64_t stream, int handler) {
  write_ready_.NotifyOne();
  while (!stopping_ && IsOpen(stream)) {
    const LeaseKeeper::Confirmation answer = leases_.ConfirmationOf(handler);
    if (answer != LeaseKeeper::Confirmation::kPending) {
      return answer == LeaseKeeper::Confirmation::kYes;
    }
    changed_.Wait(&mutex_);
  }
  return false;
}

bool SubscriberState::Settle(Work* work, const Settlement& settlement) {
  const base::MutexLock lock(&mutex_);
  SettleOne(work->delivery().lease_token(), settlement, IsOpen(work->stream),
            leases_.End(work->handler));
  ++work->begin;
  if (BeginNext(work)) return true;
  FinishWork(work);
  return false;
}

void SubscriberState::SettleOne(const std::string& lease_token, const Settlement& settlement,
                                bool open, bool reported) {
  ++counts_.delivered;
  if (settlement.kind == Settlement::Kind::kLeave) {
    ++counts_.left;
    // No settlement will say that the handler had the message, so that its attempt counts.
    if (open && !reported) {
      outgoing_.add_begun(lease_token);
      leases_.OnReport(lease_token);
      write_ready_.NotifyOne();
    }
  } else if (!open) {
    ++counts_.lost;
  } else {
    AddOutgoing(lease_token, settlement);
    ++unconfirmed_;
    write_ready_.NotifyOne();
  }
}

std::optional<Batch> SubscriberState::TakeBatch(int handler, int max) {
  const base::MutexLock lock(&mutex_);
  for (;;) {
    while (!stopping_ && queue_.empty()) work_ready_.Wait(&mutex_);
    if (stopping_) return std::nullopt;
    Batch batch = {.places = {}, .stream = stream_, .handler = handler};
    FillBatch(static_cast<size_t>(max), &batch);
    if (batch.places.empty()) continue;
    ++busy_handlers_;
    const v1::Delivery& first = batch.places.front().delivery();
    if (!first.confirm_begun() || AwaitConfirmation(batch.stream, handler)) return batch;
    leases_.End(handler);
    SkipOne(first, batch.stream);
    OnHandlerFree();
  }
}

void SubscriberState::FillBatch(size_t max, Batch* batch) {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (bool alone = false; !alone && !queue_.empty() && batch->places.size() < max;) {
    Work& front = queue_.front();
    const bool suspect = front.delivery().confirm_begun();
    if (suspect && !batch->places.empty()) break;
    const auto taken = leases_.Take(batch->handler, front.frame.get(), front.begin, now);
    if (taken == LeaseKeeper::Taken::kLost) ++counts_.skipped;
    if (taken == LeaseKeeper::Taken::kYes) {
      batch->places.push_back({.frame = front.frame, .index = front.begin});
      alone = suspect;
    }
    if (++front.begin < front.end) continue;
    Release(&front.frame);
    queue_.pop_front();
  }
  if (now + LeaseKeeper::kReportAlone < writer_wakes_) write_ready_.NotifyOne();
}

void SubscriberState::SettleBatch(Batch* batch, const std::vector<Settlement>& settlements) {
  const base::MutexLock lock(&mutex_);
  const bool open = IsOpen(batch->stream);
  const Settlement ack;
  for (size_t i = 0; i < batch->places.size(); ++i) {
    Batch::Place& place = batch->places[i];
    SettleOne(place.delivery().lease_token(), settlements.empty() ? ack : settlements[i], open,
              leases_.End(batch->handler, i));
    Release(&place.frame);
  }
  OnHandlerFree();
}

void SubscriberState::AddOutgoing(const std::string& lease_token, Settlement settlement) {
  if (settlement.kind == Settlement::Kind::kAck) {
    // The common case needs no copy of the settlement.
    outgoing_.add_settlements()->set_lease_token(lease_token);
    return;
  }
  not_acks_.emplace(lease_token, settlement.kind);
  settlement.reason = FittingReason(std::move(settlement.reason));
  *outgoing_.add_settlements() = ToProto(settlement, lease_token);
}

void SubscriberState::FinishWork(Work* work) {
  Skip(work->frame.get(), work->begin, work->end, work->stream);
  Release(&work->frame);
  OnHandlerFree();
}

void SubscriberState::Release(std::shared_ptr<Frame>* frame) {
  // Every holder drops its frame under the lock, so the count is exact here.
  if (frame->use_count() == 1) Recycle(std::move(*frame));
  frame->reset();
}

void SubscriberState::OnHandlerFree() {
  --busy_handlers_;
  if (draining_) write_ready_.NotifyAll();
  if (stopping_ || max_deliveries_ > 0) changed_.NotifyAll();
}

int SubscriberState::TakeSettlements(v1::SubscribeRequest* request) {
  request->Swap(&outgoing_);
  if (SettlementsIn(*request) <= request_max_) return request_max_ - SettlementsIn(*request);
  const int room =
      MoveExcess(request_max_, request->mutable_settlements(), outgoing_.mutable_settlements());
  return MoveExcess(room, request->mutable_begun(), outgoing_.mutable_begun());
}

SubscriberState::WriteTask SubscriberState::NextWrite(v1::SubscribeRequest* request) {
  const base::MutexLock lock(&mutex_);
  for (;;) {
    if (!stream_open_) return WriteTask::kEnd;
    request->Clear();
    const int room = TakeSettlements(request);
    const bool sends = room < request_max_ || request->no_more_deliveries();
    if (request->settlements_size() > 0) ++counts_.settle_requests;
    const SteadyTime now = std::chrono::steady_clock::now();
    OnGivenBack(leases_.Collect(now, sends, room, request));
    if (sends || SettlementsIn(*request) > 0) return WriteTask::kWrite;
    // Nothing comes and nothing is left to settle: end the stream, so that a server that drains
    // does not wait for its full grace period.
    if (draining_ && queue_.empty() && busy_handlers_ == 0 && unconfirmed_ == 0) {
      return WriteTask::kHalfClose;
    }
    if (const std::optional<SteadyTime> next = leases_.NextCollect(now); next.has_value()) {
      writer_wakes_ = *next;
      write_ready_.WaitUntil(&mutex_, *next);
    } else {
      writer_wakes_ = SteadyTime::max();
      write_ready_.Wait(&mutex_);
    }
    writer_wakes_ = SteadyTime();
  }
}

void SubscriberState::RequestStop() {
  const base::MutexLock lock(&mutex_);
  if (stopping_) return;
  stopping_ = true;
  lost_before_stop_ = counts_.lost;
  // Before the releases, so that the server does not deliver the same messages here again.
  if (stream_open_) outgoing_.set_no_more_deliveries(true);
  ClearQueue();
  write_ready_.NotifyAll();
  work_ready_.NotifyAll();
  changed_.NotifyAll();
}

bool SubscriberState::WaitHandled(absl::Duration timeout) {
  const base::MutexLock lock(&mutex_);
  const SteadyTime deadline = After(timeout);
  while (busy_handlers_ > 0 && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return busy_handlers_ == 0;
}

bool SubscriberState::WaitConfirmed(absl::Duration timeout) {
  const base::MutexLock lock(&mutex_);
  const SteadyTime deadline = After(timeout);
  while ((unconfirmed_ > 0 || !skipped_.empty()) && stream_open_ &&
         changed_.WaitUntil(&mutex_, deadline)) {
  }
  return (unconfirmed_ == 0 || !stream_open_) && counts_.lost == lost_before_stop_;
}

void SubscriberState::Close() {
  const base::MutexLock lock(&mutex_);
  closing_ = true;
  changed_.NotifyAll();
}

bool SubscriberState::WaitUntilEnded(absl::Duration timeout) {
  const base::MutexLock lock(&mutex_);
  const SteadyTime deadline = After(timeout);
  while (!ended_ && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return ended_;
}

absl::Status SubscriberState::status() const {
  const base::MutexLock lock(&mutex_);
  return status_;
}

SubscriberCounts SubscriberState::counts() const {
  const base::MutexLock lock(&mutex_);
  SubscriberCounts counts = counts_;
  counts.leases_lost = leases_.lost_count();
  return counts;
}

}  // namespace duetime::client
