// SPDX-License-Identifier: Apache-2.0
//
// ListQuery: one page of a topic's pending messages, read from the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/message_store.h"

namespace duetime::query {

// Selects messages. All conditions must hold.
struct MessageFilter {
  storage::TopicId topic{};
  std::string key_prefix;
  std::vector<std::pair<std::string, std::string>> labels;
  // from_ms <= due < until_ms.
  uint64_t from_ms = 0;
  uint64_t until_ms = storage::MessageId::kDueMax + 1;
  // The id of the message. Empty: any.
  storage::MessageId id = {};
};

// The start of a page. With a key_prefix the page starts after `key`, otherwise at `place`.
struct ListPosition {
  storage::MessageKey place;
  std::string key;

  friend bool operator==(const ListPosition&, const ListPosition&) = default;
};

// Limits for the cost of one page. A page ends at the first limit that it reaches.
struct ListBudget {
  size_t rows = 100;
  // The messages (of any topic) or message keys that a page may examine.
  size_t looks = 100'000;
  // The bytes of whole records that a page may read. Only a list by key reads whole records.
  size_t record_bytes = 16 << 20;
  // If greater than 0, the rows have their whole records, and the page ends before the row that
  // would make these larger. A page has at least one row.
  size_t whole_bytes = 0;
};

// A message of the page.
struct ListRow {
  uint16_t shard = 0;
  storage::MessageKey key;
  // Size of the whole record.
  uint32_t bytes = 0;
  // The record up to its payload.
  std::string head;
  // The whole record, if it was asked for and can be read.
  std::string whole{};
  // See ReadAttempts.
  uint32_t attempts = 0;
};

struct ListPage {
  std::vector<ListRow> rows;
  // The start of the next page; nullopt after the last page.
  std::optional<ListPosition> next;
};

// The size of the page in memory, which is mostly the rows' heads.
size_t AnswerSize(const ListPage& page);

// Reads one page over all shards, in the order of places. With a key_prefix it reads in the order
// of keys. With an id it reads that message alone.
//
// A message that stays in the store at one place from the first page to the last is in exactly one
// page. Pages are cut at places (or keys), not at counts, and each page reads everything between
// two cuts. A list by place uses the counters to skip minutes in which the topic has no messages.
// The store writes the counters together with the messages. Errors come from the store.
absl::Status ReadListPage(storage::MessageStore* store, const MessageFilter& filter,
                          const ListPosition& from, const ListBudget& budget, ListPage* page);

// Fills in the attempts of the rows that are due by `now_ms`: the most of any subscription, as far
// as the store knows. Those of messages in memory may be more. `readers` are the subscriptions of
// the topic. Leaves out what is damaged; other errors come from the store.
//
// A message that has failed has a row of progress. One that was given back and then left memory has
// only its entry in the backlog.
absl::Status ReadAttempts(storage::MessageStore* store, uint64_t now_ms,
                          const std::vector<storage::SubscriptionId>& readers, ListPage* page);

}  // namespace duetime::query
