// SPDX-License-Identifier: Apache-2.0
//
// The journal of a cell passes the contract, too.
#include <memory>
#include <span>

#include "server/cell/replica.h"
#include "server/cell/replicated_journal.h"
#include "tests/contract/message_store_contract.h"
#include "tests/support/fake_log.h"
#include "tests/support/test_store.h"

namespace duetime::test {
namespace {

// A member that leads: its groups go to the log, and come back into its store.
class LeadingStore final : public test::TestStore, private cell::AppliedState {
 public:
  // `place` outlives the store, as what is on disk.
  LeadingStore(test::TestDisk* disk, cell::Log* log, cell::LogPlace* place, uint64_t random)
      : TestStore(disk),
        place_(place),
        replica_(log, this),
        journal_(log, &replica_, [random] { return random; }) {
    EXPECT_TRUE(journal_.Lead().ok());
  }

  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override {
    return journal_.Append(group, durability);
  }

 private:
  cell::LogPlace place() const override { return *place_; }
  absl::Status Apply(std::span<const storage::RecordBatch> group,
                     const cell::LogPlace& place) override {
    if (TestStore::Append(group, storage::Durability::kSynced) !=
        storage::AppendOutcome::kAccepted) {
      return absl::InternalError("the store is fenced");
    }
    *place_ = place;
    return absl::OkStatus();
  }

  cell::LogPlace* const place_;
  cell::Replica replica_;
  cell::ReplicatedJournal journal_;
};

// The log fails, repeats and damages entries all the time.
class CellHarness final : public StoreHarness {
 public:
  storage::JournaledStore* Reopen() override {
    store_.reset();
    log_.Fail(absl::OkStatus());
    store_ = std::make_unique<LeadingStore>(&disk_, &log_, &place_, ++starts_);
    return store_.get();
  }
  void FailNextAppend() override { log_.Fail(absl::InvalidArgumentError("too large")); }

 private:
  Dice dice_{1};
  FakeLog log_{&dice_};
  test::TestDisk disk_{kShards};
  cell::LogPlace place_;
  uint64_t starts_ = 0;
  std::unique_ptr<LeadingStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Cell, MessageStoreContract,
                         testing::Values(HarnessFactory{
                             "UnsteadyLog", [] { return std::make_unique<CellHarness>(); }}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
