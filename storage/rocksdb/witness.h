// SPDX-License-Identifier: Apache-2.0
//
// Witness: a small file beside the database that records how far the database is durable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/mutex.h"

namespace duetime::storage {

// A random id that a data directory gets when it is created.
struct StoreId {
  uint64_t high = 0;
  uint64_t low = 0;

  friend constexpr bool operator==(const StoreId&, const StoreId&) = default;
};

// Draws a store id, or a number, from the kernel's random source.
absl::StatusOr<StoreId> NewStoreId();
absl::StatusOr<uint64_t> RandomNumber();

// The content of the witness file.
struct WitnessRecord {
  enum class State : uint32_t {
    // The database is being created; the server has acknowledged nothing.
    kCreating = 1,
    kCreated = 2,
  };

  State state = State::kCreating;
  uint32_t format_version = 0;
  StoreId store_id;
  uint64_t epoch = 0;
  // Every record up to this RocksDB sequence number is on stable storage.
  uint64_t durable_sequence = 0;

  friend constexpr bool operator==(const WitnessRecord&, const WitnessRecord&) = default;
};

// RocksDB opens without an error when its write-ahead log was deleted or cut short, because it
// cannot know that there was more. The witness detects the loss: if the database recovers to a
// lower sequence number than the witness records, acknowledged records are missing. The file lies
// outside the database's directory, so that one careless `rm` does not remove both.
//
// The file has two slots, 4096 bytes apart, written in turn, each with a checksum. A power cut that
// tears a write leaves the other slot intact. See FORMAT.md.
//
// Guarantees: (1) Read() returns the record of the last Write() that returned OK, or a newer one;
// (2) Read() never returns a torn write. Thread safety: thread-safe.
class Witness {
 public:
  static constexpr size_t kSlotBytes = 64;
  static constexpr int64_t kSlotDistance = 4096;

  // Opens the file, or creates it empty (mode 0600) and makes its directory entry durable.
  static absl::StatusOr<std::unique_ptr<Witness>> Open(const std::string& path);
  // Opens an existing file, which Write() then cannot change. INTERNAL if that fails.
  static absl::StatusOr<std::unique_ptr<Witness>> OpenToRead(const std::string& path);
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // Returns the newest valid slot; nullopt if the file is empty, or its first write was torn.
  // DATA_LOSS if there is no valid slot otherwise: the expected content of the database is then
  // unknown, or the file belongs to another program.
  absl::StatusOr<std::optional<WitnessRecord>> Read();

  // Overwrites the older slot and syncs it. After an error that slot may be torn; the next call
  // writes the same slot. REQUIRES: Read() was called and did not fail.
  absl::Status Write(const WitnessRecord& record);

  // When the file was last written, less a second, in ms since 1970: every record that was synced
  // by then is covered. A copy of the file has the time of the copying. 0 if the system does not
  // tell the time.
  uint64_t WrittenMs() const;

  // Bytes that differ between this file and a copy of it: its inode and its time of birth. Empty if
  // the system does not tell them.
  std::string FileIdentity() const;

 private:
  Witness(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;

  base::Mutex mutex_;
  // The number of writes over the life of the file. Orders the slots.
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::storage
