// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/dead_letter.h"

#include <utility>

#include "absl/status/status.h"

#include "server/base/check.h"

namespace duetime::delivery {
namespace {

// A new message with the attributes, labels, ordering key and payload of `from`. The key and the
// times of `from` are left out.
storage::MessageRecord ContentOf(storage::MessageRecord from, storage::TopicId topic,
                                 uint64_t now_ms) {
  storage::MessageRecord record;
  record.header = {.topic = topic, .deliver_ms = now_ms, .accept_ms = now_ms};
  record.attributes = std::move(from.attributes);
  record.labels = std::move(from.labels);
  record.ordering_key = from.ordering_key;
  record.payload = from.payload;
  return record;
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
  origin.hops = message.dead_letter.has_value() ? message.dead_letter->hops + 1 : 1;
  if (origin.hops > kDeadLetterHopsMax) {
    return absl::FailedPreconditionError("the message has been in too many dead-letter topics");
  }
  origin.origin_topic = message.header.topic;
  origin.key = message.key;
  origin.deliver_ms = message.header.deliver_ms;
  origin.accept_ms = message.header.accept_ms;
  origin.ttl_ms = message.ttl_ms;
  origin.late_policy = message.late_policy;
  storage::MessageRecord letter = ContentOf(std::move(message), dead_letter_topic, now_ms);
  letter.dead_letter = origin;
  return storage::EncodeMessageRecord(letter);
}

absl::StatusOr<std::string> MakeRedriven(absl::string_view record, storage::TopicId topic,
                                         uint64_t now_ms, bool keep_key) {
  DT_CHECK(topic != storage::TopicId{});
  storage::MessageRecord message;
  if (absl::Status status = storage::DecodeMessageRecord(record, &message); !status.ok()) {
    return status;
  }
  if (!message.dead_letter.has_value()) {
    return absl::FailedPreconditionError("the message is no dead letter");
  }
  const storage::DeadLetterOrigin origin = *message.dead_letter;
  storage::MessageRecord again = ContentOf(std::move(message), topic, now_ms);
  again.ttl_ms = origin.ttl_ms;
  again.late_policy = origin.late_policy;
  if (keep_key) again.key = origin.key;
  return storage::EncodeMessageRecord(again);
}

}  // namespace duetime::delivery
