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

#include "tests/simulation/calls.h"
#include "tests/simulation/sequential_contract.h"

namespace duetime::simulation {

// Issues random calls, each when everything is at rest, and compares the whole answer with the
// contract's. Between the calls time passes in small and large steps; subscribers take, ack, nack
// and let leases expire; the process crashes and the power fails. After each call the store must
// hold exactly the contract's messages, and its counters and index must match.
class SequentialCalls final : public Calls {
 public:
  explicit SequentialCalls(const Setup& setup);

 private:
  static constexpr uint32_t kTopics = 3;

  void Start(Host::End how);
  void Crash();
  // A clean stop and a new start.
  void Stop();
  void Event() override;
  // Runs the shard until it is at rest, and applies all its effects. Then checks that every call
  // has its answer, the ends without a call, and the contents of the store.
  void Send(uint16_t shard, protocol::Command command) override;
  void Rest();
  void OnOther(const protocol::Reply& reply) override;
  Contract& contract() override { return contract_; }
  void PassTime();
  Ask NewAsk(bool in_batch) override;
  void DoInspect();
  void DoAttachAny();

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
  // The keys of the last inspect.
  std::vector<storage::MessageKey> inspected_;
  std::map<std::string, uint64_t> fingerprints_;
  uint64_t latest_wall_ms_ = 0;
};

}  // namespace duetime::simulation
