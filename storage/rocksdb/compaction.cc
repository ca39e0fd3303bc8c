// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/compaction.h"

#include <deque>
#include <string>
#include <utility>

#include "storage/count_sum.h"
#include "storage/rocksdb/rocksdb_slice.h"

namespace duetime::storage {
namespace {

// Adds changes. Returns false if one of them is not valid.
template <typename Changes>
bool AddAll(const Changes& changes, CountSum* sum) {
  for (const rocksdb::Slice& change : changes) {
    if (!sum->Add(ToView(change))) return false;
  }
  return true;
}

class CountMergeOperator final : public rocksdb::MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    CountSum sum(ToView(in.key));
    if (in.existing_value != nullptr && !sum.Add(ToView(*in.existing_value))) return false;
    if (!AddAll(in.operand_list, &sum)) return false;
    out->new_value = sum.Encode();
    return true;
  }
  bool PartialMergeMulti(const rocksdb::Slice& key, const std::deque<rocksdb::Slice>& operands,
                         std::string* new_value, rocksdb::Logger* /*logger*/) const override {
    CountSum sum(ToView(key));
    if (!AddAll(operands, &sum)) return false;
    *new_value = sum.Encode();
    return true;
  }

  const char* Name() const override { return "duetime.count"; }
};

// As in earlier versions: RocksDB writes the name into its logs and options.
const char* FilterName(ColumnFamily family) {
  return LayoutOf(family).sums ? "duetime.zero_count" : "duetime.expiry";
}

class GarbageFilter final : public rocksdb::CompactionFilter {
 public:
  GarbageFilter(ColumnFamily family, uint64_t until_ms) : family_(family), until_ms_(until_ms) {}

  bool Filter(int /*level*/, const rocksdb::Slice& key, const rocksdb::Slice& existing_value,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    return MayDrop(family_, ToView(key), ToView(existing_value), until_ms_);
  }

  const char* Name() const override { return FilterName(family_); }

 private:
  const ColumnFamily family_;
  const uint64_t until_ms_;
};

class GarbageFilterFactory final : public rocksdb::CompactionFilterFactory {
 public:
  GarbageFilterFactory(ColumnFamily family, std::shared_ptr<const DropMark> mark)
      : family_(family), mark_(std::move(mark)) {}

  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    return std::make_unique<GarbageFilter>(family_, mark_->load(std::memory_order_relaxed));
  }

  const char* Name() const override { return FilterName(family_); }

 private:
  const ColumnFamily family_;
  const std::shared_ptr<const DropMark> mark_;
};

}  // namespace

std::shared_ptr<rocksdb::MergeOperator> NewCountMergeOperator() {
  return std::make_shared<CountMergeOperator>();
}

std::shared_ptr<rocksdb::CompactionFilterFactory> NewGarbageFilterFactory(
    ColumnFamily family, std::shared_ptr<const DropMark> mark) {
  return std::make_shared<GarbageFilterFactory>(family, std::move(mark));
}

}  // namespace duetime::storage
