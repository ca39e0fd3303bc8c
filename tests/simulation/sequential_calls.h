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

// Issues random calls, each when everything is at rest, and compares the whole answer with the
// contract's. Between the calls time passes in small and large steps; subscribers take, ack, nack
// and let leases expire; the process crashes and the power fails. After each call the store must
// hold exactly the contract's messages, and its counters and index must match.
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

  // Handles the command if there is one, runs the shard until it is at rest, and returns all
  // effects. The caller compares the answers between Begin and Finish.
  protocol::Effects Begin(std::optional<protocol::Command> command);
  // Checks the deliveries, the ends without a call, and the contents of the store.
  void Finish(const protocol::Effects& effects);
  void CheckContract();
  void CheckStored();
  void CheckCounts(
      const std::map<std::pair<storage::TopicId, uint64_t>, storage::CountDelta>& minutes);
  void CheckIndex();
  void CheckNothingWaits();
  std::string Positions() const;
  void Drain() override;

  // Restarts may find the wall clock set back.
  const bool clock_goes_back_;
  std::map<storage::TopicId, uint64_t> retention_ms_;
  SequentialContract contract_;
  SequentialContract::Stored stored_;
  // The number of the store's appends when stored_ was read.
  uint64_t checked_appends_ = UINT64_MAX;
  // The last asks, for repeats.
  std::vector<Ask> asks_;
  std::map<std::string, uint64_t> fingerprints_;
  uint64_t latest_wall_ms_ = 0;
};

}  // namespace duetime::simulation
