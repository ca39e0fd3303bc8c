// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kill9_history.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace duetime::crash {
namespace {

bool MayHaveHappened(Ended ended) {
  return ended == Ended::kOk || ended == Ended::kUnknown || ended == Ended::kNot;
}
bool IsOpen(Ended ended) { return ended == Ended::kUnknown || ended == Ended::kNot; }

// Checks the rules for one message.
class Judge {
 public:
  Judge(size_t number, const MessageHistory& message, std::vector<Violation>* violations)
      : number_(number), message_(message), violations_(violations) {}

  void Check() const {
    CheckCancels();
    CheckDeliveries();
    CheckAcks();
    CheckTombstones();
    CheckLost();
  }

 private:
  void Report(const char* rule, const std::string& text) const {
    violations_->push_back({number_, rule, text});
  }

  bool Cancelled() const {
    return std::any_of(message_.cancels.begin(), message_.cancels.end(), [](const auto& cancel) {
      return cancel.ended == Ended::kOk && cancel.found == Found::kCancelled;
    });
  }

  void CheckCancels() const {
    int cancelled = 0;
    for (const CancelEvent& cancel : message_.cancels) {
      if (cancel.ended != Ended::kOk) continue;
      cancelled += cancel.found == Found::kCancelled ? 1 : 0;
      if (!cancel.redelivery_stopped) continue;
      for (const DeliveryEvent& delivery : message_.deliveries) {
        // Within one run, the client may receive the delivery and the answer to the cancel in
        // either order.
        if (delivery.run > cancel.run) Report("STOPPED_DELIVERED", "in a later run");
      }
    }
    if (cancelled > 1) Report("CANCELLED_TWICE", "");
    if (cancelled > 0 && !message_.deliveries.empty()) {
      Report("CANCELLED_DELIVERED", std::to_string(message_.deliveries.size()) + " times");
    }
  }

  void CheckDeliveries() const {
    if (message_.scheduled == Ended::kOk &&
        message_.deliver_ms * 1'000 < message_.wanted_us + message_.delay_ms * 1'000) {
      Report("EARLY", "the deliver_time is before what was asked for");
    }
    if (message_.scheduled == Ended::kRefused && !message_.deliveries.empty()) {
      Report("REFUSED_DELIVERED", "");
    }
    for (const DeliveryEvent& delivery : message_.deliveries) {
      CheckTimes(delivery);
      if (delivery.attempt < 1) Report("ATTEMPT", "below 1");
      if (message_.scheduled == Ended::kOk && delivery.id != message_.id) {
        Report("ID", delivery.id + " instead of " + message_.id);
      }
      if (delivery.id != message_.deliveries.front().id) Report("ID", "two of one message");
      if (delivery.deliver_ms != message_.deliveries.front().deliver_ms) {
        Report("ID", "two deliver_times of one message");
      }
      for (const DeliveryEvent& other : message_.deliveries) CheckPair(delivery, other);
    }
  }

  void CheckTimes(const DeliveryEvent& delivery) const {
    if (delivery.received_us < delivery.deliver_ms * 1'000) {
      Report("EARLY", std::to_string(delivery.deliver_ms * 1'000 - delivery.received_us) + " us");
    }
    if (message_.scheduled == Ended::kOk && delivery.deliver_ms != message_.deliver_ms) {
      Report("ID", "a deliver_time other than the one acknowledged");
    }
    if (delivery.received_us < message_.wanted_us + message_.delay_ms * 1'000) {
      Report("EARLY", "before what was asked for");
    }
  }

  // Checks one delivery against another of the same message. Called for each order of the two.
  void CheckPair(const DeliveryEvent& one, const DeliveryEvent& other) const {
    if (&one == &other) return;
    if (one.run == other.run && one.attempt == other.attempt && &one < &other) {
      Report("ATTEMPT", "number " + std::to_string(one.attempt) + " twice in a run");
    }
    const bool other_first =
        other.run < one.run || (other.run == one.run && other.attempt < one.attempt);
    if (other_first && !one.maybe_redelivered) Report("ATTEMPT", "a repeat that does not say so");
  }

  void CheckAcks() const {
    int confirmed = 0;
    for (const AckEvent& ack : message_.acks) {
      if (ack.ended != Ended::kOk) continue;
      ++confirmed;
      const auto acked =
          std::find_if(message_.deliveries.begin(), message_.deliveries.end(),
                       [&](const auto& delivery) { return delivery.token == ack.token; });
      if (acked == message_.deliveries.end()) continue;
      for (const DeliveryEvent& delivery : message_.deliveries) {
        // Compares runs and attempts, because a client may read a frame of an earlier lease late.
        if (delivery.run > acked->run ||
            (delivery.run == acked->run && delivery.attempt > acked->attempt)) {
          Report("ACKED_DELIVERED", "run " + std::to_string(delivery.run) +
                                        " after an ack in run " + std::to_string(acked->run));
        }
      }
    }
    if (confirmed > 1) Report("ACKED_TWICE", "");
  }

  // Whether an ack that may have taken effect began before this moment.
  bool AckBegan(uint64_t before) const {
    return std::any_of(message_.acks.begin(), message_.acks.end(), [&](const AckEvent& ack) {
      return ack.begun < before && MayHaveHappened(ack.ended);
    });
  }
  bool AckConfirmed(uint64_t before) const {
    return std::any_of(message_.acks.begin(), message_.acks.end(), [&](const AckEvent& ack) {
      return ack.over < before && ack.ended == Ended::kOk;
    });
  }
  // Whether another cancel that ended the message, or may have, began before this moment.
  bool CancelBegan(const CancelEvent& but, uint64_t before) const {
    return std::any_of(message_.cancels.begin(), message_.cancels.end(),
                       [&](const CancelEvent& other) {
                         if (&other == &but || other.begun > before) return false;
                         return IsOpen(other.ended) || (other.ended == Ended::kOk && Ends(other));
                       });
  }
  bool CancelConfirmed(uint64_t before) const {
    return std::any_of(message_.cancels.begin(), message_.cancels.end(),
                       [&](const CancelEvent& other) {
                         return other.ended == Ended::kOk && other.over < before && Ends(other);
                       });
  }
  static bool Ends(const CancelEvent& cancel) {
    return cancel.found == Found::kCancelled ||
           (cancel.found == Found::kInFlight && cancel.redelivery_stopped);
  }
  static bool FoundEnded(const CancelEvent& cancel) {
    return cancel.ended == Ended::kOk &&
           (cancel.found == Found::kSettled || cancel.found == Found::kAlreadyCancelled);
  }

  void CheckTombstones() const {
    int64_t end_ms = 0;
    for (const CancelEvent& cancel : message_.cancels) {
      if (cancel.ended != Ended::kOk) continue;
      if (cancel.found == Found::kNotFound) {
        if (message_.scheduled == Ended::kOk && message_.scheduled_at < cancel.begun) {
          Report("NOT_FOUND", "its tombstone is kept for longer than this");
        }
        continue;
      }
      if (cancel.found == Found::kSettled && !AckBegan(cancel.over)) {
        Report("UNTRUE_END", "settled, and no ack had begun");
      }
      if (cancel.found == Found::kAlreadyCancelled && !CancelBegan(cancel, cancel.over)) {
        Report("UNTRUE_END", "already cancelled, and no cancel had begun");
      }
      if (cancel.found != Found::kSettled && AckConfirmed(cancel.begun)) {
        Report("FORGOTTEN_END", "an ack had been confirmed");
      }
      if (cancel.found != Found::kAlreadyCancelled && CancelConfirmed(cancel.begun)) {
        Report("FORGOTTEN_END", "a cancel had been confirmed");
      }
      if (!FoundEnded(cancel)) continue;
      if (cancel.end_ms <= 0 || (end_ms != 0 && cancel.end_ms != end_ms)) {
        Report("END_TIME", std::to_string(cancel.end_ms) + " after " + std::to_string(end_ms));
      }
      end_ms = cancel.end_ms;
      for (const DeliveryEvent& delivery : message_.deliveries) {
        if (delivery.run > cancel.run) Report("ENDED_DELIVERED", "in a later run");
      }
    }
  }

  void CheckLost() const {
    const bool accepted = message_.scheduled == Ended::kOk ||
                          (IsOpen(message_.scheduled) && !message_.deliveries.empty());
    if (!accepted || Cancelled()) return;
    const bool acked = std::any_of(message_.acks.begin(), message_.acks.end(),
                                   [](const AckEvent& ack) { return MayHaveHappened(ack.ended); });
    const bool stopped = std::any_of(
        message_.cancels.begin(), message_.cancels.end(), [&](const CancelEvent& cancel) {
          if (cancel.ended == Ended::kOk) return cancel.redelivery_stopped;
          // A plain cancel ends only messages that were never delivered.
          return IsOpen(cancel.ended) && (cancel.stop_redelivery || message_.deliveries.empty());
        });
    if (!acked && !stopped) {
      Report("LOST", message_.id + " was delivered " + std::to_string(message_.deliveries.size()) +
                         " times and ended without a reason");
    }
  }

  const size_t number_;
  const MessageHistory& message_;
  std::vector<Violation>* const violations_;
};

}  // namespace

std::vector<Violation> Check(const std::vector<MessageHistory>& history) {
  std::vector<Violation> violations;
  std::map<std::string, size_t> ids;
  std::map<uint64_t, size_t> tokens;
  for (size_t number = 0; number < history.size(); ++number) {
    const MessageHistory& message = history[number];
    Judge(number, message, &violations).Check();
    std::string id = message.id;
    if (id.empty() && !message.deliveries.empty()) id = message.deliveries.front().id;
    if (!id.empty() && !ids.emplace(id, number).second) {
      violations.push_back({number, "ID", id + " is another message's, too"});
    }
    for (const DeliveryEvent& delivery : message.deliveries) {
      if (!tokens.emplace(delivery.token, number).second) {
        violations.push_back({number, "TOKEN", std::to_string(delivery.token) + " given twice"});
      }
    }
  }
  return violations;
}

}  // namespace duetime::crash
