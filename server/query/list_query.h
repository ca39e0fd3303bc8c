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

// Which messages. All conditions must hold.
struct MessageFilter {
  storage::TopicId topic{};
  std::string key_prefix;
  std::vector<std::pair<std::string, std::string>> labels;
  // from_ms <= due < until_ms.
  uint64_t from_ms = 0;
  uint64_t until_ms = storage::MessageId::kDueMax + 1;
};

// The start of a page: with a key_prefix, after this key; otherwise, from this place on.
struct ListPosition {
  storage::MessageKey place;
  std::string key;

  friend bool operator==(const ListPosition&, const ListPosition&) = default;
};

// How much one page may cost. A page ends when one of them is used up.
struct ListBudget {
  size_t rows = 100;
  // The messages and names that a page may examine, of any topic.
  size_t looks = 100'000;
  // Bytes of records that are read whole, which a list by key has to do.
  size_t record_bytes = 16 << 20;
};

// A message of the page.
struct ListRow {
  uint16_t shard = 0;
  storage::MessageKey key;
  // Size of the whole record.
  uint32_t bytes = 0;
  // The record up to its payload.
  std::string head;
};

struct ListPage {
  std::vector<ListRow> rows;
  // The start of the next page; nullopt after the last page.
  std::optional<ListPosition> next;
};

// Reads one page, over all shards: in the order of place, or, with a key_prefix, of keys.
//
// Every message that is in the store from the first page to the last, at one place, is in exactly
// one page: pages are cut at places (or keys) and not at counts, and each page reads everything
// between two cuts. A list by place reads the counters to skip stretches of time in which the topic
// has no messages; the counters are written with the messages. An error is one of the store.
absl::Status ReadListPage(storage::MessageStore* store, const MessageFilter& filter,
                          const ListPosition& from, const ListBudget& budget, ListPage* page);

}  // namespace duetime::query
