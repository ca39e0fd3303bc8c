// SPDX-License-Identifier: Apache-2.0
//
// ConcurrentCalls: several shards, a journal that lags behind, and calls that overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "tests/simulation/calls.h"
#include "tests/simulation/concurrent_contract.h"

namespace duetime::simulation {

// Runs the shards against the ConcurrentContract. Clients also cancel in bulk and keep recurrences.
// Subscriptions are created and deleted, retry by their policies, and give messages up. The journal
// delays its answers, fails, and leaves outcomes unknown. In some runs stored messages become
// unreadable, also over restarts, and readable again. At the end no more faults occur, and every
// accepted message must end: first all but the unreadable ones, then these.
class ConcurrentCalls : public Calls {
 public:
  // `hot_key`: most calls push back, replace or read the message of one key, and overlap.
  explicit ConcurrentCalls(const Setup& setup, bool hot_key = false);

 private:
  // Topics 1 and 2 have keys, and topic 3 has the recurrences. Each of them has one subscription by
  // use. Topics 4 and 5 have subscriptions that are created and deleted.
  static constexpr uint32_t kKeyedTopics = 2;
  static constexpr storage::TopicId kRecurring{3};
  static constexpr uint32_t kByUse = 3;
  static constexpr uint32_t kTopics = 5;

  void SetLimits(uint64_t seed);
  void Start();
  void Crash();
  // Appends what the shards have decided, until they decide nothing more.
  void CommitAll();
  // Lets every shard write the records of a clean stop.
  void CloseShards();
  void Tick();
  void Event() override;
  void Act();
  void Meanwhile() override;
  // What the former run does after its machine was replaced.
  void StepFormer();
  void Drain() override;
  // Lets everything end but the messages that are unreadable.
  void DrainAroundDamage();
  void StopAll(bool check_bounds);
  void AttachAll();
  void RunUntil(const std::function<bool()>& done);
  void Send(uint16_t shard, protocol::Command command) override;
  void OnCommitted(size_t participant, uint64_t sequence, storage::AppendOutcome outcome) override;
  void OnOther(const protocol::Reply& reply) override;
  Contract& contract() override { return contract_; }
  bool MayReject(protocol::LeaseToken token) override { return contract_.MayReject(token); }

  // ---- Clients
  Ask NewAsk(bool in_batch) override;
  void DoBulk();
  // Sends the next commands of the operations that are being started, if their answers are here.
  void ContinueBulks();
  void DoRecurrence();
  void StopRecurrences();

  // ---- Subscriptions and their streams
  void DoSubscribe();
  void DoUnsubscribe();
  void ChangeSubscription(storage::SubscriptionId id, bool from_now);
  void DoAttachAny();

  // ---- Damage
  void DoDamage();
  void RepairDisk();
  void OnUnreadable(storage::SubscriptionId subscription,
                    const protocol::Delivery& delivery) override {
    contract_.OnUnreadable(subscription, delivery);
  }

  // ---- The runtime
  void StepShard(uint16_t shard);
  void Collect(uint16_t shard);

  // ---- Checks (concurrent_checks.cc)
  // The due messages in the store that the subscription has not settled.
  std::set<storage::MessageKey> Unsettled(storage::SubscriptionId id,
                                          const ConcurrentContract::Subscription& subscription);
  // Backlog entries of messages that have ended or moved.
  uint64_t StaleEntries(storage::SubscriptionId id, const std::set<storage::MessageKey>& unsettled);
  // How many messages each bounded subscription keeps. Empty if the store cannot tell.
  std::map<storage::SubscriptionId, uint64_t> CountKept();
  void CheckDropped(uint16_t shard, const std::map<storage::SubscriptionId, uint64_t>& kept);
  const protocol::SubscriptionGauges& Inspect(uint16_t shard, storage::SubscriptionId id);
  // Describes a subscription that keeps more than its bound; empty if there is none.
  std::string BeyondBounds();
  void CheckBounds();
  // Checks that the store counts what each subscription is done with.
  void CheckDone();
  // Nothing if the store cannot be read.
  std::optional<std::map<uint64_t, int64_t>> DoneByMinute(uint16_t shard,
                                                          const protocol::SubscriptionState& of);
  // Checks that no operation has started in some shards only.
  void CheckOperations();

  const bool hot_key_;
  // Messages become unreadable in this run.
  const bool damages_;
  // Of the messages without a key, so many have an ordering key.
  const uint64_t ordered_percent_;
  // The records of the unreadable messages. Some may have been replaced or erased since.
  size_t damaged_ = 0;
  ConcurrentContract contract_;
  // A bulk operation starts in shard 0, then in all shards. Then shard 0 hears the end of the
  // start.
  struct BulkStart {
    protocol::OperationCommand command;
    bool sent_to_all = false;
    // The number of missing answers.
    size_t open = 1;
  };
  std::map<protocol::CallTag, BulkStart> bulk_starts_;
  uint64_t next_ask_ = 1;
  uint32_t next_subscription_ = uint32_t{1} << 31;
  protocol::SubscriptionGauges inspected_;
};

// ConcurrentCalls with a hot key.
class HotKeyCalls final : public ConcurrentCalls {
 public:
  explicit HotKeyCalls(const Setup& setup) : ConcurrentCalls(setup, /*hot_key=*/true) {}
};

}  // namespace duetime::simulation
