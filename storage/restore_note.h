// SPDX-License-Identifier: Apache-2.0
//
// RestoreNote: what a restored directory knows of its backup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// An object of ObjectKind::kCatalog in the partition of the catalog (repair_note.h), for ever. The
// first start holds the deliveries of all topics.
inline constexpr absl::string_view kRestoreNoteName = "restored";

struct RestoreNote {
  // When the server took the backup, and when it was restored. UTC milliseconds.
  uint64_t snapshot_ms = 0;
  uint64_t restore_ms = 0;
  // A start has paused the topics.
  bool paused = false;

  friend bool operator==(const RestoreNote&, const RestoreNote&) = default;
};

std::string EncodeRestoreNote(const RestoreNote& note);
// nullopt for bytes that EncodeRestoreNote did not write.
std::optional<RestoreNote> DecodeRestoreNote(absl::string_view bytes);

}  // namespace duetime::storage
