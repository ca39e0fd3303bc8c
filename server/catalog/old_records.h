// SPDX-License-Identifier: Apache-2.0
//
// Decodes the settings of topics of data directories up to format 3 (storage/FORMAT.md). The
// catalog reads them once, when it converts such a directory.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/catalog/catalog_records.h"

namespace duetime::catalog {

// DATA_LOSS for bytes that no encoder wrote.
absl::StatusOr<StoredTopic> DecodeOldTopic(absl::string_view bytes);

}  // namespace duetime::catalog
