// SPDX-License-Identifier: Apache-2.0
//
// Calls: clients and subscribers of the shards, whose answers and deliveries a Contract checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/contract.h"
#include "tests/simulation/world.h"

namespace duetime::simulation {

// The base of ConcurrentCalls and SequentialCalls. The clients schedule, cancel, move and get
// messages; the subscribers take and settle them. The derived classes decide when the shards work
// on the calls.
class Calls : public World {
 protected:
  // A call without an answer: one question for each message.
  struct Call {
    std::vector<Question> questions;
    // The number of missing answers.
    size_t open = 1;
    // For a change of a subscription: its id.
    storage::SubscriptionId subscription{};
  };

  // The topics up to `keyed_topics` have messages with these keys.
  Calls(const Setup& setup, uint16_t shards_max, Lead lead, std::vector<std::string> keys,
        uint32_t keyed_topics)
      : World(setup, shards_max, lead), keys_(std::move(keys)), keyed_topics_(keyed_topics) {}

  virtual Contract& contract() = 0;
  virtual Ask NewAsk(bool in_batch) = 0;
  template <typename T>
  void SendToAll(const T& command) {
    for (uint16_t i = 0; i < shard_count_; ++i) {
      T copy = command;
      if constexpr (requires { copy.position; }) copy.position = i;
      Send(i, std::move(copy));
    }
  }

  // ---- Clients
  uint64_t AnyTime();
  storage::TopicId AnyKeyedTopic() {
    return storage::TopicId{static_cast<uint32_t>(1 + Random(keyed_topics_))};
  }
  // Keeps the ask for repeats.
  void Remember(const Ask& ask);
  void DoSchedule();
  void DoCancel();
  void DoReschedule();
  void DoGet() { Get(AnyTarget()); }
  void Get(const protocol::Target& target);

  // ---- Subscribers
  void DoAttach(storage::SubscriptionId subscription, storage::TopicId topic, int64_t messages_max,
                uint64_t lease_ms, bool reports_begun = false) {
    SendToAll(NewStream(subscription, topic, messages_max, lease_ms, reports_begun));
  }
  int64_t AnyCredit() { return OneOf<int64_t>({1, 3, 1000}); }
  uint64_t AnyLeaseMs() { return 20 + Random(1500); }
  void DoDetach();
  void DoSettleAny() {
    if (!streams_.empty()) DoSettle(AnyOf(streams_)->first, /*ack_all=*/false);
  }
  void DoSettle(protocol::StreamId id, bool ack_all);

  // ---- Effects
  void Apply(uint16_t shard, const protocol::Effects& effects);
  // Takes the replies that this class does not check.
  virtual void OnOther(const protocol::Reply&) {}
  // A delivery has no record, because the record is damaged. The runtime gives its lease back.
  virtual void OnUnreadable(storage::SubscriptionId, const protocol::Delivery& delivery) {
    Violate(delivery.id.ToString() + " was handed out without its record");
  }
  // Counts one answer to the call.
  void CloseCall(protocol::CallTag tag);
  void CheckContract();

  const std::vector<std::string> keys_;
  const uint32_t keyed_topics_;
  std::map<protocol::CallTag, Call> calls_;
  // The last asks, for repeats.
  std::vector<Ask> asks_;

 private:
  protocol::Target AnyTarget();
  uint16_t ShardOf(const protocol::Target& target) const;
  // Opens a call with one question.
  protocol::CallTag OpenCall(Question question);
  Question* FindQuestion(protocol::CallTag tag, size_t position);
  void GiveBack(uint16_t shard, protocol::StreamId id, protocol::LeaseToken token);
  void On(const protocol::ScheduleReply& reply);
  template <typename T>
  void On(const T& reply);
};

}  // namespace duetime::simulation
