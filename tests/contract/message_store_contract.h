// SPDX-License-Identifier: Apache-2.0
//
// The contract of MessageStore as one suite. An implementation's test passes its harness to
// INSTANTIATE_TEST_SUITE_P and runs the whole suite.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/message_store.h"

namespace duetime::test {

inline constexpr storage::TopicId kTopic{7};
inline constexpr storage::MessageKey kEnd =
    storage::MessageKey::FirstAt(std::numeric_limits<uint64_t>::max());

inline storage::MessageKey Key(uint64_t due_ms, uint64_t sequence) {
  return {due_ms, storage::MessageId::Make(/*epoch=*/1, sequence, /*slot=*/0, due_ms)};
}

// Opens an implementation for the suite.
class StoreHarness {
 public:
  static constexpr uint16_t kShards = 4;

  virtual ~StoreHarness() = default;

  // Opens the store, after closing an open one. The stored bytes survive.
  virtual storage::JournaledStore* Reopen() = 0;
  // Makes the next append of the open store fail with kUnknown.
  virtual void FailNextAppend() = 0;
};

struct HarnessFactory {
  std::string name;
  std::function<std::unique_ptr<StoreHarness>()> make;
};

inline void PrintTo(const HarnessFactory& factory, std::ostream* out) { *out << factory.name; }

class MessageStoreContract : public testing::TestWithParam<HarnessFactory> {
 protected:
  MessageStoreContract() : harness_(GetParam().make()), store_(harness_->Reopen()) {}

  void Reopen() { store_ = harness_->Reopen(); }

  // Appends one batch, synced, and expects it to be accepted.
  void Append(storage::RecordBatch batch);

  // Reads all messages of a shard in pages of `page_entries`.
  std::vector<storage::MessageRef> ScanAll(uint16_t shard, size_t page_entries);
  std::vector<storage::BacklogRef> ScanBacklogAll(uint16_t shard,
                                                  storage::SubscriptionId subscription,
                                                  size_t page_entries);

  const std::unique_ptr<StoreHarness> harness_;
  storage::JournaledStore* store_;
};

}  // namespace duetime::test
