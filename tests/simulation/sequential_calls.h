// SPDX-License-Identifier: Apache-2.0
//
// SequentialCalls: one shard, one call at a time, against the SequentialContract.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/sequential_contract.h"
#include "tests/simulation/world.h"

namespace duetime::simulation {

// Issues random calls, each when everything before it has come to rest, and compares the whole
// answer with the contract's. Between calls: time in small steps and large, subscribers that take,
// ack, nack and let leases expire, and crashes of the process and of the power. After each call the
// store holds exactly what the contract says, and its counters and index agree with it.
class SequentialCalls final : public World {
 public:
  SequentialCalls(uint64_t seed, PlantedFault fault);

 private:
  static constexpr uint32_t kTopics = 3;

  static std::string Text(const protocol::Target& target) {
    return target.key.empty() ? target.id.ToString()
                              : absl::StrCat(static_cast<uint32_t>(target.topic), "/", target.key);
  }

  void Start();
  void Crash();
  void Event() override;
  void Send(uint16_t shard, protocol::Command command) override;
  void PassTime();
  void DoSchedule();
  Ask MakeAsk(bool in_batch);
  Ask NewAsk(bool in_batch);
  void DoCancel();
  void DoReschedule();
  void DoInspect();
  void Sample();
  void DoAttach(storage::TopicId topic, int64_t messages_max, uint64_t lease_ms);
  void DoDetach();
  void DoSettle(protocol::StreamId id, bool ack_all);
  protocol::Target AnyTarget();
  storage::TopicId AnyTopic();

  // Sends the command, if there is one, lets everything happen that can happen now, and returns
  // all effects. The answers are compared between Begin and Finish.
  protocol::Effects Begin(std::optional<protocol::Command> command);
  // Deliveries, ends without a call, and what the store holds now.
  void Finish(const protocol::Effects& effects);
  void CheckContract();
  void CheckStored();
  void CheckCounts(
      const std::map<std::pair<storage::TopicId, uint64_t>, storage::CountDelta>& minutes);
  void CheckIndex();
  void CheckNothingWaits();
  std::string Positions() const;
  void Drain() override;

  // Whether restarts find the clock set back.
  const bool clock_goes_back_;
  std::map<storage::TopicId, uint64_t> retention_ms_;
  SequentialContract contract_;
  SequentialContract::Stored stored_;
  // stored_ is as of this many appends of the store.
  uint64_t checked_appends_ = UINT64_MAX;
  // The last asks, which may come again.
  std::vector<Ask> asks_;
  std::map<std::string, uint64_t> fingerprints_;
  uint64_t latest_wall_ms_ = 0;
};

}  // namespace duetime::simulation
