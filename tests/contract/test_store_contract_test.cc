// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/message_store_contract.h"
#include "tests/support/test_store.h"

namespace duetime::test {
namespace {

// A failed append loses the records or applies them, because a disk may do either.
class MemoryHarness final : public StoreHarness {
 public:
  explicit MemoryHarness(TestStore::Fault fault) : fault_(fault) {}

  storage::JournaledStore* Reopen() override {
    store_ = std::make_unique<TestStore>(&disk_);
    return store_.get();
  }
  void FailNextAppend() override { store_->FailNextAppend(fault_); }

 private:
  const TestStore::Fault fault_;
  TestDisk disk_{kShards};
  std::unique_ptr<TestStore> store_;
};

HarnessFactory MemoryFactory(const std::string& name, TestStore::Fault fault) {
  return {name, [fault] { return std::make_unique<MemoryHarness>(fault); }};
}

INSTANTIATE_TEST_SUITE_P(Memory, MessageStoreContract,
                         testing::Values(MemoryFactory("Applied",
                                                       TestStore::Fault::kUnknownApplied),
                                         MemoryFactory("Lost", TestStore::Fault::kUnknownLost)),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
