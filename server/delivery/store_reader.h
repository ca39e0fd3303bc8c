// SPDX-License-Identifier: Apache-2.0
//
// StoreReader: reads the store for delivery, and keeps the first error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/message_record.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// The progress records of one message: how far each of its subscriptions has come.
class ProgressRows {
 public:
  ProgressRows() = default;
  // REQUIRES: the rows are in the order of subscriptions.
  explicit ProgressRows(std::vector<storage::ProgressRef> rows) : rows_(std::move(rows)) {
    DT_CHECK(rows_.empty() || rows_.front().first <= rows_.back().first);
  }

  // The record of one subscription, or nullptr. Valid as long as the rows live. Cost: O(log rows).
  const storage::Progress* Find(storage::SubscriptionId subscription) const {
    const auto found = std::lower_bound(
        rows_.begin(), rows_.end(), subscription,
        [](const storage::ProgressRef& row, storage::SubscriptionId id) { return row.first < id; });
    return found == rows_.end() || found->first != subscription ? nullptr : &found->second;
  }
  bool Settled(storage::SubscriptionId subscription) const {
    const storage::Progress* const row = Find(subscription);
    return row != nullptr && row->state == storage::Progress::State::kSettled;
  }

  bool empty() const { return rows_.empty(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  std::vector<storage::ProgressRef> rows_;
};

// Reads the store for the parts of delivery. The first error sticks: the shard stops at its next
// step (P7), and no batch is taken until then. So a caller that gets an error may leave its
// decision half done and return.
//
// Damage does not stick (storage::IsDamage): it concerns one message, and the shard goes on. A
// caller that gets it leaves that message as it is. It must have changed nothing yet, or call
// Fail().
//
// Thread safety: confined to the engine thread.
class StoreReader {
 public:
  // REQUIRES: `store` outlives the reader.
  StoreReader(uint16_t shard, storage::MessageStore* store) : shard_(shard), store_(store) {
    DT_CHECK(store_ != nullptr);
    DT_CHECK_LT(shard_, store_->shard_count());
  }

  // OK as long as every read succeeded, apart from damage.
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // Notes the error of a read that was made elsewhere. REQUIRES: `error` is not OK.
  void Fail(const absl::Status& error) {
    DT_CHECK(!error.ok());
    if (status_.ok()) status_ = error;
  }

  // The record of the message, or nothing if no message lies at `key`.
  absl::StatusOr<std::optional<std::string>> Record(const storage::MessageKey& key) {
    return Noted(store_->Get(shard_, key));
  }

  // The message's ordering key. Empty if it has none, is gone or is damaged, or after a failed
  // read.
  std::string OrderingKey(const storage::MessageKey& key) {
    const auto record = Record(key);
    if (!record.ok() || !record->has_value()) return "";
    const auto head = HeadOf(**record, storage::MessageFlags::kOrdered);
    return head.has_value() ? std::string(head->ordering_key) : "";
  }

  // The record without its payload, if it has one of these flags and is not damaged. It refers to
  // the bytes of `record`.
  static std::optional<storage::MessageRecord> HeadOf(absl::string_view record, uint8_t flags) {
    storage::MessageHeader header;
    absl::string_view head;
    if (!storage::DecodeMessageHeader(record, &header).ok() || (header.flags & flags) == 0 ||
        !storage::MessageHead(record, &head).ok()) {
      return std::nullopt;
    }
    std::optional<storage::MessageRecord> decoded(std::in_place);
    if (!storage::DecodeMessageHead(head, &*decoded).ok()) return std::nullopt;
    return decoded;
  }

  absl::StatusOr<ProgressRows> Progress(const storage::MessageKey& key) {
    auto rows = Noted(store_->GetProgress(shard_, key));
    if (!rows.ok()) return rows.status();
    return ProgressRows(*std::move(rows));
  }

  // The record of one subscription.
  absl::StatusOr<std::optional<storage::Progress>> ProgressOf(
      const storage::MessageKey& key, storage::SubscriptionId subscription) {
    return Noted(store_->GetProgressOf(shard_, key, subscription));
  }

  absl::StatusOr<std::optional<storage::BacklogEntry>> Backlog(storage::SubscriptionId subscription,
                                                               const storage::MessageKey& place) {
    return Noted(store_->GetBacklog(shard_, subscription, place));
  }

  // A page of a subscription's backlog from `place` on.
  absl::StatusOr<storage::Page<storage::BacklogRef>> BacklogPage(
      storage::SubscriptionId subscription, const storage::MessageKey& place,
      const storage::ScanLimit& limit) {
    DT_CHECK_GT(limit.entries, 0u);
    storage::Page<storage::BacklogRef> page;
    absl::Status status = store_->ScanBacklog(shard_, subscription, place, limit, &page);
    if (!status.ok()) {
      Fail(status);
      return status;
    }
    // The callers reserve room for the entries, and advance their position to the last one.
    DT_CHECK_LE(page.items.size(), limit.entries);
    DT_CHECK(page.items.empty() || place <= page.items.front().key);
    return page;
  }

 private:
  template <typename Value>
  absl::StatusOr<Value> Noted(absl::StatusOr<Value> read) {
    if (!read.ok() && !storage::IsDamage(read.status())) Fail(read.status());
    return read;
  }

  const uint16_t shard_;
  storage::MessageStore* const store_;
  absl::Status status_;
};

}  // namespace duetime::delivery
