// SPDX-License-Identifier: Apache-2.0
//
// Witness: a small file beside the database that remembers how far it had come.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace duetime::storage {

// A random name that a data directory gets when it is created.
struct StoreId {
  uint64_t high = 0;
  uint64_t low = 0;

  friend constexpr bool operator==(const StoreId&, const StoreId&) = default;
};

// Draws one from the kernel.
absl::StatusOr<StoreId> NewStoreId();

// What the witness says.
struct Testimony {
  enum class State : uint32_t {
    // The database is being created; nothing was ever acknowledged.
    kCreating = 1,
    kCreated = 2,
  };

  State state = State::kCreating;
  uint32_t format_version = 0;
  StoreId store_id;
  uint64_t epoch = 0;
  // RocksDB's sequence number up to which everything is known to be on stable storage.
  uint64_t durable_sequence = 0;

  friend constexpr bool operator==(const Testimony&, const Testimony&) = default;
};

// RocksDB opens without complaint when its write-ahead log was deleted or cut short, because it
// can't know that there was more. The witness can: a database that comes up with a lower sequence
// number than the witness names has lost acknowledged records. Kept outside the database's
// directory, so that one careless `rm` does not take both.
//
// Two slots, 4096 bytes apart, written in turn, each with a checksum: a write that is torn by a
// power cut leaves the other one. See FORMAT.md.
//
// Guarantees: (1) what Write() returned OK for is what the next Read() gives, or something newer;
// (2) a torn write never shows. Thread safety: thread-safe.
class Witness {
 public:
  static constexpr size_t kSlotBytes = 64;
  static constexpr int64_t kSlotDistance = 4096;

  // Opens the file, or creates it empty (mode 0600) and makes its directory entry durable.
  static absl::StatusOr<std::unique_ptr<Witness>> Open(const std::string& path);
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // The newest valid slot. Nothing if the file has never been written (it is empty). DATA_LOSS if
  // it has bytes but no valid slot: then it is unknown what the database should contain.
  absl::StatusOr<std::optional<Testimony>> Read();

  // Writes the older slot and syncs it. After an error the slot may be torn; the next call writes
  // the same slot. REQUIRES: Read() was called and did not fail.
  absl::Status Write(const Testimony& testimony);

 private:
  Witness(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;

  std::mutex mutex_;
  // How often it has been written, over all time: orders the slots. Guarded by mutex_.
  uint64_t writes_ = 0;
};

}  // namespace duetime::storage
