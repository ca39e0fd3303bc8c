// SPDX-License-Identifier: Apache-2.0
//
// Settings of topics as data directories up to format 3 keep them. Read once, when the catalog
// takes such a directory over (storage/FORMAT.md).
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/catalog/catalog_records.h"

namespace duetime::catalog {

// DATA_LOSS for bytes that no encoder wrote.
absl::StatusOr<StoredTopic> DecodeOldTopic(absl::string_view bytes);

}  // namespace duetime::catalog
