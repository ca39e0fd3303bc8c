// SPDX-License-Identifier: Apache-2.0
//
// TopicUse: whether a deleted topic is in use again.
#pragma once

#include <atomic>
#include <cstdint>

namespace duetime::protocol {

// Whether a deleted topic is in use again, or its name has ended. All versions of a topic since its
// deletion began share one object. Thread-safe. Guarantee: at most one of Use and End ever returns
// true.
class TopicUse {
 public:
  // A shard accepts a message of the topic. It calls this before the client gets its answer, so
  // that a topic with a message is never hidden. False: the name has ended, and the number belongs
  // to another topic.
  bool Use() { return Become(State::kUsed); }
  // Ends the name. False: the topic is in use again.
  bool End() { return Become(State::kEnded); }
  bool used() const { return state_.load() == State::kUsed; }

 private:
  enum class State : uint8_t { kUnused, kUsed, kEnded };

  bool Become(State wanted) {
    State now = State::kUnused;
    return state_.compare_exchange_strong(now, wanted) || now == wanted;
  }

  std::atomic<State> state_{State::kUnused};
};

}  // namespace duetime::protocol
