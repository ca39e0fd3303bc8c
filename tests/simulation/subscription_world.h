// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionWorld: messages that several subscriptions of a topic get, fail at and give up.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/delivery/shard.h"
#include "storage/memory_store.h"
#include "storage/message_record.h"

namespace duetime::simulation {

// Faults put in on purpose, to show that they are found.
enum class SubscriptionSabotage : uint8_t {
  kNone,
  // What is noted beside a message is not read: the last one to settle it does not know that it is.
  kForgetProgress,
  // It is not written.
  kLoseProgress,
  // When the next attempt is to be is forgotten.
  kForgetRetryTimes,
  // How many there were is.
  kForgetAttempts,
  // Dead letters are not written.
  kLoseDeadLetters,
  // Subscriptions are not kept.
  kLoseSubscriptions,
};

struct SubscriptionReport {
  std::string violation;
  uint64_t events = 0;
  uint64_t accepted = 0;
  uint64_t deliveries = 0;
  uint64_t failures = 0;
  uint64_t dead_letters = 0;
  uint64_t blocked = 0;
  uint64_t deleted = 0;
  uint64_t crashes = 0;
  uint64_t spilled = 0;
  // By subscriptions that keep so many messages only.
  uint64_t given_up = 0;

  void Add(const SubscriptionReport& other);
};

// One shard, whose journal may lag behind, with topics of one to three subscriptions that come and
// go, retry by policies and give up. Each delivery and answer is checked for the subscription that
// got it; after the drain each message must have ended for each subscription that it was for: by an
// ack, or by a dead letter that was delivered too.
class SubscriptionWorld {
 public:
  SubscriptionWorld(uint64_t seed, SubscriptionSabotage sabotage);
  ~SubscriptionWorld();

  // Runs `events` random events, and then until nothing is left. Stops at the first violation.
  SubscriptionReport Run(int events);

 private:
  struct Message {
    storage::TopicId topic{};
    uint64_t deliver_ms = 0;
    std::string order;
    bool accepted = false;
    bool unknown = false;
    bool cancelled = false;
    // A cancel was sent and is not answered yet.
    bool maybe_cancelled = false;
    storage::MessageId id;
  };
  struct Subscription {
    storage::TopicId topic{};
    delivery::RetryPolicy retry;
    // How many messages it keeps, and whether it makes dead letters of the others. 0: all.
    uint64_t bound = 0;
    bool dead_letters = false;
    // What it has said it dropped: in this run, and in all.
    uint64_t dropped = 0;
    uint64_t dropped_in_all = 0;
    // What was sent from this number on is certainly for it, what was sent before that one is not.
    uint64_t first_number = 0;
    uint64_t allowed_from = 0;
    bool live = false;
    // A command about it was not answered before a crash.
    bool unknown = false;
  };
  // How a message stands with a subscription.
  struct Pair {
    bool acked = false;
    bool ack_sent = false;
    // An ack that was not confirmed, or that a power cut may have taken.
    bool maybe_settled = false;
    // It was rejected, and that was confirmed; its dead letter was delivered.
    bool dead = false;
    bool dead_delivered = false;
    int deliveries = 0;
    // As of the last delivery, which was in this run.
    uint32_t attempts = 0;
    int run = -1;
    // Attempts that certainly failed before the last crash.
    uint32_t failed = 0;
    std::optional<delivery::LeaseToken> lease;
    uint64_t lease_end_mono_ms = 0;
    uint64_t retry_mono_ms = 0;
    uint64_t retry_wall_ms = 0;
  };
  struct Stream {
    storage::SubscriptionId subscription{};
    uint64_t lease_ms = 0;
    std::shared_ptr<delivery::StreamCredit> credit;
    std::vector<delivery::LeaseToken> held;
  };
  using PairKey = std::pair<uint64_t, storage::SubscriptionId>;

  uint64_t Random(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool Chance(uint64_t percent) { return Random(100) < percent; }
  void Violate(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
  }

  void Start();
  void Crash();
  void Event();
  void Send(delivery::Command command);
  void DoSchedule();
  void DoCancel();
  void DoSubscribe();
  void DoUnsubscribe();
  void DoAttach(storage::SubscriptionId subscription, int64_t messages_max, uint64_t lease_ms);
  void DoDetach();
  void DoSettle(delivery::StreamId id, Stream* stream, bool ack_all);
  void Step();
  delivery::SubscriptionSettings SettingsOf(const Subscription& subscription) const;
  // What is due in the store and not settled by the subscription.
  std::set<storage::MessageKey> Unsettled(storage::SubscriptionId id,
                                          const Subscription& subscription);
  // What is listed for it although its message is at an end, or elsewhere: it is not known to be.
  uint64_t Echoes(storage::SubscriptionId id, const std::set<storage::MessageKey>& unsettled);
  void CheckGivenUp(const std::map<storage::SubscriptionId, uint64_t>& before);
  // Which subscription keeps more than it is to; empty if none does.
  std::string BeyondBounds(storage::MessageStore* listed);
  void CheckBounds(storage::MessageStore* store);
  void Commit();
  void Collect();
  void Apply(const delivery::Effects& effects);
  void OnDelivery(const Stream& stream, const delivery::Delivery& delivery);
  void CheckOrder(const std::string& name, const PairKey& key, const Message& message);
  void OnFailed(delivery::LeaseToken token, std::optional<uint64_t> delay_ms);
  void OnSettled(delivery::LeaseToken token);
  void EndLeases();
  void Drain();
  void CheckDrained();
  bool Empty();

  std::mt19937_64 random_;
  const SubscriptionSabotage sabotage_;
  delivery::ShardLimits limits_;
  storage::MemoryDisk disk_{1};
  std::unique_ptr<storage::MemoryStore> store_;
  std::unique_ptr<delivery::Shard> shard_;
  std::deque<delivery::PendingBatch> journal_;
  std::map<uint64_t, Message> messages_;
  std::map<storage::SubscriptionId, Subscription> subscriptions_;
  std::map<PairKey, Pair> pairs_;
  std::map<delivery::LeaseToken, PairKey> leases_;
  // The last lease of each ordering key.
  std::map<std::pair<storage::SubscriptionId, std::string>, delivery::LeaseToken> in_order_;
  std::map<delivery::StreamId, Stream> streams_;
  // Acks and rejections that are not answered yet; true: a rejection.
  std::map<delivery::LeaseToken, bool> settling_;
  std::map<delivery::CallTag, uint64_t> schedules_;
  std::map<delivery::CallTag, uint64_t> cancels_;
  std::map<delivery::CallTag, std::pair<storage::SubscriptionId, bool>> changes_;
  // The last answer to an inspection.
  delivery::InspectSubscriptionReply inspected_;
  SubscriptionReport report_;
  base::Now now_;
  uint64_t next_call_ = 1;
  uint64_t next_stream_ = 1;
  uint64_t next_message_ = 1;
  uint32_t next_subscription_ = uint32_t{1} << 31;
  int run_ = 0;
};

}  // namespace duetime::simulation
