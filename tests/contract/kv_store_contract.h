// SPDX-License-Identifier: Apache-2.0
//
// The contract of KvStore as one suite. A storage engine's test passes its harness to
// INSTANTIATE_TEST_SUITE_P and runs the whole suite.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "storage/kv_store.h"

namespace duetime::test {

// Opens a storage engine for the suite. Every family but kMeta is empty at first.
class KvHarness {
 public:
  virtual ~KvHarness() = default;

  // Opens the store, after closing an open one. The stored bytes survive.
  virtual storage::KvStore* Reopen() = 0;
  // Closes the store after a power cut. Of the appends that are not durable, the last ones are
  // lost, perhaps all.
  virtual void CutPower() = 0;
  // Makes the next append of the open store fail with an unknown outcome.
  virtual void FailNextAppend() = 0;
};

struct KvHarnessFactory {
  std::string name;
  std::function<std::unique_ptr<KvHarness>()> make;
};

inline void PrintTo(const KvHarnessFactory& factory, std::ostream* out) { *out << factory.name; }

class KvStoreContract : public testing::TestWithParam<KvHarnessFactory> {
 protected:
  // Keys with their values.
  using Entries = std::vector<std::pair<std::string, std::string>>;

  KvStoreContract() : harness_(GetParam().make()), store_(harness_->Reopen()) {}

  void Reopen() { store_ = harness_->Reopen(); }

  // Appends and expects success.
  void Append(absl::FunctionRef<void(storage::KvBatch*)> fill,
              storage::Durability durability = storage::Durability::kSynced);
  std::optional<std::string> Get(storage::ColumnFamily family, absl::string_view key);
  Entries Read(storage::ColumnFamily family, absl::string_view lower = "",
               absl::string_view upper = storage::kLastKey,
               storage::OnDamage on_damage = storage::OnDamage::kGoAround);
  // Reads on to the end and expects that the reader has met no damage.
  static Entries Rest(storage::KvReader* reader);

  const std::unique_ptr<KvHarness> harness_;
  storage::KvStore* store_;
};

}  // namespace duetime::test
