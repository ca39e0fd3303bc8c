// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/dead_letter.h"

#include <utility>

#include "absl/status/status.h"

#include "server/base/check.h"

namespace duetime::delivery {
namespace {

// Encodes a new message with the attributes, labels, ordering key and payload of `from`. The key
// and the times of `from` are left out.
std::string EncodeContent(storage::MessageRecord from, storage::TopicId topic, uint64_t now_ms,
                          const storage::DeadLetterOrigin* origin) {
  storage::MessageRecord record;
  record.header = {.topic = topic, .deliver_ms = now_ms, .accept_ms = now_ms};
  record.attributes = std::move(from.attributes);
  record.labels = std::move(from.labels);
  record.ordering_key = from.ordering_key;
  record.payload = from.payload;
  if (origin != nullptr) record.dead_letter = *origin;
  return storage::EncodeMessageRecord(record);
}

}  // namespace

absl::StatusOr<std::string> MakeDeadLetter(absl::string_view record,
                                           storage::TopicId dead_letter_topic, uint64_t now_ms,
                                           storage::DeadLetterOrigin origin) {
  DT_CHECK(dead_letter_topic != storage::TopicId{});
  storage::MessageRecord message;
  if (absl::Status status = storage::DecodeMessageRecord(record, &message); !status.ok()) {
    return status;
  }
  origin.origin_topic = message.header.topic;
  origin.key = message.key;
  origin.deliver_ms = message.header.deliver_ms;
  origin.accept_ms = message.header.accept_ms;
  return EncodeContent(std::move(message), dead_letter_topic, now_ms, &origin);
}

absl::StatusOr<Redriven> MakeRedriven(absl::string_view record, uint64_t now_ms) {
  storage::MessageRecord message;
  if (absl::Status status = storage::DecodeMessageRecord(record, &message); !status.ok()) {
    return status;
  }
  if (!message.dead_letter.has_value()) {
    return absl::FailedPreconditionError("the message is no dead letter");
  }
  const storage::TopicId topic = message.dead_letter->origin_topic;
  std::string name(message.dead_letter->topic_name);
  return Redriven{.topic = topic,
                  .topic_name = std::move(name),
                  .record = EncodeContent(std::move(message), topic, now_ms, nullptr)};
}

}  // namespace duetime::delivery
