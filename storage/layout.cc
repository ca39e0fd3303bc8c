// SPDX-License-Identifier: Apache-2.0
#include "storage/layout.h"

#include <optional>

#include "storage/count_sum.h"
#include "storage/locator.h"

namespace duetime::storage {

bool MayDrop(ColumnFamily family, absl::string_view key, absl::string_view value,
             uint64_t until_ms) {
  const FamilyLayout& layout = LayoutOf(family);
  if (layout.sums) return CountSum::IsZero(key, value);
  if (!layout.expires) return false;
  const std::optional<uint64_t> expire_ms = ExpireTimeOf(value);
  return expire_ms.has_value() && *expire_ms != 0 && *expire_ms <= until_ms;
}

}  // namespace duetime::storage
