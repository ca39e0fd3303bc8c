// SPDX-License-Identifier: Apache-2.0
#include "server/query/list_query.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

#include "server/base/check.h"
#include "storage/message_record.h"
#include "storage/time_units.h"

namespace duetime::query {
namespace {

using storage::kMinuteMs;
using storage::MessageKey;
using storage::MessageStore;

// The maximum number of minutes whose counters one read returns.
constexpr size_t kMinutesMax = 256;
// The maximum number of messages that one read examines.
constexpr size_t kLooksPerRead = 5'000;
constexpr size_t kNamesPerRead = 256;

bool HasLabels(const MessageFilter& filter, const storage::MessageRecord& record) {
  return std::all_of(filter.labels.begin(), filter.labels.end(), [&record](const auto& wanted) {
    return std::any_of(record.labels.begin(), record.labels.end(), [&wanted](const auto& label) {
      return label.first == wanted.first && label.second == wanted.second;
    });
  });
}

// Iterates over the messages of one shard from a place on. Reads ahead in pieces.
class ShardCursor {
 public:
  // `looks`: the shard's share of the budget. Each shard has its own share, so that every page
  // makes progress in every shard.
  ShardCursor(MessageStore* store, uint16_t shard, const MessageFilter* filter,
              const MessageKey& from, size_t looks)
      : store_(store), shard_(shard), filter_(filter), next_(from), looks_(looks) {}

  // Reads until a message is ready, the shard has no more messages, or the share is spent.
  absl::Status Fill(size_t rows) {
    while (rows_.empty() && !done_ && looks_ > 0) {
      if (next_.due_ms >= filter_->until_ms) {
        done_ = true;
        break;
      }
      if (absl::Status status = SkipEmptyMinutes(); !status.ok()) return status;
      if (done_) break;
      if (absl::Status status = ReadOn(rows); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The cursor has returned all messages before this place, and none at or after it.
  MessageKey frontier() const { return rows_.empty() ? next_ : rows_.back().key; }
  bool done() const { return rows_.empty() && done_; }
  bool ready() const { return !rows_.empty(); }
  ListRow Take() {
    ListRow row = std::move(rows_.back());
    rows_.pop_back();
    return row;
  }

 private:
  // Moves to the first minute that has messages, and sets full_until_ms_ to the next empty minute.
  absl::Status SkipEmptyMinutes() {
    if (next_.due_ms < full_until_ms_) return absl::OkStatus();
    const uint64_t minute_ms = next_.due_ms - next_.due_ms % kMinuteMs;
    std::vector<storage::BucketCount> counts;
    absl::Status status = store_->ScanCounts(shard_, filter_->topic, storage::CountLevel::kMinute,
                                             {minute_ms, filter_->until_ms}, kMinutesMax, &counts);
    Look(counts.size());
    if (!status.ok()) return status;
    if (counts.empty()) {
      done_ = true;
      return absl::OkStatus();
    }
    next_ = std::max(next_, MessageKey::FirstAt(counts[0].start_ms));
    full_until_ms_ = counts[0].start_ms + kMinuteMs;
    for (size_t i = 1; i < counts.size() && counts[i].start_ms == full_until_ms_; ++i) {
      full_until_ms_ += kMinuteMs;
    }
    return absl::OkStatus();
  }

  absl::Status ReadOn(size_t rows) {
    const MessageKey until = MessageKey::FirstAt(std::min(full_until_ms_, filter_->until_ms));
    const size_t scan_max = std::clamp<size_t>(looks_, 1, kLooksPerRead);
    storage::ScanLimit limit;
    limit.entries = rows;
    storage::Page<storage::MessageHeadRef> page;
    absl::Status status =
        store_->ScanHeads(shard_, filter_->topic, {next_, until}, limit, scan_max, &page);
    if (!status.ok()) return status;
    // A read that stopped early has examined `scan_max` messages.
    const bool stopped = page.next.has_value() && page.items.size() < rows;
    Look(stopped ? scan_max : page.items.size());
    next_ = page.next.value_or(until);
    if (!page.next.has_value() && next_.due_ms >= filter_->until_ms) done_ = true;
    storage::MessageRecord record;
    for (auto& item : page.items) {
      status = storage::DecodeMessageHead(item.head, &record);
      // Skip a damaged message, so that the list still shows the others. Get reports the damage.
      if (!status.ok() || !HasLabels(*filter_, record)) continue;
      rows_.push_back(
          {.shard = shard_, .key = item.key, .bytes = item.bytes, .head = std::move(item.head)});
    }
    std::reverse(rows_.begin(), rows_.end());
    return absl::OkStatus();
  }

  // Counts at least one look per read, so that every page ends.
  void Look(size_t count) { looks_ -= std::min(looks_, count + 1); }

  MessageStore* store_;
  uint16_t shard_;
  const MessageFilter* filter_;
  // The next read starts here.
  MessageKey next_;
  size_t looks_;
  // No minute from next_ up to here is empty.
  uint64_t full_until_ms_ = 0;
  // In reverse order: Take returns the last row.
  std::vector<ListRow> rows_;
  bool done_ = false;
};

absl::Status ReadByPlace(MessageStore* store, const MessageFilter& filter, const ListPosition& from,
                         const ListBudget& budget, ListPage* page) {
  const MessageKey begin = std::max(from.place, MessageKey::FirstAt(filter.from_ms));
  std::vector<ShardCursor> cursors;
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    cursors.emplace_back(store, shard, &filter, begin, budget.looks / store->shard_count() + 1);
  }
  const size_t piece = std::clamp<size_t>(2 * budget.rows / cursors.size(), 16, 1'000);
  for (;;) {
    ShardCursor* first = nullptr;
    for (ShardCursor& cursor : cursors) {
      if (absl::Status status = cursor.Fill(piece); !status.ok()) return status;
      if (cursor.done()) continue;
      if (first == nullptr || cursor.frontier() < first->frontier()) first = &cursor;
    }
    if (first == nullptr) return absl::OkStatus();
    // A shard without a ready message may still have messages before those of other shards.
    if (!first->ready() || page->rows.size() >= budget.rows) {
      page->next = ListPosition{.place = first->frontier(), .key = ""};
      return absl::OkStatus();
    }
    page->rows.push_back(first->Take());
  }
}

// Iterates over the message keys of one shard that begin with the prefix. Reads ahead in pieces.
class NameCursor {
 public:
  NameCursor(MessageStore* store, uint16_t shard, const MessageFilter* filter, std::string after)
      : store_(store), shard_(shard), filter_(filter), after_(std::move(after)) {}

  absl::Status Fill() {
    if (position_ < names_.size() || done_) return absl::OkStatus();
    names_.clear();
    position_ = 0;
    absl::Status status = store_->ScanIndex(shard_, filter_->topic, storage::IndexKind::kUserKey,
                                            {filter_->key_prefix, after_}, kNamesPerRead, &names_);
    if (!status.ok()) return status;
    if (names_.size() < kNamesPerRead) done_ = true;
    if (!names_.empty()) after_ = names_.back().name;
    return absl::OkStatus();
  }
  bool ready() const { return position_ < names_.size(); }
  const storage::IndexRef& front() const { return names_[position_]; }
  void Pop() { ++position_; }
  uint16_t shard() const { return shard_; }

 private:
  MessageStore* store_;
  uint16_t shard_;
  const MessageFilter* filter_;
  std::string after_;
  std::vector<storage::IndexRef> names_;
  size_t position_ = 0;
  bool done_ = false;
};

// Finds the message of an id at its current place. Returns no record if the message is not pending.
absl::Status FindRecord(MessageStore* store, uint16_t shard, const storage::MessageId& id,
                        MessageKey* key, std::optional<std::string>* record) {
  *key = {.due_ms = id.due_ms(), .id = id};
  auto found = store->Get(shard, *key);
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    const auto locator = store->GetLocator(shard, id);
    if (!locator.ok()) return locator.status();
    if (!locator->has_value() || (*locator)->tombstone.has_value()) return absl::OkStatus();
    key->due_ms = (*locator)->due_ms;
    found = store->Get(shard, *key);
    if (!found.ok()) return found.status();
  }
  *record = *std::move(found);
  return absl::OkStatus();
}

// Adds the message of an id to the page if it matches the filter. Adds the size of its record to
// `bytes_read`.
absl::Status AddById(MessageStore* store, const MessageFilter& filter, uint16_t shard,
                     const storage::MessageId& id, size_t* bytes_read, ListPage* page) {
  MessageKey key;
  std::optional<std::string> bytes;
  absl::Status status = FindRecord(store, shard, id, &key, &bytes);
  // As in ReadOn: Get reports the damage.
  if (storage::IsDamage(status)) return absl::OkStatus();
  if (!status.ok() || !bytes.has_value()) return status;
  *bytes_read += bytes->size();
  if (key.due_ms < filter.from_ms || key.due_ms >= filter.until_ms) return absl::OkStatus();
  absl::string_view head;
  storage::MessageRecord record;
  if (!storage::MessageHead(*bytes, &head).ok() ||
      !storage::DecodeMessageHead(head, &record).ok() || record.header.topic != filter.topic ||
      !absl::StartsWith(record.key, filter.key_prefix) || !HasLabels(filter, record)) {
    return absl::OkStatus();
  }
  page->rows.push_back({.shard = shard,
                        .key = key,
                        .bytes = static_cast<uint32_t>(bytes->size()),
                        .head = std::string(head)});
  return absl::OkStatus();
}

// As AddById, for the message of a message key.
absl::Status AddNamed(MessageStore* store, const MessageFilter& filter, uint16_t shard,
                      const storage::IndexRef& name, size_t* bytes_read, ListPage* page) {
  // The message has ended; the store keeps its key for a while.
  if (name.entry.expire_ms != 0) return absl::OkStatus();
  return AddById(store, filter, shard, name.entry.id, bytes_read, page);
}

absl::Status ReadOne(MessageStore* store, const MessageFilter& filter, ListPage* page) {
  size_t bytes_read = 0;
  return AddById(store, filter, storage::ShardOfSlot(filter.id.slot(), store->shard_count()),
                 filter.id, &bytes_read, page);
}

// Adds the whole records to the rows. Rows whose messages have gone since are left out.
absl::Status AddWhole(MessageStore* store, const MessageFilter& filter, const ListBudget& budget,
                      ListPage* page) {
  std::vector<ListRow> rows = std::exchange(page->rows, {});
  size_t bytes = 0;
  std::string last_key;
  for (ListRow& row : rows) {
    bytes += row.bytes;
    if (bytes > budget.whole_bytes && bytes > row.bytes) {
      page->next = filter.key_prefix.empty() ? ListPosition{.place = row.key, .key = ""}
                                             : ListPosition{.place = {}, .key = last_key};
      break;
    }
    storage::MessageRecord record;
    DT_CHECK(storage::DecodeMessageHead(row.head, &record).ok());  // the filter has read it
    last_key = std::string(record.key);
    auto whole = store->Get(row.shard, row.key);
    if (!whole.ok() && !storage::IsDamage(whole.status())) return whole.status();
    if (whole.ok() && !whole->has_value()) continue;
    if (whole.ok()) row.whole = **std::move(whole);
    page->rows.push_back(std::move(row));
  }
  return absl::OkStatus();
}

absl::Status ReadByKey(MessageStore* store, const MessageFilter& filter, const ListPosition& from,
                       const ListBudget& budget, ListPage* page) {
  std::vector<NameCursor> cursors;
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    cursors.emplace_back(store, shard, &filter, from.key);
  }
  size_t looks = 0;
  size_t bytes_read = 0;
  std::string last = from.key;
  for (;;) {
    NameCursor* first = nullptr;
    for (NameCursor& cursor : cursors) {
      if (absl::Status status = cursor.Fill(); !status.ok()) return status;
      if (!cursor.ready()) continue;
      if (first == nullptr || cursor.front().name < first->front().name) first = &cursor;
    }
    if (first == nullptr) return absl::OkStatus();
    if (page->rows.size() >= budget.rows || looks >= std::max<size_t>(budget.looks, 1) ||
        bytes_read >= budget.record_bytes) {
      page->next = ListPosition{.place = {}, .key = last};
      return absl::OkStatus();
    }
    ++looks;
    absl::Status status =
        AddNamed(store, filter, first->shard(), first->front(), &bytes_read, page);
    if (!status.ok()) return status;
    last = first->front().name;
    first->Pop();
  }
}

}  // namespace

namespace {

// The subscriptions among `readers` that have a backlog in the shard.
absl::StatusOr<std::vector<storage::SubscriptionId>> ReadersBehind(
    MessageStore* store, uint16_t shard, const std::vector<storage::SubscriptionId>& readers) {
  const auto owners = store->BacklogSubscriptions(shard);
  if (!owners.ok()) return owners.status();
  std::vector<storage::SubscriptionId> behind;
  for (const storage::SubscriptionId reader : readers) {
    const auto& all = owners->subscriptions;
    if (std::binary_search(all.begin(), all.end(), reader)) behind.push_back(reader);
  }
  return behind;
}

absl::Status ReadAttemptsOf(MessageStore* store, const std::vector<storage::SubscriptionId>& behind,
                            ListRow* row) {
  const auto progress = store->GetProgress(row->shard, row->key);
  if (!progress.ok()) return progress.status();
  for (const auto& [reader, one] : *progress) row->attempts = std::max(row->attempts, one.attempts);
  for (const storage::SubscriptionId reader : behind) {
    MessageKey place = row->key;
    for (const auto& [other, one] : *progress) {
      if (other == reader && one.listed) place.due_ms = one.retry_ms;
    }
    const auto entry = store->GetBacklog(row->shard, reader, place);
    if (!entry.ok()) return entry.status();
    if (entry->has_value()) row->attempts = std::max(row->attempts, (*entry)->attempts);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadAttempts(storage::MessageStore* store, uint64_t now_ms,
                          const std::vector<storage::SubscriptionId>& readers, ListPage* page) {
  std::vector<std::optional<std::vector<storage::SubscriptionId>>> behind(store->shard_count());
  for (ListRow& row : page->rows) {
    if (row.key.due_ms > now_ms) continue;
    auto& of_shard = behind[row.shard];
    if (!of_shard.has_value()) {
      auto read = ReadersBehind(store, row.shard, readers);
      if (!read.ok() && !storage::IsDamage(read.status())) return read.status();
      of_shard = std::move(read).value_or(std::vector<storage::SubscriptionId>());
    }
    const absl::Status status = ReadAttemptsOf(store, *of_shard, &row);
    if (!status.ok() && !storage::IsDamage(status)) return status;
  }
  return absl::OkStatus();
}

size_t AnswerSize(const ListPage& page) {
  size_t bytes = page.rows.size() * sizeof(ListRow);
  for (const ListRow& row : page.rows) bytes += row.head.size() + row.whole.size();
  return bytes;
}

absl::Status ReadListPage(storage::MessageStore* store, const MessageFilter& filter,
                          const ListPosition& from, const ListBudget& budget, ListPage* page) {
  DT_CHECK_GT(budget.rows, 0u);
  page->rows.clear();
  page->next.reset();
  absl::Status status;
  if (filter.id != storage::MessageId{}) {
    status = ReadOne(store, filter, page);
  } else if (filter.key_prefix.empty()) {
    status = ReadByPlace(store, filter, from, budget, page);
  } else {
    status = ReadByKey(store, filter, from, budget, page);
  }
  if (!status.ok() || budget.whole_bytes == 0) return status;
  return AddWhole(store, filter, budget, page);
}

}  // namespace duetime::query
