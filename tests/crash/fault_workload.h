// SPDX-License-Identifier: Apache-2.0
//
// A fixed workload for disk_faults_test: appends with numbers from 1 on, and what a store holds
// after the first so many of them.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/message_store.h"
#include "tests/support/test_store.h"

namespace duetime::test {

constexpr storage::SubscriptionId kSubscription{1};
constexpr uint64_t kNoLimit = uint64_t{1} << 43;

inline storage::MessageKey FaultKey(uint64_t number) {
  const uint64_t due_ms = number * 60'000;
  return {due_ms, storage::MessageId::Make(1, number, 0, due_ms)};
}

// Some payloads are large, so that the store switches to a new log. Noise, so that tables do not
// shrink.
inline std::string FaultMessage(uint64_t number) {
  std::mt19937_64 random(number);
  std::string payload(number % 4 == 0 ? 15'000 : 100, '\0');
  for (char& c : payload) c = static_cast<char>(random());
  const storage::TopicId topic{static_cast<uint32_t>(1 + number % 2)};
  return storage::EncodeMessageRecord({.header = {topic, number, number}, .payload = payload});
}

inline storage::Record FaultRecord(storage::RecordType type, uint64_t number) {
  storage::Record record;
  record.type = type;
  record.topic = storage::TopicId{static_cast<uint32_t>(1 + number % 2)};
  record.key = FaultKey(number);
  record.subscription = kSubscription;
  record.mark_ms = number;
  return record;
}

// Cancels the message of two appends ago.
inline void AddCancel(uint64_t number, storage::RecordBatch* batch) {
  storage::Record erase = FaultRecord(storage::RecordType::kErase, number - 2);
  erase.bytes = static_cast<uint32_t>(FaultMessage(number - 2).size());
  batch->push_back(std::move(erase));
  storage::Record locator = FaultRecord(storage::RecordType::kLocator, number - 2);
  locator.value = storage::EncodeLocator({.due_ms = number * 60'000, .tombstone = std::nullopt});
  batch->push_back(std::move(locator));
}

// What append `number` writes: an accepted message with its key, mostly a delivery that began or
// ended, sometimes a cancel; and the number itself as the claim.
inline storage::RecordBatch FaultBatch(uint64_t number) {
  using enum storage::RecordType;
  storage::RecordBatch batch = {FaultRecord(kAccept, number)};
  batch.back().value = FaultMessage(number);
  const std::string name = absl::StrCat("name-", 1000 + number);
  storage::Record index = FaultRecord(kIndex, number);
  index.topic = storage::TopicId{1};
  index.kind = static_cast<uint8_t>(storage::IndexKind::kUserKey);
  index.name = name;
  index.value = storage::EncodeIndexEntry({.id = FaultKey(number).id, .content = {}});
  batch.push_back(std::move(index));
  if (number % 3 == 0) AddCancel(number, &batch);
  if (number % 4 == 1) {
    batch.push_back(FaultRecord(kSpill, number));
    batch.back().backlog = {.attempts = 1, .bytes = 9};
    batch.push_back(FaultRecord(kBacklogClaim, number));
  }
  if (number % 4 == 3 && number > 4) batch.push_back(FaultRecord(kUnspill, number - 6));
  batch.push_back(FaultRecord(kProgress, number));
  batch.back().progress = {.attempts = 1, .retry_ms = number};
  if (number > 3) batch.push_back(FaultRecord(kUnprogress, number - 3));
  storage::Record object = FaultRecord(number % 5 == 4 ? kUnobject : kObject, number);
  object.kind = static_cast<uint8_t>(storage::ObjectKind::kOperation);
  object.name = absl::StrCat("operation-", number % 5 == 4 ? number - 2 : number);
  object.value = name;
  batch.push_back(std::move(object));
  batch.push_back(FaultRecord(kTopic, number));
  batch.back().topic = storage::TopicId{static_cast<uint32_t>(number)};
  batch.back().value = name;
  batch.push_back(FaultRecord(kClaim, number));
  batch.push_back(FaultRecord(kLowWatermark, number));
  return batch;
}

// The messages, with their counters.
inline absl::Status DescribeMessages(storage::MessageStore* store, std::string* text) {
  storage::Page<storage::MessageRef> page;
  page.next = storage::MessageKey{};
  while (page.next.has_value()) {
    const storage::MessageKey from = *page.next;
    absl::Status status = store->Scan(0, from, storage::MessageKey::FirstAt(kNoLimit), {}, &page);
    if (!status.ok()) return status;
    if (page.damaged) return absl::DataLossError("a scan went around damage");
    for (const storage::MessageRef& ref : page.items) {
      const auto value = store->Get(0, ref.key);
      if (!value.ok()) return value.status();
      absl::StrAppend(text, "message ", ref.key.id.ToString(), value->value_or("absent"), "\n");
    }
  }
  for (const storage::TopicId topic : {storage::TopicId{1}, storage::TopicId{2}}) {
    for (const storage::CountLevel level : storage::kCountLevels) {
      std::vector<storage::BucketCount> counts;
      absl::Status status = store->ScanCounts(0, topic, level, {0, kNoLimit}, 10'000, &counts);
      if (!status.ok()) return status;
      for (const storage::BucketCount& count : counts) {
        absl::StrAppend(text, "count ", count.start_ms, " ", count.messages, " ", count.bytes,
                        "\n");
      }
    }
  }
  return absl::OkStatus();
}

// What subscriptions did with the messages up to `number`.
inline absl::Status DescribeDeliveries(storage::MessageStore* store, uint64_t number,
                                       std::string* text) {
  storage::Page<storage::BacklogRef> page;
  absl::Status status = store->ScanBacklog(0, kSubscription, {}, {}, &page);
  if (!status.ok()) return status;
  for (const storage::BacklogRef& ref : page.items) {
    absl::StrAppend(text, "backlog ", ref.key.due_ms, " ", ref.entry.attempts, "\n");
  }
  const auto claim = store->BacklogClaim(0, kSubscription);
  if (!claim.ok()) return claim.status();
  if (claim->has_value()) absl::StrAppend(text, "backlog claim ", (*claim)->due_ms, "\n");
  for (uint64_t i = 1; i <= number; ++i) {
    const auto progress = store->GetProgress(0, FaultKey(i));
    if (!progress.ok()) return progress.status();
    for (const auto& [subscription, done] : *progress) {
      absl::StrAppend(text, "progress ", i, " ", done.retry_ms, "\n");
    }
    const auto locator = store->GetLocator(0, FaultKey(i).id);
    if (!locator.ok()) return locator.status();
    if (locator->has_value()) absl::StrAppend(text, "locator ", (*locator)->due_ms, "\n");
  }
  return status;
}

// All that a reader of the store can see, if it holds the first `number` appends.
inline absl::StatusOr<std::string> Describe(storage::MessageStore* store, uint64_t number) {
  std::string text;
  absl::Status status = DescribeMessages(store, &text);
  status.Update(DescribeDeliveries(store, number + 1, &text));
  std::vector<storage::IndexRef> entries;
  status.Update(store->ScanIndex(0, storage::TopicId{1}, storage::IndexKind::kUserKey, {"", ""},
                                 10'000, &entries));
  for (const storage::IndexRef& ref : entries) {
    absl::StrAppend(&text, "index ", ref.name, " ", ref.entry.id.ToString(), "\n");
  }
  std::vector<storage::ObjectRef> objects;
  status.Update(store->ScanObjects(storage::ObjectKind::kOperation, 0, "", 10'000, &objects));
  for (const storage::ObjectRef& object : objects) {
    absl::StrAppend(&text, "object ", object.name, " ", object.value, "\n");
  }
  const auto topics = store->Topics();
  const auto marks = store->Marks(0);
  status.Update(topics.status());
  status.Update(marks.status());
  if (!status.ok()) return status;
  for (const auto& [id, name] : *topics) {
    absl::StrAppend(&text, "topic ", static_cast<uint32_t>(id), " ", name, "\n");
  }
  absl::StrAppend(&text, "marks ", marks->claim_ms, " ", marks->low_watermark_ms, "\n");
  return text;
}

// Returns what is wrong with the store, which must hold the first appends, at least `from` and at
// most `to` of them. Sets `*number` to how many they are. An error if the store cannot be read.
inline absl::StatusOr<std::string> Complaint(storage::MessageStore* store, uint64_t from,
                                             uint64_t to, uint64_t* number) {
  const auto marks = store->Marks(0);
  if (!marks.ok()) return marks.status();
  *number = marks->claim_ms;
  if (*number < from || *number > to) {
    return absl::StrCat("holds ", *number, " appends; at least ", from, " must be there, and ", to,
                        " were begun");
  }
  test::TestDisk disk(1);
  test::TestStore model(&disk);
  for (uint64_t i = 1; i <= *number; ++i) {
    const std::vector<storage::RecordBatch> group = {FaultBatch(i)};
    (void)model.Append(group, storage::Durability::kSynced);
  }
  const auto expected = Describe(&model, *number);
  const auto found = Describe(store, *number);
  if (!found.ok()) return found.status();
  if (*found == *expected) return std::string();
  return absl::StrCat("does not hold the first ", *number, " appends: ", found->size(), " and ",
                      expected->size(), " bytes");
}

}  // namespace duetime::test
