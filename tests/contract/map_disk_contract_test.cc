// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"

#include "storage/layout.h"
#include "tests/contract/kv_store_contract.h"
#include "tests/support/kv_faults.h"
#include "tests/support/map_disk.h"

namespace duetime::test {
namespace {

// A map under KvFaults, which also make the append fail.
class MapDiskHarness final : public KvHarness {
 public:
  explicit MapDiskHarness(KvFaults::AppendFault failure) : failure_(failure) {}

  storage::KvStore* Reopen() override {
    store_.reset();
    store_ = faults_.Open(disk_.Open());
    return store_.get();
  }
  void CutPower() override {
    // The first cut loses all that it may, the second one half, the third one nothing.
    const size_t lost = disk_.unsynced_appends() * (2 - cuts_++ % 3) / 2;
    faults_.TakeBack(lost);
    disk_.PowerCut(disk_.unsynced_appends() - lost);
  }
  void FailNextAppend() override { faults_.FailNextAppend(failure_); }

  KvFaults* faults() { return &faults_; }

 private:
  const KvFaults::AppendFault failure_;
  MapDisk disk_;
  KvFaults faults_;
  std::unique_ptr<storage::KvStore> store_;
  size_t cuts_ = 0;
};

// Damages keys that no case reads. KvFaults then look at every read and append.
std::unique_ptr<KvHarness> MakeDamaged() {
  auto harness = std::make_unique<MapDiskHarness>(KvFaults::AppendFault::kUnknownApplied);
  for (size_t i = 0; i < storage::kColumnFamilyCount; ++i) {
    const std::string elsewhere = absl::StrCat(storage::kLastKey, storage::kLastKey);
    harness->faults()->Damage(static_cast<storage::ColumnFamily>(i), elsewhere, elsewhere);
  }
  return harness;
}

INSTANTIATE_TEST_SUITE_P(
    MapDisk, KvStoreContract,
    testing::Values(KvHarnessFactory{"Applied",
                                     [] {
                                       return std::make_unique<MapDiskHarness>(
                                           KvFaults::AppendFault::kUnknownApplied);
                                     }},
                    KvHarnessFactory{"Lost",
                                     [] {
                                       return std::make_unique<MapDiskHarness>(
                                           KvFaults::AppendFault::kUnknownLost);
                                     }},
                    KvHarnessFactory{"DamagedElsewhere", MakeDamaged}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
