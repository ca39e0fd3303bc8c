// SPDX-License-Identifier: Apache-2.0
//
// World: all shards of a server in one thread, with a clock, a disk and faults drawn from a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "server/shard/shard.h"
#include "tests/simulation/host.h"

namespace duetime::simulation {

inline constexpr uint64_t kStartMs = 1'800'000'000'000;

// The result of a run. `violation` is empty if every promise held.
struct Report {
  std::string violation;
  // The last events before the violation, one per line.
  std::string history;
  uint64_t events = 0;
  // Counts of events, by name.
  std::map<std::string, uint64_t> counts;
};

// A schedule request. A repeated request has the same number.
struct Ask {
  uint64_t number = 0;
  storage::TopicId topic{};
  // Empty: none.
  std::string key;
  std::string request_id;
  std::string ordering_key;
  std::string payload;
  // Two asks with the same fingerprint are equal requests.
  uint64_t fingerprint = 0;
  uint64_t deliver_ms = 0;
  uint64_t ttl_ms = 0;
  storage::LatePolicy late_policy = storage::LatePolicy::kDeliver;
  uint64_t spread_ms = 0;
  protocol::OnConflict on_conflict = protocol::OnConflict::kFail;
  bool only_if_exists = false;
  bool validate_only = false;
  uint64_t max_wait_ms = 0;
};

struct Setup {
  uint64_t seed = 1;
  PlantedFault fault = PlantedFault::kNone;
  // The members of the cell that the server runs in. 0: it runs on one machine.
  size_t members = 0;
  // The machine has the daemon's storage engine, not one in memory. Not with `members`.
  bool on_rocksdb = false;
};

// Drives the real shards over a FaultyStore. The seed decides everything: limits, commands, delays
// and failures of the journal, process crashes, power cuts, the pace of the clock. In a cell, the
// server moves from machine to machine: a crash ends a run on one, and the next run is on the one
// that leads then.
//
// Three lists of calls derive from World: ConcurrentCalls, SequentialCalls and CatalogCalls.
class World {
 public:
  virtual ~World() = default;

  // Runs `events` random events, then drains. Stops at the first violation.
  Report Run(int events);

 protected:
  struct Stream {
    storage::SubscriptionId subscription{};
    storage::TopicId topic{};
    uint64_t lease_ms = 0;
    int64_t messages_max = 0;
    std::shared_ptr<protocol::StreamCredit> credit;
    // Unsettled deliveries.
    std::vector<protocol::LeaseToken> held;
    // The subscriber reports what it begins; of the held deliveries it has reported these.
    bool reports_begun = false;
    std::set<protocol::LeaseToken> begun;
  };

  // Whether another member of the cell may begin to lead while the server runs. kKept: then the
  // server sees no time pass in the cell, either.
  enum class Lead : uint8_t { kKept, kLost };

  // Draws the number of shards, at most `shards_max`, and small limits, so that runs reach each
  // limit.
  World(const Setup& setup, uint16_t shards_max, Lead lead);

  virtual void Event() = 0;
  // Lets every message end, with eager subscribers and without faults, and checks for leftovers.
  virtual void Drain() = 0;
  virtual void Send(uint16_t shard, protocol::Command command) = 0;
  // The participant's batch was appended, or its append failed. Participants below the number of
  // shards are shards.
  virtual void OnCommitted(size_t participant, uint64_t sequence, storage::AppendOutcome outcome) {
    shards_[participant]->OnCommitted(now_, sequence, outcome);
  }
  // What happens while an append waits for the log of a cell.
  virtual void Meanwhile() {}
  // Whether a subscriber may reject this delivery for good.
  virtual bool MayReject(protocol::LeaseToken) { return false; }

  uint64_t Random(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool Chance(uint64_t percent) { return Random(100) < percent; }
  template <typename T>
  T OneOf(const std::vector<T>& choices) {
    return choices[Random(choices.size())];
  }
  template <typename Map>
  auto AnyOf(Map& map) {
    return std::next(map.begin(), static_cast<int64_t>(Random(map.size())));
  }
  // Something that may happen. Its weight is its share of all events.
  struct Choice {
    uint64_t weight = 0;
    std::function<void()> happen;
  };
  void DoOneOf(const std::vector<Choice>& choices);
  protocol::CallTag NewTag() { return protocol::CallTag{next_call_++}; }
  uint16_t ShardOfId(const storage::MessageId& id) const {
    return storage::ShardOfSlot(id.slot(), shard_count_);
  }

  void Violate(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
  }
  bool ok() const { return report_.violation.empty(); }
  void Count(const std::string& what, uint64_t times = 1) { report_.counts[what] += times; }
  void CountMost(const std::string& what, uint64_t value) {
    report_.counts[what] = std::max(report_.counts[what], value);
  }
  template <typename... Parts>
  void Note(const Parts&... parts) {
    history_.push_back(absl::StrCat("  at ", now_.wall_ms, ": ", parts..., "\n"));
    if (history_.size() > 60) history_.pop_front();
  }

  // Opens the store and recovers the shards.
  void Open();
  // Ends the process. A power cut keeps `kept` of the unsynced appends. Some time passes, and the
  // monotonic clock starts anew. With `clock_goes_back` the wall clock may be set back.
  void Close(Host::End how, size_t kept, bool clock_goes_back);
  // Ends the former run, if there is one.
  void EndFormer();
  void CheckInvariants() const;
  // Notes that a shard or the catalog has failed. Only a fault of the store excuses it.
  void OnFailure();

  // ---- The journal, which delays the batches of its participants
  // Adds a batch to the queue. The planted fault answers it at once if `may_answer_early`.
  template <typename Batch>
  void Submit(size_t participant, Batch batch, bool may_answer_early) {
    const bool answered =
        fault_ == PlantedFault::kAnswerBeforeAppend && may_answer_early && !healing_;
    journal_.push_back({.participant = participant,
                        .sequence = batch.sequence,
                        .records = std::move(batch.records),
                        .durability = batch.durability,
                        .answered = answered});
    if (answered) OnCommitted(participant, batch.sequence, storage::AppendOutcome::kAccepted);
  }
  // Appends one group: the first batches of the queue. Of 1000 appends, `faults` fail. If the queue
  // is empty, appends an empty group at times, as the journal asks.
  void Commit(uint64_t faults);
  // Tells the shards of batches that were appended before.
  void TellCommitted();
  // Appends all of the queue, without faults.
  void CommitQueue() {
    do Commit(/*faults=*/0);
    while (!journal_.empty());
  }
  // Asks the journal of a cell. If another member leads, the run has failed.
  bool StillLeads();

  // ---- As runtime::Engine: deliveries, answers and the work of time wait while another machine
  // may serve
  shard::StepResult StepHeld(uint16_t shard, base::Now now);
  protocol::Effects TakeEffects(uint16_t shard);

  // Runs the first shard, without faults, until it is at rest. Returns all its effects.
  protocol::Effects RunToRest();

  // ---- Requests
  protocol::NewMessage MakeMessage(const Ask& ask, uint32_t slot) const;
  uint32_t AnySlotOf(uint16_t shard);

  // ---- Subscribers
  // Makes a stream and returns the command that attaches it.
  protocol::AttachCommand NewStream(storage::SubscriptionId subscription, storage::TopicId topic,
                                    int64_t messages_max, uint64_t lease_ms,
                                    bool reports_begun = false);
  // The name of the subscriber of this stream.
  static std::string ClientOf(protocol::StreamId stream) {
    return absl::StrCat("client ", static_cast<uint64_t>(stream));
  }
  // Gives a frame to its stream and checks the stream. Null: the stream is gone.
  Stream* Receive(const protocol::DeliveryFrame& frame);
  // The commands, at most one per shard, with which a subscriber settles its deliveries. With
  // `ack_all` it acks all of them.
  std::vector<protocol::SettleCommand> MakeSettles(protocol::StreamId id, bool ack_all);

  // ---- Leftovers after everything has ended
  bool NothingInMemory() const;
  bool NothingStored();
  void CheckNothingLeft();
  // Lets every retention pass, and checks that the store then holds nothing about these messages
  // and the topics up to `topics`.
  void CheckForgotten(const std::vector<storage::MessageId>& ids, uint32_t topics);

  std::mt19937_64 random_;
  const PlantedFault fault_;
  const uint16_t shard_count_;
  delivery::ShardLimits limits_;
  std::unique_ptr<Host> host_;
  FaultyStore* store_ = nullptr;
  std::vector<std::unique_ptr<shard::Shard>> shards_;
  // A run that goes on beside this one, until its machine hears of the new leader.
  struct FormerRun {
    std::vector<std::unique_ptr<shard::Shard>> shards;
    std::map<protocol::StreamId, Stream> streams;
    // Its monotonic clock, less this run's.
    uint64_t mono_ahead_ms = 0;
  };
  FormerRun former_;
  std::map<protocol::StreamId, Stream> streams_;
  struct InFlight {
    // The number of a shard, or of another participant.
    size_t participant = 0;
    uint64_t sequence = 0;
    storage::RecordBatch records;
    storage::Durability durability{};
    // The planted fault has reported the batch as appended.
    bool answered = false;
  };
  std::deque<InFlight> journal_;
  // Appended, and their shards have not heard of it.
  std::deque<InFlight> untold_;
  // An append waits for the log of a cell.
  bool appending_ = false;
  // While the world heals, no new faults occur.
  bool healing_ = false;
  bool failed_ = false;
  // A fault of the store has occurred.
  bool fault_expected_ = false;
  base::Now now_{.wall_ms = kStartMs, .mono_ms = 1000};
  uint64_t next_call_ = 1;
  uint64_t next_stream_ = 1;
  Report report_;

 private:
  void CountShards();

  std::deque<std::string> history_;
};

}  // namespace duetime::simulation
