// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_compaction.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

#include "storage/locator.h"
#include "storage/rocksdb_slice.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

class CountMergeOperator final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing_value,
             const rocksdb::Slice& value, std::string* new_value,
             rocksdb::Logger* /*logger*/) const override {
    const std::optional<CountDelta> before =
        existing_value == nullptr ? CountDelta{} : DecodeCountDelta(ToView(*existing_value));
    const std::optional<CountDelta> change = DecodeCountDelta(ToView(value));
    if (!before.has_value() || !change.has_value()) return false;
    const auto bytes = EncodeCountDelta(Sum(*before, *change));
    new_value->assign(bytes.data(), bytes.size());
    return true;
  }

  const char* Name() const override { return "duetime.count"; }
};

class ZeroCountFilter final : public rocksdb::CompactionFilter {
 public:
  bool Filter(int /*level*/, const rocksdb::Slice& /*key*/, const rocksdb::Slice& existing_value,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    return DecodeCountDelta(ToView(existing_value)) == CountDelta{};
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
