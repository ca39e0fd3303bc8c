// SPDX-License-Identifier: Apache-2.0
//
// Records of numbered messages, for tests of a store on disk.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/message_store.h"
#include "storage/types.h"

namespace duetime::test {

inline constexpr uint64_t kStep = 60'000;
inline constexpr storage::SubscriptionId kReader{1};

// Message `number` is due in its own minute.
inline storage::MessageKey KeyOf(uint64_t number) {
  const uint64_t due_ms = number * kStep;
  return {due_ms, storage::MessageId::Make(1, number, 0, due_ms)};
}

inline storage::TopicId TopicOf(uint64_t number) {
  return storage::TopicId{static_cast<uint32_t>(1 + number % 2)};
}

inline std::string NameOf(uint64_t number) { return "key-" + std::to_string(100'000 + number); }

inline std::string RecordOf(uint64_t number) {
  // Noise, so that blocks do not shrink.
  std::mt19937_64 random(number);
  std::string payload(100, '\0');
  for (char& c : payload) c = static_cast<char>(random());
  return storage::EncodeMessageRecord(
      {.header = {TopicOf(number), number, number}, .payload = payload});
}

inline storage::Record Make(storage::RecordType type, uint64_t number) {
  storage::Record record;
  record.type = type;
  record.topic = TopicOf(number);
  record.key = KeyOf(number);
  record.subscription = kReader;
  return record;
}

inline storage::Record Accept(uint64_t number) {
  storage::Record record = Make(storage::RecordType::kAccept, number);
  record.value = RecordOf(number);
  return record;
}

// A record in each family.
inline storage::RecordBatch BatchOf(uint64_t number) {
  storage::RecordBatch batch = {Accept(number)};
  batch.push_back(Make(storage::RecordType::kSpill, number));
  batch.back().backlog = {.attempts = 1, .bytes = 9};
  batch.push_back(Make(storage::RecordType::kProgress, number));
  batch.back().progress = {.attempts = 2, .retry_ms = number};
  batch.push_back(Make(storage::RecordType::kIndex, number));
  batch.back().topic = storage::TopicId{1};
  batch.back().kind = static_cast<uint8_t>(storage::IndexKind::kUserKey);
  batch.back().name = NameOf(number);
  storage::IndexEntry entry;
  entry.id = KeyOf(number).id;
  batch.back().value = storage::EncodeIndexEntry(entry);
  batch.push_back(Make(storage::RecordType::kLocator, number));
  batch.back().value =
      storage::EncodeLocator({.due_ms = KeyOf(number).due_ms, .tombstone = std::nullopt});
  batch.push_back(Make(storage::RecordType::kObject, number));
  batch.back().kind = static_cast<uint8_t>(storage::ObjectKind::kRecurrence);
  batch.back().name = NameOf(number);
  batch.back().value = RecordOf(number);
  batch.push_back(Make(storage::RecordType::kTopic, number));
  batch.back().topic = storage::TopicId{static_cast<uint32_t>(number)};
  batch.back().value = NameOf(number);
  return batch;
}

}  // namespace duetime::test
