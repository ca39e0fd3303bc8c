// SPDX-License-Identifier: Apache-2.0
//
// The layout of a store: its families of keys, and what a storage engine must know about their
// values. FORMAT.md documents the families.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// The numbers are not on disk: families have names there.
enum class ColumnFamily : uint8_t {
  kMeta = 0,
  kMessages = 1,
  kBacklog = 2,
  kIndex = 3,
  kLocators = 4,
  kCounts = 5,
  kObjects = 6,
  kProgress = 7,
};
inline constexpr size_t kColumnFamilyCount = 8;

struct FamilyLayout {
  // The family's name on disk. Never changes.
  absl::string_view name;
  // The values are sums: KvBatch::Merge adds a change to a sum.
  bool sums = false;
  // The values begin with expire_ms (ExpireTimeOf).
  bool expires = false;
};

// In the order of ColumnFamily.
inline constexpr std::array<FamilyLayout, kColumnFamilyCount> kFamilies = {
    {{.name = "default"},
     {.name = "messages"},
     {.name = "backlog"},
     {.name = "index", .expires = true},
     {.name = "traces", .expires = true},
     {.name = "counts", .sums = true},
     {.name = "objects"},
     {.name = "progress"}}};

constexpr const FamilyLayout& LayoutOf(ColumnFamily family) {
  return kFamilies[static_cast<size_t>(family)];
}

// True if a store may drop the entry because readers see no difference: the entry expired at or
// before `until_ms`, or `value` is a sum of zero. REQUIRES: `value` is not a change, because a
// change without its sum means something else. Cost: O(1).
bool MayDrop(ColumnFamily family, absl::string_view key, absl::string_view value,
             uint64_t until_ms);

}  // namespace duetime::storage
