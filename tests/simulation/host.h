// SPDX-License-Identifier: Apache-2.0
//
// Host: what a simulated server runs on, one machine or a cell of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/simulation/faulty_store.h"

namespace duetime::simulation {

class Host {
 public:
  // How a run of the server ends. kPowerCut: what is not on stable storage may be lost. kStop: the
  // server has written its last records.
  enum class End : uint8_t { kCrash, kPowerCut, kStop };

  virtual ~Host() = default;

  // Begins a run, and returns its store, whose Append is the journal.
  virtual FaultyStore* Start() = 0;
  // Ends the run. kPowerCut: of the unsynced appends only the first `kept` survive. REQUIRES:
  // nothing uses the store.
  virtual void Stop(End how, size_t kept) = 0;
  // The number of accepted appends that a power cut may remove.
  virtual size_t unsynced_appends() const = 0;
  // Makes the next append fail.
  virtual void FailNextAppend(test::TestStore::Fault fault) = 0;
  // The disk under the store of this run.
  virtual test::TestDisk* disk() = 0;
  // TestDisk::Repair on every disk.
  virtual void Repair() = 0;

  // ---- The other machines, if there are any
  // They act for a while.
  virtual void Pass() {}
  // Whether an append may fail because another machine leads, or because the log gives no answer.
  virtual bool MayLoseTheLead() const { return false; }
  // Journal::MayServe of this run.
  virtual bool MayServe() const { return true; }
  // The server must append a group, even an empty one.
  virtual bool AppendIsDue() const { return false; }
  // Appends an empty group, which tells whether this run still leads.
  virtual bool StillLeads() { return true; }
  // Another machine may serve, so the next run begins.
  virtual bool Superseded() const { return false; }
  // Whether this run goes on beside the next one, because its machine has not heard of that yet.
  // To be called before Stop.
  virtual bool GoesOn() { return false; }
  virtual bool FormerMayServe() const { return false; }
  // REQUIRES: nothing uses the store of the former run.
  virtual void EndFormer() {}
};

// One machine, whose store is its journal.
class SingleHost final : public Host {
 public:
  SingleHost(uint16_t shards, PlantedFault fault,
             std::unique_ptr<test::KvDisk> engine = std::make_unique<test::MapDisk>())
      : fault_(fault), disk_(shards, std::move(engine)) {}

  FaultyStore* Start() override {
    store_ = std::make_unique<FaultyStore>(&disk_, fault_);
    return store_.get();
  }
  void Stop(End how, size_t kept) override {
    disk_.PowerCut(how == End::kPowerCut ? kept : SIZE_MAX);
  }
  size_t unsynced_appends() const override { return disk_.unsynced_appends(); }
  void FailNextAppend(test::TestStore::Fault fault) override { store_->FailNextAppend(fault); }
  test::TestDisk* disk() override { return &disk_; }
  void Repair() override { disk_.Repair(); }

 private:
  const PlantedFault fault_;
  test::TestDisk disk_;
  std::unique_ptr<FaultyStore> store_;
};

}  // namespace duetime::simulation
