// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/compaction.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/locator.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

// True if the key is that of a day, whose value is a DayEncoder's.
bool IsDay(const rocksdb::Slice& key) {
  const std::optional<CountPlace> place = DecodeCountKey(ToView(key));
  return place.has_value() && place->row == CountRow::kDay;
}

// Adds up values of one key, `before` first if it is not nullptr. Returns false if one of them is
// not valid.
template <typename Values>
bool AddUp(const rocksdb::Slice& key, const rocksdb::Slice* before, const Values& changes,
           std::string* sum) {
  if (IsDay(key)) {
    DayCounts day;
    if (before != nullptr && !day.Add(ToView(*before))) return false;
    for (const rocksdb::Slice& change : changes) {
      if (!day.Add(ToView(change))) return false;
    }
    *sum = day.Encode();
    return true;
  }
  std::optional<CountDelta> total =
      before == nullptr ? CountDelta{} : DecodeCountDelta(ToView(*before));
  for (const rocksdb::Slice& change : changes) {
    const std::optional<CountDelta> delta = DecodeCountDelta(ToView(change));
    if (!total.has_value() || !delta.has_value()) return false;
    total = Sum(*total, *delta);
  }
  if (!total.has_value()) return false;
  const auto bytes = EncodeCountDelta(*total);
  sum->assign(bytes.data(), bytes.size());
  return true;
}

class CountMergeOperator final : public rocksdb::MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    return AddUp(in.key, in.existing_value, in.operand_list, &out->new_value);
  }
  bool PartialMergeMulti(const rocksdb::Slice& key, const std::deque<rocksdb::Slice>& operands,
                         std::string* new_value, rocksdb::Logger* /*logger*/) const override {
    return AddUp(key, nullptr, operands, new_value);
  }

  const char* Name() const override { return "duetime.count"; }
};

class ZeroCountFilter final : public rocksdb::CompactionFilter {
 public:
  bool Filter(int /*level*/, const rocksdb::Slice& key, const rocksdb::Slice& existing_value,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    return IsDay(key) ? existing_value.empty()
                      : DecodeCountDelta(ToView(existing_value)) == CountDelta{};
  }

  const char* Name() const override { return "duetime.zero_count"; }
};

class ExpiryFilter final : public rocksdb::CompactionFilter {
 public:
  explicit ExpiryFilter(uint64_t until_ms) : until_ms_(until_ms) {}

  bool Filter(int /*level*/, const rocksdb::Slice& /*key*/, const rocksdb::Slice& existing_value,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    const std::optional<uint64_t> expire_ms = ExpireTimeOf(ToView(existing_value));
    return expire_ms.has_value() && *expire_ms != 0 && *expire_ms <= until_ms_;
  }

  const char* Name() const override { return "duetime.expiry"; }

 private:
  const uint64_t until_ms_;
};

class ZeroCountFilterFactory final : public rocksdb::CompactionFilterFactory {
 public:
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    return std::make_unique<ZeroCountFilter>();
  }

  const char* Name() const override { return "duetime.zero_count"; }
};

class ExpiryFilterFactory final : public rocksdb::CompactionFilterFactory {
 public:
  explicit ExpiryFilterFactory(std::shared_ptr<const DropMark> mark) : mark_(std::move(mark)) {}

  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    return std::make_unique<ExpiryFilter>(mark_->load(std::memory_order_relaxed));
  }

  const char* Name() const override { return "duetime.expiry"; }

 private:
  const std::shared_ptr<const DropMark> mark_;
};

}  // namespace

std::shared_ptr<rocksdb::MergeOperator> NewCountMergeOperator() {
  return std::make_shared<CountMergeOperator>();
}

std::shared_ptr<rocksdb::CompactionFilterFactory> NewZeroCountFilterFactory() {
  return std::make_shared<ZeroCountFilterFactory>();
}

std::shared_ptr<rocksdb::CompactionFilterFactory> NewExpiryFilterFactory(
    std::shared_ptr<const DropMark> mark) {
  return std::make_shared<ExpiryFilterFactory>(std::move(mark));
}

}  // namespace duetime::storage
