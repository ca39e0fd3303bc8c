// SPDX-License-Identifier: Apache-2.0
#include "storage/restore_note.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kRestoreNoteBytes = 2 * sizeof(uint64_t) + 1;

}  // namespace

std::string EncodeRestoreNote(const RestoreNote& note) {
  std::string bytes(kRestoreNoteBytes, '\0');
  StoreLittleEndian(note.snapshot_ms, bytes.data());
  StoreLittleEndian(note.restore_ms, &bytes[sizeof(uint64_t)]);
  bytes.back() = note.paused ? 1 : 0;
  return bytes;
}

std::optional<RestoreNote> DecodeRestoreNote(absl::string_view bytes) {
  if (bytes.size() != kRestoreNoteBytes || static_cast<unsigned char>(bytes.back()) > 1) {
    return std::nullopt;
  }
  return RestoreNote{.snapshot_ms = LoadLittleEndian<uint64_t>(bytes.data()),
                     .restore_ms = LoadLittleEndian<uint64_t>(&bytes[sizeof(uint64_t)]),
                     .paused = bytes.back() == 1};
}

}  // namespace duetime::storage
