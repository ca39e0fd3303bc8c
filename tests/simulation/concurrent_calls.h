// SPDX-License-Identifier: Apache-2.0
//
// ConcurrentCalls: several shards, a journal that lags behind, and calls that overlap.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "tests/simulation/contract.h"
#include "tests/simulation/world.h"

namespace duetime::simulation {

// Runs the shards against the Contract. Clients schedule with and without keys, replace, move,
// cancel singly and in bulk, and keep recurrences. Subscriptions are created and deleted, retry by
// their policies, and give messages up. The journal delays its answers, fails, and leaves outcomes
// unknown. At the end no more faults occur, and every accepted message must end.
class ConcurrentCalls final : public World {
 public:
  ConcurrentCalls(uint64_t seed, PlantedFault fault);

 private:
  using Place = Contract::Place;
  struct InFlight {
    uint16_t shard = 0;
    shard::PendingBatch batch;
  };
  // A call without an answer: one question for each message.
  struct Call {
    std::vector<Contract::Question> questions;
    std::vector<Ask> asks;
    std::vector<storage::MessageId> ids;
    uint64_t deliver_ms = 0;
    // For a call to several shards: the number of missing answers.
    size_t open = 0;
    // For a change of a subscription: its id.
    storage::SubscriptionId subscription{};
  };

  // Topics 1 and 2 have keys, and topic 3 has the recurrences. Each of them has one subscription by
  // use. Topics 4 and 5 have subscriptions that are created and deleted.
  static constexpr uint32_t kKeyedTopics = 2;
  static constexpr storage::TopicId kRecurring{3};
  static constexpr uint32_t kByUse = 3;
  static constexpr uint32_t kTopics = 5;

  void Start();
  void Crash();
  void Tick();
  void Event() override;
  void Drain() override;
  void Send(uint16_t shard, protocol::Command command) override;
  template <typename T>
  void SendToAll(const T& command) {
    for (uint16_t i = 0; i < shard_count_; ++i) {
      T copy = command;
      if constexpr (requires { copy.position; }) copy.position = i;
      Send(i, std::move(copy));
    }
  }
  bool MayReject(protocol::LeaseToken token) override;

  // ---- Clients
  uint16_t ShardOf(const Place& place) const;
  uint64_t AnyTime();
  Ask NewAsk();
  void DoSchedule();
  // Chooses a message by key or by id. Returns false if there is none yet.
  bool AnyTarget(protocol::Target* target, Place* place, uint16_t* shard);
  void DoGetOrMove();
  void DoCancel();
  void DoBulk();
  void DoRecurrence();
  void StopRecurrences();

  // ---- Subscriptions and their streams
  void DoSubscribe();
  void DoUnsubscribe();
  void ChangeSubscription(storage::SubscriptionId id, bool from_now);
  void DoAttachAny();
  void DoAttach(storage::SubscriptionId subscription, storage::TopicId topic, int64_t messages_max,
                uint64_t lease_ms);
  void DoDetach();
  void DoSettle(protocol::StreamId id, bool ack_all);

  // ---- The runtime
  void StepShard(uint16_t shard);
  void Commit();
  void Collect(uint16_t shard);
  void Apply(uint16_t shard, const protocol::Effects& effects);
  // The call with this tag. Null for a call of an earlier run, or of none of the clients.
  Call* FindCall(protocol::CallTag tag);
  void On(const protocol::ScheduleReply& reply);
  void On(const protocol::CancelReply& reply);
  void On(const protocol::RescheduleReply& reply);
  void On(const protocol::GetReply& reply);
  void On(const protocol::SubscriptionReply& reply);
  void On(const protocol::InspectSubscriptionReply& reply) { inspected_ = reply.gauges; }
  // Ignores the other replies, because no check needs them.
  template <typename T>
  void On(const T&) {}

  // ---- Checks (concurrent_checks.cc)
  // The due messages in the store that the subscription has not settled.
  std::set<storage::MessageKey> Unsettled(storage::SubscriptionId id,
                                          const Contract::Subscription& subscription);
  // Backlog entries of messages that have ended or moved.
  uint64_t StaleEntries(storage::SubscriptionId id, const std::set<storage::MessageKey>& unsettled);
  // How many messages each bounded subscription keeps. Empty if the store cannot tell.
  std::map<storage::SubscriptionId, uint64_t> CountKept();
  void CheckDropped(uint16_t shard, const std::map<storage::SubscriptionId, uint64_t>& kept);
  const protocol::SubscriptionGauges& Inspect(uint16_t shard, storage::SubscriptionId id);
  // Describes a subscription that keeps more than its bound; empty if there is none.
  std::string BeyondBounds();
  void CheckBounds();
  void CheckForgotten();

  Contract contract_;
  std::deque<InFlight> journal_;
  std::map<protocol::CallTag, Call> calls_;
  // The last asks, for repeats.
  std::vector<Ask> asks_;
  uint64_t next_ask_ = 1;
  uint32_t next_subscription_ = uint32_t{1} << 31;
  protocol::SubscriptionGauges inspected_;
  bool healing_ = false;
  bool failed_ = false;
  bool fault_expected_ = false;
};

}  // namespace duetime::simulation
