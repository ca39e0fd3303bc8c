// SPDX-License-Identifier: Apache-2.0
#include "storage/damage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"

namespace duetime::storage {
namespace {

constexpr absl::string_view kReason = "CHECKSUM_MISMATCH";

}  // namespace

std::string PlaceText(const DamagedBlock& block) {
  if (block.whole_table) return absl::StrCat("a block of ", block.file);
  return absl::StrCat("the block at byte ", block.offset, " of ", block.file);
}

absl::Status DamageError(const DamagedBlock& block) {
  return base::MakeError(
      absl::StatusCode::kDataLoss,
      absl::StrCat("bytes on disk that the answer needs are damaged: ", PlaceText(block), " (",
                   block.family, ": ", block.first_text, " to ", block.last_text, ")"),
      {.reason = std::string(kReason),
       .field = "",
       .metadata = {{"file", block.file},
                    {"offset", absl::StrCat(block.offset)},
                    {"family", block.family},
                    {"first_key", block.first_text},
                    {"last_key", block.last_text}},
       .retry_after_ms = 0});
}

bool IsDamage(const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return false;
  const auto detail = base::GetErrorDetail(status);
  return detail.has_value() && detail->reason == kReason;
}

bool DamageList::Add(const DamagedBlock& block) {
  const base::MutexLock lock(&mutex_);
  for (const DamagedBlock& known : report_.blocks) {
    if (known.file == block.file && known.offset == block.offset &&
        known.whole_table == block.whole_table) {
      return false;
    }
  }
  if (!block.whole_table && report_.blocks.size() >= blocks_max_) {
    ++report_.unlisted;
    return false;
  }
  report_.blocks.push_back(block);
  return true;
}

std::optional<DamagedBlock> DamageList::Find(absl::string_view file, uint64_t offset) const {
  const base::MutexLock lock(&mutex_);
  std::optional<DamagedBlock> table;
  for (const DamagedBlock& known : report_.blocks) {
    if (known.file != file) continue;
    if (known.whole_table) {
      table = known;
    } else if (known.offset == offset) {
      return known;
    }
  }
  return table;
}

bool DamageList::full() const {
  const base::MutexLock lock(&mutex_);
  return report_.blocks.size() >= blocks_max_;
}

uint64_t DamageList::CountOf(absl::string_view family) const {
  const base::MutexLock lock(&mutex_);
  const auto listed =
      std::count_if(report_.blocks.begin(), report_.blocks.end(),
                    [family](const DamagedBlock& block) { return block.family == family; });
  return report_.unlisted + static_cast<uint64_t>(listed);
}

bool DamageList::TableOf(absl::string_view family) const {
  const base::MutexLock lock(&mutex_);
  return std::any_of(
      report_.blocks.begin(), report_.blocks.end(),
      [family](const DamagedBlock& known) { return known.whole_table && known.family == family; });
}

bool DamageList::Stop(absl::string_view family) {
  const base::MutexLock lock(&mutex_);
  std::vector<std::string>& stopped = report_.stopped_families;
  if (std::find(stopped.begin(), stopped.end(), family) != stopped.end()) return false;
  stopped.emplace_back(family);
  return true;
}

DamageReport DamageList::report() const {
  const base::MutexLock lock(&mutex_);
  return report_;
}

}  // namespace duetime::storage
