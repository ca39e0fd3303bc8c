// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kill9_recorder.h"

#include <algorithm>
#include <chrono>

namespace duetime::crash {
namespace {

constexpr size_t kRecentMax = 300;

}  // namespace

int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

size_t Recorder::Wanted(int64_t delay_ms) {
  const std::lock_guard lock(mutex_);
  MessageHistory message;
  // The server's clock counts whole milliseconds, rounded down.
  message.wanted_us = NowMicros() / 1'000 * 1'000;
  message.delay_ms = delay_ms;
  history_.push_back(std::move(message));
  return history_.size() - 1;
}

void Recorder::Scheduled(size_t number, Ended ended, const std::string& id, int64_t deliver_ms) {
  const std::lock_guard lock(mutex_);
  MessageHistory& message = history_[number];
  message.scheduled = ended;
  message.scheduled_at = NextMoment();
  message.id = id;
  message.deliver_ms = deliver_ms;
  if (ended != Ended::kOk) return;
  if (recent_.size() < kRecentMax) {
    recent_.push_back(number);
  } else {
    recent_[recent_next_++ % kRecentMax] = number;
  }
}

size_t Recorder::CancelBegun(size_t number, int run, bool stop_redelivery) {
  const std::lock_guard lock(mutex_);
  CancelEvent cancel;
  cancel.begun = NextMoment();
  cancel.run = run;
  cancel.stop_redelivery = stop_redelivery;
  history_[number].cancels.push_back(cancel);
  return history_[number].cancels.size() - 1;
}

void Recorder::CancelOver(size_t number, size_t cancel, const CancelEvent& result) {
  const std::lock_guard lock(mutex_);
  CancelEvent& event = history_[number].cancels[cancel];
  event.over = NextMoment();
  event.ended = result.ended;
  event.found = result.found;
  event.redelivery_stopped = result.redelivery_stopped;
  event.end_ms = result.end_ms;
}

void Recorder::Delivered(size_t number, DeliveryEvent event) {
  const std::lock_guard lock(mutex_);
  event.at = NextMoment();
  history_[number].deliveries.push_back(std::move(event));
}

void Recorder::AckBegun(size_t number, uint64_t token) {
  const std::lock_guard lock(mutex_);
  AckEvent ack;
  ack.begun = NextMoment();
  ack.token = token;
  history_[number].acks.push_back(ack);
}

void Recorder::AckOver(size_t number, uint64_t token, Ended ended) {
  const std::lock_guard lock(mutex_);
  for (AckEvent& ack : history_[number].acks) {
    if (ack.token != token || ack.ended != Ended::kNot) continue;
    ack.over = NextMoment();
    ack.ended = ended;
  }
}

std::optional<std::pair<size_t, std::string>> Recorder::PickRecent(std::mt19937_64* random) const {
  const std::lock_guard lock(mutex_);
  if (recent_.empty()) return std::nullopt;
  const size_t number = recent_[(*random)() % recent_.size()];
  return std::pair{number, history_[number].id};
}

std::vector<std::pair<size_t, std::string>> Recorder::Accepted() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<size_t, std::string>> accepted;
  for (size_t number = 0; number < history_.size(); ++number) {
    const MessageHistory& message = history_[number];
    if (message.scheduled == Ended::kOk) accepted.emplace_back(number, message.id);
  }
  return accepted;
}

size_t Recorder::size() const {
  const std::lock_guard lock(mutex_);
  return history_.size();
}

std::vector<MessageHistory> Recorder::TakeHistory() {
  const std::lock_guard lock(mutex_);
  return std::move(history_);
}

Tally Count(const std::vector<MessageHistory>& history) {
  Tally tally;
  for (const MessageHistory& message : history) {
    const bool unknown = message.scheduled == Ended::kUnknown || message.scheduled == Ended::kNot;
    tally.scheduled += message.scheduled == Ended::kOk ? 1 : 0;
    tally.schedule_refused += message.scheduled == Ended::kRefused ? 1 : 0;
    tally.schedule_unknown += unknown ? 1 : 0;
    tally.unknown_delivered += unknown && !message.deliveries.empty() ? 1 : 0;
    for (const CancelEvent& cancel : message.cancels) {
      if (cancel.ended != Ended::kOk) {
        tally.cancel_unknown += cancel.ended == Ended::kRefused ? 0 : 1;
      } else {
        tally.cancelled += cancel.found == Found::kCancelled ? 1 : 0;
        tally.cancel_in_flight += cancel.found == Found::kInFlight ? 1 : 0;
        tally.cancel_already += cancel.found == Found::kAlreadyCancelled ? 1 : 0;
        tally.cancel_settled += cancel.found == Found::kSettled ? 1 : 0;
        tally.cancel_not_found += cancel.found == Found::kNotFound ? 1 : 0;
      }
    }
    tally.deliveries += static_cast<int64_t>(message.deliveries.size());
    for (const DeliveryEvent& delivery : message.deliveries) {
      tally.redelivered_by_later_run +=
          std::any_of(message.deliveries.begin(), message.deliveries.end(),
                      [&](const auto& other) { return other.run < delivery.run; })
              ? 1
              : 0;
    }
    for (const AckEvent& ack : message.acks) {
      tally.acks_confirmed += ack.ended == Ended::kOk ? 1 : 0;
      tally.acks_refused += ack.ended == Ended::kRefused ? 1 : 0;
      tally.acks_unknown += ack.ended == Ended::kUnknown || ack.ended == Ended::kNot ? 1 : 0;
    }
  }
  return tally;
}

}  // namespace duetime::crash
