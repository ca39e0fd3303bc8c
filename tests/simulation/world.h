// SPDX-License-Identifier: Apache-2.0
//
// World: a whole duetime in one thread, with a clock, a disk, clients and subscribers made of a
// seed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/delivery/shard.h"
#include "storage/memory_store.h"
#include "tests/simulation/change_model.h"
#include "tests/simulation/model.h"

namespace duetime::simulation {

inline constexpr uint32_t kTopics = 4;

// Faults put in on purpose, to show that the simulation finds them.
enum class Sabotage : uint8_t {
  kNone,
  // Batches are reported as appended one event before they are.
  kAnswerBeforeAppend,
  // Restarts forget W_claim.
  kForgetClaim,
  // Restarts find W_safe two seconds too far ahead.
  kSafeTooFar,
  // Steps see the clock 5 ms early.
  kEarlyClock,
  // Power cuts take synced appends too.
  kUnsyncedAppends,
  // Restarts forget how far backlogs were claimed.
  kForgetBacklogClaim,
  // Where messages were moved to, and how they ended, is not written down.
  kForgetTraces,
  // Neither is whose a key is after the first time.
  kForgetKeys,
  // The journal applies the batches of a group in reverse.
  kReverseGroups,
  // Recurrences are as they were when they were made, after a restart.
  kForgetOccurrences,
};

struct Report {
  std::string violation;
  uint64_t events = 0;
  uint64_t accepted = 0;
  uint64_t deliveries = 0;
  uint64_t cancelled = 0;
  uint64_t crashes = 0;
  uint64_t spilled = 0;
  uint64_t read_back = 0;
  uint64_t replaced = 0;
  uint64_t moved = 0;
  uint64_t occurrences = 0;
  // Most commands that waited at a time, in all shards.
  uint64_t waited = 0;
};

// Runs the real scheduler and delivery over a MemoryStore against the Model.
//
// Every choice comes from the seed: limits, commands, delays of the journal, its failures and
// unknown outcomes, crashes of the process and of the power, the pace of the clock. Then everything
// heals, and what was accepted must drain.
class World {
 public:
  World(uint64_t seed, Sabotage sabotage);
  ~World();

  // Runs `events` random events and the final drain. Stops at the first violation.
  Report Run(int events);

 private:
  class SabotagedStore;
  struct StreamState {
    storage::TopicId topic{};
    uint64_t lease_ms = 0;
    int64_t messages_max = 0;
    std::shared_ptr<delivery::StreamCredit> credit;
    std::vector<delivery::LeaseToken> held;
  };
  struct InFlight {
    uint16_t shard = 0;
    delivery::PendingBatch batch;
  };
  struct Call {
    std::vector<uint64_t> numbers;
  };
  // A call about messages that change: one question for each message.
  struct ChangeCall {
    std::vector<ChangeModel::Question> questions;
    std::vector<Ask> asks;
    std::vector<storage::MessageId> ids;
    uint64_t deliver_ms = 0;
    size_t open = 0;
  };

  uint64_t Random(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool Chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  void Start();
  void Crash();
  void Event();
  void Tick();
  void DoSchedule();
  void DoCancelOrGet();
  // ---- Messages that change (world_changes.cc)
  void DoChange();
  void DoScheduleKeyed();
  Ask NewAsk();
  scheduler::NewMessage MakeMessage(const Ask& ask);
  uint64_t AnyTime();
  // One that has a key, or is known by its id. False if there is none yet.
  bool AnyTarget(delivery::Target* target, ChangeModel::Place* place, bool* by_key);
  void DoChangeOne();
  void DoCancelMany();
  void DoRecurrence();
  void DoBulk();
  void StopRecurrences();
  uint16_t ShardOf(const ChangeModel::Place& place) const;
  void ApplyChanges(const delivery::Effects& effects);
  bool ApplySchedule(const delivery::ScheduleReply& reply);
  void CrashChanges(bool power);
  // After the drain: no name, no trace and no count is left.
  void CheckForgotten();

  void DoAttach(storage::TopicId topic, int64_t messages_max, uint64_t lease_ms);
  void DoDetach();
  void DoSettle(StreamState* state, delivery::StreamId stream, bool ack_all);
  void Send(uint16_t shard, delivery::Command command);
  void EndsNow(delivery::LeaseToken token);
  void StepShard(uint16_t shard);
  void Commit();
  void Collect(uint16_t shard);
  void Apply(uint16_t shard, delivery::Effects effects);
  void ApplyFrame(uint16_t shard, const delivery::DeliveryFrame& frame);
  void Drain();
  bool Empty();
  Model::Message* AnyMessage();

  std::mt19937_64 random_;
  const Sabotage sabotage_;
  const uint16_t shard_count_;
  delivery::ShardLimits limits_;
  storage::MemoryDisk disk_;
  std::unique_ptr<SabotagedStore> store_;
  std::vector<std::unique_ptr<delivery::Shard>> shards_;
  std::deque<InFlight> journal_;
  std::map<delivery::StreamId, StreamState> streams_;
  std::map<delivery::CallTag, Call> calls_;
  std::map<delivery::LeaseToken, bool> acks_sent_;
  std::map<delivery::CallTag, ChangeCall> change_calls_;
  // The last ones, which may come again.
  std::vector<Ask> asks_;
  uint64_t next_ask_ = 1;
  Model model_;
  ChangeModel changes_;
  Report report_;
  base::Now now_;
  uint64_t next_call_ = 1;
  uint64_t next_stream_ = 1;
  bool healing_ = false;
  bool crash_wanted_ = false;
  bool reads_fail_ = false;
};

}  // namespace duetime::simulation
