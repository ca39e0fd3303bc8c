// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/recorder.h"

#include <algorithm>
#include <grpcpp/grpcpp.h>

#include "tests/crash/call_outcome.h"

namespace duetime::cells {

using test::Event;
using test::Outcome;
using test::What;

namespace {

Outcome OutcomeOf(const absl::Status& status) {
  return crash::OutcomeOf(grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), ""));
}

Outcome OutcomeOfGet(const absl::Status& status, v1::Message::State state) {
  if (absl::IsNotFound(status)) return Outcome::kNotFound;
  if (!status.ok()) return OutcomeOf(status);
  switch (state) {
    case v1::Message::STATE_SCHEDULED:
    case v1::Message::STATE_DUE:
    case v1::Message::STATE_IN_FLIGHT:
      return Outcome::kOk;
    case v1::Message::STATE_CANCELLED:
      return Outcome::kAlreadyCancelled;
    default:
      return Outcome::kSettled;
  }
}

// A gateway puts the name of the cell before each id: "a.06c...". Returns the id without it.
std::string IdInCell(const std::string& id) { return id.substr(id.find('.') + 1); }

}  // namespace

void Pulse::Beat() {
  const std::lock_guard lock(mutex_);
  beats_.push_back(crash::SteadyMillis());
}

int64_t Pulse::last_ms() const {
  const std::lock_guard lock(mutex_);
  return beats_.empty() ? 0 : beats_.back();
}

int64_t Pulse::LongestGap(int64_t from_ms, int64_t to_ms) const {
  const std::lock_guard lock(mutex_);
  auto beat = std::upper_bound(beats_.begin(), beats_.end(), from_ms);
  int64_t last_ms = beat == beats_.begin() ? from_ms : *(beat - 1);
  int64_t longest_ms = 0;
  for (; beat != beats_.end() && *beat <= to_ms; ++beat) {
    longest_ms = std::max(longest_ms, *beat - last_ms);
    last_ms = *beat;
  }
  return std::max(longest_ms, to_ms - last_ms);
}

int64_t ToMillis(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000 + time.nanos() / 1'000'000;
}

void SetMillis(int64_t ms, google::protobuf::Duration* duration) {
  duration->set_seconds(ms / 1'000);
  duration->set_nanos(static_cast<int32_t>(ms % 1'000 * 1'000'000));
}

void Recorder::Begin(const Event& event) {
  begun_ = event;
  begun_.client = client_;
  world_.history->Add(begun_);
}

void Recorder::End(Event event) {
  event.message = begun_.message;
  event.what = begun_.what;
  event.client = client_;
  event.run = world_.leaderships->Newest();
  world_.history->Add(event);
}

uint32_t Recorder::BeginSchedule(int64_t delay_ms) {
  const uint32_t number = world_.history->NewMessage();
  Begin({.time_ms = delay_ms, .message = number, .what = What::kSchedule});
  return number;
}

void Recorder::EndSchedule(uint32_t number, const absl::Status& status,
                           const v1::Message& message) {
  Event event = {.outcome = OutcomeOf(status)};
  if (status.ok()) {
    event.id = test::Fingerprint(IdInCell(message.id()));
    event.time_ms = ToMillis(message.deliver_time());
  }
  // Of a batch, more than one call is open.
  begun_.message = number;
  begun_.what = What::kSchedule;
  End(event);
  // Only now, so that no other call begins before the history has this answer.
  if (status.ok()) world_.accepted.Add(number, IdInCell(message.id()));
}

void Recorder::BeginCancel(uint32_t number, bool stop_redelivery) {
  Begin({.message = number,
         .what = What::kCancel,
         .flags = stop_redelivery ? test::kStopRedelivery : uint8_t{0}});
}

void Recorder::EndCancel(const absl::Status& status, const v1::CancelResponse& response,
                         bool tried_before) {
  if (tried_before) {
    Event earlier = begun_;
    earlier.client = static_cast<uint16_t>(client_ + kEarlierTry);
    world_.history->Add(earlier);
  }
  Event event;
  event.outcome =
      status.ok() ? crash::OutcomeOf(response.outcome(), Outcome::kCancelled) : OutcomeOf(status);
  event.time_ms = ToMillis(response.end_time());
  event.flags = response.redelivery_stopped() ? test::kRedeliveryStopped : uint8_t{0};
  End(event);
}

void Recorder::BeginMove(uint32_t number, int64_t delay_ms) {
  Begin({.time_ms = delay_ms, .message = number, .what = What::kReschedule});
}

void Recorder::EndMove(const absl::Status& status, const v1::RescheduleResponse& response) {
  End({.time_ms = ToMillis(response.message().deliver_time()),
       .outcome =
           status.ok() ? crash::OutcomeOf(response.outcome(), Outcome::kOk) : OutcomeOf(status)});
}

void Recorder::BeginGet(uint32_t number) { Begin({.message = number, .what = What::kGet}); }

void Recorder::EndGet(const absl::Status& status, const v1::Message& message) {
  const Outcome outcome = OutcomeOfGet(status, message.state());
  // A get that failed changes nothing and tells nothing.
  if (outcome < Outcome::kOk) return;
  End({.time_ms = outcome == Outcome::kOk ? ToMillis(message.deliver_time()) : 0,
       .outcome = outcome});
}

}  // namespace duetime::cells
