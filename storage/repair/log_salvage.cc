// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/log_salvage.h"

#include <algorithm>
#include <cstddef>

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

// The head of a write: sequence u64, records u32.
constexpr size_t kCountAt = 8;
constexpr size_t kLeastWriteBytes = 12;

}  // namespace

void LogSalvage::BeginLog() { in_write_ = false; }

void LogSalvage::AddBlock(absl::string_view block) {
  while (block.size() >= LogFragment::kHeadBytes) {
    const std::optional<LogFragment> fragment = NextLogFragment(&block);
    if (fragment.has_value()) {
      AddFragment(*fragment);
    } else {
      in_write_ = false;
      SkipLogFragment(&block);
    }
  }
}

void LogSalvage::AddFragment(const LogFragment& fragment) {
  if (fragment.begins_record()) {
    write_.clear();
    in_write_ = true;
  }
  // The first fragment is missing.
  if (!in_write_) return;
  write_.append(fragment.body.data(), fragment.body.size());
  if (!fragment.ends_record()) return;
  in_write_ = false;
  if (write_.size() >= kLeastWriteBytes) NoteWrite();
}

void LogSalvage::NoteWrite() {
  const auto first = LoadLittleEndian<uint64_t>(write_.data());
  const uint64_t records = LoadLittleEndian<uint32_t>(&write_[kCountAt]);
  if (first == 0 || (last_.has_value() && first <= *last_)) return;
  const std::optional<uint64_t> before = last_.has_value() ? last_ : covered_;
  if (before.has_value() && first > *before + 1) NoteGap(*before + 1, first - 1);
  last_ = first + records - 1;
  take_(write_);
}

void LogSalvage::Finish(uint64_t durable) {
  const std::optional<uint64_t> end = last_.has_value() ? last_ : covered_;
  if (end.has_value() && durable > std::max(*end, covered_.value_or(0))) {
    NoteGap(std::max(*end, covered_.value_or(0)) + 1, durable);
  }
}

void LogSalvage::NoteGap(uint64_t first, uint64_t last) {
  missing_ += last - first + 1;
  if (gaps_.size() < kGapsMax) gaps_.emplace_back(first, last);
}

}  // namespace duetime::storage
