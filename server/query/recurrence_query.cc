// SPDX-License-Identifier: Apache-2.0
#include "server/query/recurrence_query.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "server/base/error.h"

namespace duetime::query {
namespace {

using storage::ObjectKind;

constexpr size_t kObjectLooksMax = 10'000;
constexpr size_t kPageBytesMax = 16 << 20;

// Iterates over the recurrences of all shards in the order of their names. Reads only a few of each
// shard at a time, because their templates may be large.
class MergedScan {
 public:
  MergedScan(storage::MessageStore* store, std::string after)
      : store_(store),
        per_read_(std::max<size_t>(1, kReadAhead / store->shard_count())),
        parts_(store->shard_count(), Part{.after = std::move(after), .objects = {}}) {}

  // Removes and returns the next recurrence. nullopt after the last one.
  absl::StatusOr<std::optional<storage::ObjectRef>> Next() {
    Part* first = nullptr;
    for (uint16_t shard = 0; shard < store_->shard_count(); ++shard) {
      Part& part = parts_[shard];
      if (part.objects.empty() && !part.ended) {
        if (absl::Status status = Read(shard, &part); !status.ok()) return status;
      }
      if (part.objects.empty()) continue;
      if (first == nullptr || part.objects.front().name < first->objects.front().name) {
        first = &part;
      }
    }
    if (first == nullptr) return std::nullopt;
    storage::ObjectRef next = std::move(first->objects.front());
    first->objects.pop_front();
    return next;
  }

 private:
  // The number of objects read ahead, over all shards.
  static constexpr size_t kReadAhead = 64;

  struct Part {
    std::string after;
    std::deque<storage::ObjectRef> objects;
    bool ended = false;
  };

  absl::Status Read(uint16_t shard, Part* part) {
    std::vector<storage::ObjectRef> read;
    absl::Status status =
        store_->ScanObjects(ObjectKind::kRecurrence, shard, part->after, per_read_, &read);
    if (!status.ok()) return status;
    part->ended = read.size() < per_read_;
    if (read.empty()) return status;
    part->after = read.back().name;
    std::move(read.begin(), read.end(), std::back_inserter(part->objects));
    return status;
  }

  storage::MessageStore* const store_;
  const size_t per_read_;
  std::vector<Part> parts_;
};

}  // namespace

absl::StatusOr<protocol::RecurrenceState> ReadRecurrence(storage::MessageStore* store,
                                                         uint16_t shard, const std::string& name) {
  const auto object = store->GetObject(ObjectKind::kRecurrence, shard, name);
  if (!object.ok()) return object.status();
  if (!object->has_value()) return protocol::RecurrenceNotFoundError(name);
  return protocol::DecodeRecurrence(name, **object);
}

size_t AnswerSize(const RecurrencePage& page) {
  size_t bytes = 0;
  for (const protocol::RecurrenceState& state : page.recurrences) bytes += AnswerSize(state);
  return bytes;
}

absl::StatusOr<RecurrencePage> ReadRecurrences(storage::MessageStore* store,
                                               std::optional<storage::TopicId> topic,
                                               std::string after, size_t rows) {
  RecurrencePage page;
  MergedScan scan(store, after);
  size_t looks = 0;
  size_t bytes = 0;
  for (;;) {
    absl::StatusOr<std::optional<storage::ObjectRef>> next = scan.Next();
    if (!next.ok()) return next.status();
    if (!next->has_value()) return page;
    const storage::ObjectRef& object = **next;
    if (page.recurrences.size() >= rows || looks >= kObjectLooksMax || bytes >= kPageBytesMax) {
      page.next = after;
      return page;
    }
    ++looks;
    bytes += object.value.size();
    after = object.name;
    auto recurrence = protocol::DecodeRecurrence(object.name, object.value);
    if (!recurrence.ok()) return recurrence.status();
    if (topic.has_value() && recurrence->spec.topic != *topic) continue;
    page.recurrences.push_back(*std::move(recurrence));
  }
}

}  // namespace duetime::query
