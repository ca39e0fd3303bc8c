// SPDX-License-Identifier: Apache-2.0
//
// CellHost: the members of a cell, under one simulated server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "tests/simulation/host.h"
#include "tests/support/fake_log.h"

namespace duetime::simulation {

struct CellSetup {
  uint64_t seed = 0;
  size_t members = 3;
  uint16_t shards = 1;
  PlantedFault fault = PlantedFault::kNone;
  // The server's time, which the delays of the log move. Null: the server sees no time pass in the
  // cell, and leads until Stop.
  base::Now* now = nullptr;
  // While true, no new faults occur. May be null.
  const bool* healing = nullptr;
  // What the server does while its append waits for the log.
  std::function<void()> meanwhile = [] {};
  // Takes what must not happen.
  std::function<void(const std::string&)> violate;
  // Takes the names of events.
  std::function<void(const std::string&)> count = [](const std::string&) {};
};

// Members with stores of their own, on one log that fails, delays, damages and repeats entries
// (FakeLog). One leads and trims the log, the others follow, at times slowly. Members crash, lose
// what is not on their disks, or a whole disk, and are cut off from the log.
//
// The server runs on the store of the leader until that crashes, or another member serves. The next
// run is on the store of that one. While the leader waits for the log, any whole call of another
// member may fall between any two of its steps.
//
// A disk is lost only while all other members have read the whole log since they lost theirs: the
// log is trimmed by what two members have.
class CellHost final : public Host {
 public:
  explicit CellHost(CellSetup setup);
  ~CellHost() override;

  FaultyStore* Start() override;
  void Stop(End how, size_t kept) override;
  // What was accepted is in the log.
  size_t unsynced_appends() const override { return 0; }
  // kUnknownApplied: the log takes the group, and the store of the leader fails. Otherwise the log
  // refuses it.
  void FailNextAppend(test::TestStore::Fault fault) override;
  test::TestDisk* disk() override;
  void Repair() override;
  void Pass() override;
  bool MayLoseTheLead() const override { return !calm(); }
  bool MayServe() const override;
  bool AppendIsDue() const override;
  bool StillLeads() override;
  bool Superseded() const override { return Ready() != nullptr; }
  bool GoesOn() override;
  bool FormerMayServe() const override;
  void EndFormer() override;

 private:
  class Link;
  class Store;
  struct Machine;

  bool calm() const { return setup_.now == nullptr; }
  bool healing() const { return setup_.healing != nullptr && *setup_.healing; }
  // The time by which the steady clocks of all machines run.
  uint64_t SteadyMs() const { return base_ms_ + (runs_ && !calm() ? setup_.now->mono_ms : 0); }
  void Advance(uint64_t ms);
  // What happens while a member waits for the log.
  void Meanwhile();
  void EndIfItLeadsNoMore();
  void CheckOneServes();
  storage::AppendOutcome Append(Machine* machine, std::span<const storage::RecordBatch> group,
                                storage::Durability durability);

  // ---- The members
  Machine* AnyMachine() { return machines_[dice_.Below(machines_.size())].get(); }
  // Neither runs a server nor waits for the log.
  bool IsFree(const Machine* machine) const;
  // The member that may serve, and runs no server.
  Machine* Ready() const;
  void Step(Machine* machine);
  void Follow(Machine* machine);
  void BeginToLead(Machine* machine);
  void KeepLeading(Machine* machine);
  // Reports what the member has on disk, and trims the log.
  void Tend(Machine* machine);
  void Fetch(Machine* machine);
  void Run(Machine* machine);
  void Crash(Machine* machine, bool power);
  void Wipe(Machine* machine);
  bool MayWipe(const Machine* machine) const;
  void HaveFault();

  const CellSetup setup_;
  test::Dice dice_;
  test::FakeLog log_;
  uint64_t base_ms_ = 1'000'000;
  // From Start to Stop, the server's clock adds to it.
  bool runs_ = false;
  std::vector<std::unique_ptr<Machine>> machines_;
  // The machines of this run, and of the former one that goes on.
  Machine* serving_ = nullptr;
  Machine* former_ = nullptr;
  // When the server's last append ended, and when it was last allowed to serve.
  uint64_t appended_ms_ = 0;
  uint64_t served_ms_ = 0;
  // FailNextAppend in this run.
  bool fails_next_ = false;
  // The server ends, because it could not serve for long.
  bool given_up_ = false;
  int depth_ = 0;
};

}  // namespace duetime::simulation
