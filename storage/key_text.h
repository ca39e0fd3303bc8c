// SPDX-License-Identifier: Apache-2.0
//
// KeyText: a key on disk as text for people.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "storage/key_codec.h"

namespace duetime::storage {

// Describes a key, or the beginning of one: RocksDB shortens the keys between two blocks. Missing
// numbers count as 0. Names that are not plain text are escaped.
std::string KeyText(ColumnFamily family, absl::string_view bytes);

// 2026-11-23T01:02:03.004Z.
std::string TimeText(uint64_t time_ms);

}  // namespace duetime::storage
