// SPDX-License-Identifier: Apache-2.0
//
// World: all shards of a server in one thread, with a clock, a disk and faults drawn from a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "server/shard/shard.h"
#include "tests/simulation/faulty_store.h"

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
  // The resolved time, and the time as the client gave it.
  uint64_t deliver_ms = 0;
  std::string time_as_given;
  bool fixed_time = false;
  uint64_t ttl_ms = 0;
  storage::LatePolicy late_policy = storage::LatePolicy::kDeliver;
  uint64_t spread_ms = 0;
  protocol::OnConflict on_conflict = protocol::OnConflict::kFail;
  bool only_if_exists = false;
  bool validate_only = false;
  uint64_t max_wait_ms = 0;
  // The request id was sent before, so the server may repeat its first answer.
  bool repeats = false;
};

// Drives the real shards over a FaultyStore. The seed decides everything: limits, commands, delays
// and failures of the journal, process crashes, power cuts, the pace of the clock.
//
// Two lists of calls derive from World. The calls of ConcurrentCalls overlap. Each call of
// SequentialCalls comes to rest before the next, and has one right answer.
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
  };

  // Draws the number of shards, at most `shards_max`, and small limits, so that runs reach each
  // limit.
  World(uint64_t seed, PlantedFault fault, uint16_t shards_max);

  virtual void Event() = 0;
  // Lets every message end, with eager subscribers and without faults, and checks for leftovers.
  virtual void Drain() = 0;
  virtual void Send(uint16_t shard, protocol::Command command) = 0;
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
  // Ends the process and keeps `kept` of the unsynced appends. Some time passes, and the monotonic
  // clock starts anew. With `clock_goes_back` the wall clock may be set back.
  void Close(size_t kept, bool clock_goes_back);
  void CheckInvariants() const;

  // ---- Requests
  protocol::NewMessage MakeMessage(const Ask& ask, uint32_t slot) const;
  uint32_t AnySlotOf(uint16_t shard);

  // ---- Subscribers
  // Makes a stream and returns the command that attaches it.
  protocol::AttachCommand NewStream(storage::SubscriptionId subscription, storage::TopicId topic,
                                    int64_t messages_max, uint64_t lease_ms);
  // Gives a frame to its stream and checks the stream. Null: the stream is gone.
  Stream* Receive(const protocol::DeliveryFrame& frame);
  // The commands, at most one per shard, with which a subscriber settles its deliveries. With
  // `ack_all` it acks all of them.
  std::vector<protocol::SettleCommand> MakeSettles(protocol::StreamId id, bool ack_all);

  // ---- Leftovers after everything has ended
  bool NothingInMemory() const;
  bool NothingStored();
  // After every retention the index must hold no name.
  void CheckNoNames(uint32_t topics);

  std::mt19937_64 random_;
  const PlantedFault fault_;
  const uint16_t shard_count_;
  delivery::ShardLimits limits_;
  storage::MemoryDisk disk_;
  std::unique_ptr<FaultyStore> store_;
  std::vector<std::unique_ptr<shard::Shard>> shards_;
  std::map<protocol::StreamId, Stream> streams_;
  base::Now now_{.wall_ms = kStartMs, .mono_ms = 1000};
  uint64_t next_call_ = 1;
  uint64_t next_stream_ = 1;
  Report report_;

 private:
  void CountShards();

  std::deque<std::string> history_;
};

}  // namespace duetime::simulation
