// SPDX-License-Identifier: Apache-2.0
//
// LifecycleWorld: one shard, one call at a time, against the LifecycleModel.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/delivery/shard.h"
#include "storage/memory_store.h"
#include "tests/simulation/lifecycle_model.h"

namespace duetime::simulation {

inline constexpr uint32_t kLifecycleTopics = 3;

// Faults put in on purpose, to show that they are found.
enum class LifecycleSabotage : uint8_t {
  kNone,
  // Where a message was moved to is not written down.
  kForgetMoves,
  // How messages ended is not.
  kForgetFates,
  // That a key's message has ended is not.
  kForgetKeyEnds,
  // Request ids are not.
  kForgetRequests,
  // The place from which a message was moved keeps it.
  kKeepOldPlace,
  // What leaves is not counted.
  kMiscount,
  // Restarts forget W_claim.
  kForgetClaim,
  // Power cuts take synced appends too.
  kUnsyncedAppends,
  // Etags are not compared.
  kIgnoreEtags,
  // PUSH_BACK pulls forward.
  kPullForward,
};

struct LifecycleReport {
  std::string violation;
  // The last things that happened before it, a line each.
  std::string history;
  uint64_t events = 0;
  uint64_t created = 0;
  uint64_t replaced = 0;
  uint64_t unchanged = 0;
  uint64_t refused = 0;
  uint64_t cancelled = 0;
  uint64_t rescheduled = 0;
  uint64_t deliveries = 0;
  uint64_t expired = 0;
  // Ends that a power cut took back.
  uint64_t lost_ends = 0;
  uint64_t uncertain = 0;
  uint64_t crashes = 0;
  uint64_t spilled = 0;

  void Add(const LifecycleReport& other);
};

// Issues random calls, each when everything before it has come to rest, and compares the whole
// answer with the model's. Between calls: time in small steps and large, subscribers that take,
// ack, nack and let leases run out, and crashes of the process and of the power. After each call
// the store must hold exactly what the model says, and its counters and index must agree with it.
class LifecycleWorld {
 public:
  LifecycleWorld(uint64_t seed, LifecycleSabotage sabotage);
  ~LifecycleWorld();

  // Runs `events` random events, and then until nothing is left. Stops at the first violation.
  LifecycleReport Run(int events);

 private:
  class NotingStore;
  struct Stream {
    storage::TopicId topic{};
    uint64_t lease_ms = 0;
    int64_t messages_max = 0;
    std::shared_ptr<delivery::StreamCredit> credit;
    std::vector<delivery::LeaseToken> held;
  };

  uint64_t Random(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool Chance(uint64_t percent) { return Random(100) < percent; }
  template <typename... Parts>
  void Note(const Parts&... parts) {
    history_.push_back(absl::StrCat("  at ", now_.wall_ms, ": ", parts..., "\n"));
    if (history_.size() > 60) history_.pop_front();
  }
  static std::string Text(const delivery::Target& target) {
    return target.key.empty() ? target.id.ToString()
                              : absl::StrCat(static_cast<uint32_t>(target.topic), "/", target.key);
  }
  template <typename T>
  T OneOf(const std::vector<T>& choices) {
    return choices[Random(choices.size())];
  }
  bool ok() const { return model_.violation().empty(); }

  void Start();
  void Crash();
  void Event();
  void PassTime();
  void DoSchedule();
  Wish MakeWish(bool in_batch);
  Wish NewWish(bool in_batch);
  uint64_t FingerprintOf(const Wish& wish);
  scheduler::NewMessage MakeMessage(const Wish& wish);
  void DoCancel();
  void DoReschedule();
  void DoInspect();
  void Sample();
  void DoAttach(storage::TopicId topic, int64_t messages_max, uint64_t lease_ms);
  void DoDetach();
  void DoSettle();
  void AckAll();
  void SendSettle(delivery::SettleCommand command);
  delivery::Target AnyTarget();
  storage::TopicId AnyTopic();

  // Sends the command, if there is one, lets everything happen that can happen now, and returns
  // what came of it. The answers are compared between Begin and Finish.
  delivery::Effects Begin(std::optional<delivery::Command> command);
  // Deliveries, silent ends, and what the store holds now.
  void Finish(const delivery::Effects& effects);
  void CheckStored();
  void CheckCounts(
      const std::map<std::pair<storage::TopicId, uint64_t>, storage::CountDelta>& minutes);
  void CheckIndex();
  void CheckNothingWaits();
  std::string Positions() const;
  void Drain();
  void CheckEmpty();

  std::mt19937_64 random_;
  const LifecycleSabotage sabotage_;
  // Whether restarts find the clock set back.
  const bool clock_goes_back_;
  delivery::ShardLimits limits_;
  std::map<storage::TopicId, uint64_t> retention_ms_;
  storage::MemoryDisk disk_{1};
  std::unique_ptr<NotingStore> store_;
  std::unique_ptr<delivery::Shard> shard_;
  LifecycleModel::Stored stored_;
  // stored_ is as of this many appends of the store.
  uint64_t checked_appends_ = UINT64_MAX;
  std::map<delivery::StreamId, Stream> streams_;
  // The last that may come again.
  std::vector<Wish> wishes_;
  // Fingerprints by content.
  std::map<std::string, uint64_t> contents_;
  LifecycleModel model_;
  LifecycleReport report_;
  base::Now now_;
  uint64_t latest_wall_ms_ = 0;
  uint64_t next_call_ = 1;
  uint64_t next_stream_ = 1;
  std::deque<std::string> history_;
};

}  // namespace duetime::simulation
