// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/linear_model.h"

#include <algorithm>
#include <utility>

namespace duetime::linear {
namespace {

// How far the clients' moments and the daemon's clock, which counts whole milliseconds, may differ.
constexpr int64_t kClockSlackUs = 2'000;

Seen SeenOf(const Message& message) {
  if (message.end == Message::End::kAcked) return Seen::kAcked;
  if (message.end == Message::End::kCancelled) return Seen::kCancelled;
  return message.lease == Message::Lease::kNone ? Seen::kWaiting : Seen::kInFlight;
}

int Find(const State& state, const std::string& id) {
  for (size_t i = 0; i < state.messages.size(); ++i) {
    if (state.messages[i].id == id) return static_cast<int>(i);
  }
  return -1;
}

bool Pending(const Message& message) { return message.end == Message::End::kPending; }

// One operation on one state, after each open question is decided.
class Decided {
 public:
  Decided(State state, int target, const Operation& operation, std::vector<State>* out)
      : state_(std::move(state)), target_(target), operation_(operation), out_(out) {}

  void Run() {
    switch (operation_.kind) {
      case Kind::kSchedule:
        return Schedule();
      case Kind::kReschedule:
        return Reschedule();
      case Kind::kCancel:
        return Cancel();
      case Kind::kGet:
        return Get();
      case Kind::kDeliver:
        return Deliver();
      case Kind::kAck:
      case Kind::kNack:
        return Settle();
    }
  }

 private:
  bool unknown() const { return operation_.answer == Answer::kUnknown; }
  Message* target() {
    return target_ < 0 ? nullptr : &state_.messages[static_cast<size_t>(target_)];
  }
  void Emit() { out_->push_back(std::move(state_)); }
  // The operation has this answer or none.
  bool Told(Answer answer) const { return unknown() || operation_.answer == answer; }
  bool ToldId(const Message& message) const { return unknown() || operation_.id == message.id; }
  bool ToldSeen(Seen seen) const {
    return unknown() || operation_.seen == Seen::kNothing || operation_.seen == seen;
  }

  // The answer's etag is that of the message. The model may learn the etag here.
  bool ToldEtag(Message* message) const {
    if (unknown() || operation_.etag.empty()) return true;
    if (message->etag.empty()) message->etag = operation_.etag;
    return message->etag == operation_.etag;
  }
  // The message changed, so the answer's etag differs from the previous one.
  bool NewEtag(Message* message) const {
    const std::string before = std::exchange(message->etag, unknown() ? "" : operation_.etag);
    return unknown() || (!operation_.etag.empty() && operation_.etag != before);
  }
  bool ToldTimes(const Message& message, int64_t old_deliver_ms) const {
    return unknown() || (operation_.told_deliver_ms == message.deliver_ms &&
                         operation_.old_deliver_ms == old_deliver_ms);
  }

  void Schedule() {
    Message* const message = target();
    // After its end a message keeps its key for ONCE only.
    const bool live = message != nullptr && Pending(*message);
    const bool once = message != nullptr && operation_.on_conflict == OnConflict::kOnce;
    if (once || (live && operation_.on_conflict == OnConflict::kFail)) {
      return ScheduleOrFail(message);
    }
    if (live && !message->touched) return Replace(message);
    if (operation_.only_if_exists) {
      if (Told(Answer::kNothingToReplace)) Emit();
      return;
    }
    if (!Told(Answer::kCreated) || !ToldSeen(Seen::kWaiting)) return;
    if (!unknown()) {
      if (Find(state_, operation_.id) >= 0) return;
      if (operation_.previous_id != (message == nullptr ? "" : message->id)) return;
    }
    Message created;
    if (!unknown()) {
      created.id = operation_.id;
      created.etag = operation_.etag;
    }
    created.content = operation_.content;
    created.deliver_ms = operation_.deliver_ms;
    if (!ToldTimes(created, 0)) return;
    state_.holder = static_cast<int>(state_.messages.size());
    state_.messages.push_back(std::move(created));
    Emit();
  }

  void ScheduleOrFail(Message* message) {
    const bool same = message->content == operation_.content;
    if (!Told(same ? Answer::kUnchanged : Answer::kMismatch) || !ToldId(*message)) return;
    if (!ToldSeen(SeenOf(*message))) return;
    if (same && (!ToldEtag(message) || !ToldTimes(*message, 0))) return;
    Emit();
  }

  void Replace(Message* message) {
    int64_t deliver_ms = operation_.deliver_ms;
    if (operation_.on_conflict == OnConflict::kKeepTime) deliver_ms = message->deliver_ms;
    if (operation_.on_conflict == OnConflict::kPushBack) {
      deliver_ms = std::max(deliver_ms, message->deliver_ms);
    }
    const bool changes =
        deliver_ms != message->deliver_ms || operation_.content != message->content;
    if (!Told(changes ? Answer::kReplaced : Answer::kUnchanged)) return;
    if (!ToldId(*message) || !ToldSeen(Seen::kWaiting)) return;
    const int64_t old_deliver_ms = changes ? message->deliver_ms : 0;
    message->deliver_ms = deliver_ms;
    message->content = operation_.content;
    if (!ToldTimes(*message, old_deliver_ms)) return;
    if (changes ? NewEtag(message) : ToldEtag(message)) Emit();
  }

  // For a cancel or a reschedule: returns true if the message is pending. Otherwise decides the
  // whole answer.
  bool FoundPending(const Message* message) {
    if (message == nullptr) {
      if (Told(Answer::kNotFound)) Emit();
      return false;
    }
    if (!ToldId(*message) || !ToldSeen(SeenOf(*message))) return false;
    if (Pending(*message)) return true;
    if (Told(message->end == Message::End::kAcked ? Answer::kSettled : Answer::kAlreadyCancelled)) {
      Emit();
    }
    return false;
  }

  // An answer may be uncertain only for a message of an earlier run that this run has not
  // delivered.
  bool ToldUncertain(const Message& message) const {
    return unknown() || !operation_.uncertain || (message.old && message.attempts == 0);
  }

  void Cancel() {
    Message* const message = target();
    if (!FoundPending(message)) return;
    if (!Told(message->touched ? Answer::kInFlight : Answer::kDone)) return;
    const bool stops = message->touched && operation_.stop_redelivery;
    if (!unknown() && operation_.redelivery_stopped != stops) return;
    if (message->touched && !ToldUncertain(*message)) return;
    if (!message->touched || stops) {
      message->end = Message::End::kCancelled;
      message->lease = Message::Lease::kNone;
    }
    Emit();
  }

  void Reschedule() {
    Message* const message = target();
    if (!unknown() && operation_.answer == Answer::kEtagMismatch) {
      // A message whose etag is unknown may have another etag than the required one.
      if (message != nullptr && Pending(*message) && !message->touched &&
          message->etag != operation_.if_etag) {
        Emit();
      }
      return;
    }
    // The answer's state is the new one after a move, and otherwise the old one. Here both are the
    // same.
    if (!FoundPending(message)) return;
    if (message->touched) {
      if (Told(Answer::kInFlight) && ToldUncertain(*message)) Emit();
      return;
    }
    if (!Told(Answer::kDone)) return;
    if (!operation_.if_etag.empty()) {
      if (message->etag.empty()) message->etag = operation_.if_etag;
      if (message->etag != operation_.if_etag) return;
    }
    const int64_t old_deliver_ms = std::exchange(message->deliver_ms, operation_.deliver_ms);
    if (!ToldTimes(*message, old_deliver_ms)) return;
    const bool changes = message->deliver_ms != old_deliver_ms;
    if (changes ? NewEtag(message) : ToldEtag(message)) Emit();
  }

  void Get() {
    Message* const message = target();
    if (message == nullptr) {
      if (Told(Answer::kNotFound)) Emit();
      return;
    }
    if (!Told(Answer::kFound) || !ToldId(*message) || !ToldSeen(SeenOf(*message))) return;
    if (operation_.content >= 0 && operation_.content != message->content) return;
    if (operation_.told_deliver_ms != message->deliver_ms || !ToldEtag(message)) return;
    Emit();
  }

  void Deliver() {
    Message* const message = target();
    if (message == nullptr || !Pending(*message)) return;
    if (message->lease != Message::Lease::kNone) return;
    if (operation_.content != message->content) return;
    if (operation_.told_deliver_ms != message->deliver_ms) return;
    if (operation_.over_us < message->deliver_ms * 1'000 - kClockSlackUs) return;
    if (operation_.attempt <= message->attempts) return;
    if (operation_.maybe_redelivered ? !message->touched && !message->old : message->touched) {
      return;
    }
    message->touched = true;
    message->lease = Message::Lease::kToken;
    message->token = operation_.token;
    message->attempts = operation_.attempt;
    Emit();
  }

  void Settle() {
    const auto held =
        std::find_if(state_.messages.begin(), state_.messages.end(), [&](const Message& message) {
          return message.lease == Message::Lease::kToken && message.token == operation_.token;
        });
    if (held == state_.messages.end()) {
      if (Told(Answer::kLeaseLost)) Emit();
      return;
    }
    if (!Told(Answer::kConfirmed)) return;
    held->lease = Message::Lease::kNone;
    held->token = 0;
    if (operation_.kind == Kind::kAck) held->end = Message::End::kAcked;
    Emit();
  }

  State state_;
  const int target_;
  const Operation& operation_;
  std::vector<State>* const out_;
};

// The target of the operation, by id or by key.
int TargetOf(const State& state, const Operation& operation) {
  if (operation.kind == Kind::kDeliver) return Find(state, operation.id);
  if (operation.kind == Kind::kSchedule || operation.target_id.empty()) return state.holder;
  return Find(state, operation.target_id);
}

// Binds ids that the operation names to messages that no client had seen.
void Bind(const State& state, const Operation& operation, std::vector<State>* out) {
  std::vector<State> states = {state};
  for (const std::string& id : {operation.target_id, operation.id, operation.previous_id}) {
    if (id.empty()) continue;
    const size_t known = states.size();
    for (size_t i = 0; i < known; ++i) {
      if (Find(states[i], id) >= 0) continue;
      for (size_t j = 0; j < states[i].messages.size(); ++j) {
        if (!states[i].messages[j].id.empty()) continue;
        State bound = states[i];
        bound.messages[j].id = id;
        states.push_back(std::move(bound));
      }
    }
  }
  *out = std::move(states);
}

}  // namespace

void Step(const State& state, const Operation& operation, std::vector<State>* out) {
  std::vector<State> starts;
  Bind(state, operation, &starts);
  for (State& start : starts) {
    const int target = TargetOf(start, operation);
    // The id comes from an answer, so its message exists.
    if (target < 0 && (operation.kind == Kind::kDeliver || !operation.target_id.empty())) continue;
    const bool looks = operation.kind != Kind::kAck && operation.kind != Kind::kNack &&
                       operation.kind != Kind::kDeliver;
    if (looks && target >= 0) {
      const Message& message = start.messages[static_cast<size_t>(target)];
      const bool waits = Pending(message) && message.lease == Message::Lease::kNone;
      const int64_t latest_us = operation.over_us;
      if (waits && message.deliver_ms * 1'000 - kClockSlackUs <= latest_us) {
        State hidden = start;
        Message& handed_out = hidden.messages[static_cast<size_t>(target)];
        handed_out.touched = true;
        handed_out.lease = Message::Lease::kHidden;
        Decided(std::move(hidden), target, operation, out).Run();
      }
      if (waits && message.old && !message.touched &&
          (message.deliver_ms - kClaimAheadMs) * 1'000 <= latest_us) {
        State released = start;
        released.messages[static_cast<size_t>(target)].touched = true;
        Decided(std::move(released), target, operation, out).Run();
      }
    }
    Decided(std::move(start), target, operation, out).Run();
  }
}

void Restart(State* state) {
  for (Message& message : state->messages) {
    message.lease = Message::Lease::kNone;
    message.token = 0;
    message.attempts = 0;
    message.old = true;
  }
}

std::string State::Text() const {
  std::string text;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    if (static_cast<int>(i) == holder) text += '*';
    text += message.id.empty() ? "?" : message.id;
    text += " #";
    text += std::to_string(message.content);
    text += " at ";
    text += std::to_string(message.deliver_ms);
    text += " etag ";
    text += message.etag;
    if (message.end == Message::End::kAcked) text += " acked";
    if (message.end == Message::End::kCancelled) text += " cancelled";
    if (message.touched) text += " touched";
    if (message.old) text += " old";
    if (message.lease == Message::Lease::kToken) {
      text += " with ";
      text += std::to_string(message.token);
    }
    if (message.lease == Message::Lease::kHidden) text += " handed out unseen";
    text += " attempts ";
    text += std::to_string(message.attempts);
    text += "; ";
  }
  return text;
}

}  // namespace duetime::linear
