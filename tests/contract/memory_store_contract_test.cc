// SPDX-License-Identifier: Apache-2.0
#include "storage/memory_store.h"
#include "tests/contract/message_store_contract.h"
#include "tests/support/memory_store.h"

namespace duetime::test {
namespace {

// A failed append loses the records or applies them, because a disk may do either.
template <typename Store, typename Disk>
class MemoryHarness final : public StoreHarness {
 public:
  explicit MemoryHarness(typename Store::Fault fault) : fault_(fault) {}

  storage::JournaledStore* Reopen() override {
    store_ = std::make_unique<Store>(&disk_);
    return store_.get();
  }
  void FailNextAppend() override { store_->FailNextAppend(fault_); }

 private:
  const typename Store::Fault fault_;
  Disk disk_{kShards};
  std::unique_ptr<Store> store_;
};

template <typename Store, typename Disk>
HarnessFactory MemoryFactory(const std::string& name, typename Store::Fault fault) {
  return {name, [fault] { return std::make_unique<MemoryHarness<Store, Disk>>(fault); }};
}

template <typename Store, typename Disk>
auto MemoryFactories() {
  return testing::Values(MemoryFactory<Store, Disk>("Applied", Store::Fault::kUnknownApplied),
                         MemoryFactory<Store, Disk>("Lost", Store::Fault::kUnknownLost));
}

INSTANTIATE_TEST_SUITE_P(Memory, MessageStoreContract,
                         (MemoryFactories<storage::MemoryStore, storage::MemoryDisk>()),
                         [](const auto& test) { return test.param.name; });

// The records of the daemon over the ordered map.
INSTANTIATE_TEST_SUITE_P(Map, MessageStoreContract, (MemoryFactories<MemoryStore, MemoryDisk>()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
