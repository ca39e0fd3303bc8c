// SPDX-License-Identifier: Apache-2.0
//
// Converts between rocksdb::Slice and absl::string_view. Neither owns its bytes.
#pragma once

#include <rocksdb/slice.h>

#include "absl/strings/string_view.h"

namespace duetime::storage {

inline rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline absl::string_view ToView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

}  // namespace duetime::storage
