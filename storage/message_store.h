// SPDX-License-Identifier: Apache-2.0
//
// MessageStore: what the records in the journal add up to, to be read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/journal.h"
#include "storage/types.h"

namespace duetime::storage {

// What the loader needs of a message: enough to queue it, not its payload.
struct MessageRef {
  MessageKey key;
  TopicId topic{};
  // Size of the whole record in bytes.
  uint32_t bytes = 0;

  friend constexpr bool operator==(const MessageRef&, const MessageRef&) = default;
};

// A backlog record with its place.
struct BacklogRef {
  MessageKey key;
  BacklogEntry entry;

  friend constexpr bool operator==(const BacklogRef&, const BacklogRef&) = default;
};

// How much one scan may return before it stops. It always returns at least one entry if there is one.
struct ScanLimit {
  size_t entries = 1000;
  size_t bytes = 4 << 20;
};

// One page of a scan. `next` is where to go on, or nothing if the range is exhausted.
template <typename T>
struct Page {
  std::vector<T> items;
  std::optional<MessageKey> next;
};

// The marks of one shard that survive a restart. Absent means 0: "from the first key", never "now".
struct ShardMarks {
  uint64_t claim_ms = 0;
  uint64_t safe_ms = 0;
};

// Reads what is stored. A read sees every append that was accepted before it began, and never part of a batch. An error
// is INTERNAL or DATA_LOSS and means that the answer is not known: the caller stops the shard.
//
// Every scan has both bounds; the lower one is a watermark, so that no scan walks over the tombstones of the past.
// Thread-safe, also beside Append.
class MessageStore : public Journal {
 public:
  // How often this store has been opened, this time included; durable before the first read.
  virtual uint64_t epoch() const = 0;

  // Fixed when the store was created.
  virtual uint16_t shard_count() const = 0;

  // Messages with from <= key < until, in key order.
  virtual absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                            const ScanLimit& limit, Page<MessageRef>* page) = 0;

  // The records of `keys`, in the same order; nothing for those that are absent. REQUIRES: keys ascend.
  virtual absl::Status MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                                std::vector<std::optional<std::string>>* values) = 0;

  // Backlog records of a topic with key >= from, in key order.
  virtual absl::Status ScanBacklog(uint16_t shard, TopicId topic, const MessageKey& from,
                                   const ScanLimit& limit, Page<BacklogRef>* page) = 0;

  // One backlog record, if the message is listed.
  virtual absl::StatusOr<std::optional<BacklogEntry>> GetBacklog(uint16_t shard, TopicId topic,
                                                                 const MessageKey& key) = 0;

  // The topics that have a backlog, ascending. Cost: one seek per topic found.
  virtual absl::StatusOr<std::vector<TopicId>> BacklogTopics(uint16_t shard) = 0;

  // How far the topic's backlog has been claimed; nothing if it never was.
  virtual absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                                 TopicId topic) = 0;

  // The shard's marks as of the last accepted append.
  virtual absl::StatusOr<ShardMarks> Marks(uint16_t shard) = 0;

  // Every named topic.
  virtual absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() = 0;

  // Point read of one message; nothing if it is absent.
  absl::StatusOr<std::optional<std::string>> Get(uint16_t shard, const MessageKey& key) {
    std::vector<std::optional<std::string>> values;
    if (absl::Status status = MultiGet(shard, std::span(&key, 1), &values); !status.ok()) {
      return status;
    }
    return std::move(values[0]);
  }
};

}  // namespace duetime::storage
