// SPDX-License-Identifier: Apache-2.0
//
// KvStore: families of ordered keys and values. It is the seam between the records of a store and
// the storage engine below them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/damage.h"
#include "storage/journal.h"
#include "storage/key_codec.h"
#include "storage/layout.h"

namespace duetime::storage {

// Greater than every key of a store.
inline constexpr absl::string_view kLastKey =
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

// What a reader does when it meets damage.
enum class OnDamage : uint8_t {
  // The reader ends with a DamageError.
  kFail,
  // The reader leaves out the keys that it cannot read, and continues behind them.
  kGoAround,
  // As kGoAround, but the reader ends behind damage that it had to locate, because that takes tens
  // of milliseconds: see KvReader::stopped().
  kGoAroundInSteps,
};

// The changes of one append, in the order of the calls.
//
// Copies keys and values. Reports no errors: KvStore::Append returns them. Thread safety: confined
// to the caller of Append.
class KvBatch {
 public:
  virtual ~KvBatch() = default;

  // Stores a value, in place of an older one.
  virtual void Put(ColumnFamily family, absl::string_view key, absl::string_view value) = 0;
  // Erases a value. An absent key is not an error.
  virtual void Delete(ColumnFamily family, absl::string_view key) = 0;
  // Adds a change to a sum. An absent sum is zero. REQUIRES: LayoutOf(family).sums, and `change`
  // has the bytes of a counter (FORMAT.md).
  virtual void Merge(ColumnFamily family, absl::string_view key, absl::string_view change) = 0;
};

// Reads the keys of a range in ascending order. A new reader is at the first key.
//
// Guarantees: the reader shows every append that was accepted before the reader was made, and
// nothing of a later one. Behind damage it may show later appends as well.
//
// Cost: a step takes 0.3 us and a seek 5-10 us in RocksDB's tables. A reader keeps the memory and
// the files that it reads, so it lives for one call of MessageStore at most.
//
// Thread safety: confined to one thread.
class KvReader {
 public:
  virtual ~KvReader() = default;

  // False at the end of the range, after an error and after a stop: see status() and stopped().
  bool Valid() const { return valid_; }
  // The bytes are valid until the reader moves. REQUIRES: Valid().
  absl::string_view key() const { return key_; }
  absl::string_view value() const { return value_; }

  // Moves to the next key. REQUIRES: Valid().
  virtual void Next() = 0;
  // Moves to the first key of the range that is not less than `key`, forward or back. REQUIRES: the
  // reader has not stopped.
  virtual void Seek(absl::string_view key) = 0;

  // OK if Valid(), and at the end of the range. A DamageError: the next key lies in damage, and the
  // reader does not go around it. Other errors: the store cannot be used.
  virtual absl::Status status() const = 0;

  // True if the reader has met damage, so that it may have left out keys.
  bool went_around() const { return went_around_; }
  // True if the reader ended behind damage that it located (kGoAroundInSteps). Another reader
  // continues at stop(), which need not be a key.
  bool stopped() const { return stop_.has_value(); }
  const std::string& stop() const { return *stop_; }

 protected:
  // An engine sets the members in each move, so that a step costs one virtual call.
  bool valid_ = false;
  absl::string_view key_;
  absl::string_view value_;
  bool went_around_ = false;
  std::optional<std::string> stop_;
};

// The readable side of a store.
//
// Guarantees: a call shows every append that was accepted before the call began.
//
// Damage concerns a range of keys of one family. A key in the range is unknown, not absent, until a
// later append puts or deletes the key. A merge leaves the key unknown, because the sum below the
// change is unknown.
//
// Thread safety: thread-safe, also beside KvStore::Append.
class KvSource {
 public:
  virtual ~KvSource() = default;

  // The value of a key, or nullopt if the key is absent. A DamageError: the key is unknown. A key
  // of kMeta gives a plain DATA_LOSS instead, because no caller can continue without that value.
  // Other errors: the store cannot be used. Cost: 1-17 us.
  virtual absl::StatusOr<std::optional<std::string>> Get(ColumnFamily family,
                                                         absl::string_view key) = 0;

  // Appends the values of `keys` to `values`, in the same order: nullopt for an absent key, and an
  // empty string for an unknown one. REQUIRES: the keys ascend, are whole, and are of one family,
  // which has no empty values. Cost: 0.3 us for a key beside the one before, else that of Get.
  virtual absl::Status GetMany(std::span<const StoreKey> keys,
                               std::vector<std::optional<std::string>>* values) = 0;

  // Reads [lower, upper). REQUIRES: lower <= upper, and the bytes of both outlive the reader. With
  // kProgress and kFail the bounds are ProgressBegin and ProgressEnd of one message, because the
  // engine then asks only that message's filter.
  virtual std::unique_ptr<KvReader> NewReader(ColumnFamily family, absl::string_view lower,
                                              absl::string_view upper, OnDamage on_damage) = 0;

  // The damage that reads have found since the store was opened.
  virtual const DamageList& damage() const = 0;
};

// A store of keys and values, which one thread changes.
//
// Guarantees: (1) order: if an append survives a crash, so does every append before it; (2) an
// append is applied whole or not at all; (3) reads that begin after an accepted append show it;
// (4) after an append that failed, every later one is refused.
//
// Does not open, lock, copy or close what holds the bytes: these are calls of each engine.
//
// Thread safety: as each method says.
class KvStore {
 public:
  virtual ~KvStore() = default;

  // Makes the changes that `fill` adds to the batch, and blocks until they are written. Calls
  // `fill` at most once, before it writes. An empty batch is allowed: with kSynced it makes earlier
  // appends durable. Errors:
  //   FAILED_PRECONDITION  the store was fenced before, so nothing of this append was written
  //   others               the next open finds all or none of the changes. The store is fenced from
  //                        now on, and what readers see of the changes is not to be used
  // Cost: an engine writes keys in ascending order for a third less. Thread safety: one caller at a
  // time.
  virtual absl::Status Append(absl::FunctionRef<void(KvBatch*)> fill, Durability durability) = 0;

  // Allows the store to drop entries that expired at or before `until_ms`, at any time until the
  // next call. Thread-safe.
  virtual void DropExpired(uint64_t until_ms) = 0;

  // The readable side. Lives as long as the store.
  virtual KvSource* source() = 0;
};

}  // namespace duetime::storage
