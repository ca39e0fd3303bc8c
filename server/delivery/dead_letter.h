// SPDX-License-Identifier: Apache-2.0
//
// Makes the record of a dead letter from that of a message, and the record of a message from that
// of a dead letter. Pure functions. The caller writes the new record in the batch that ends the old
// message.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/message_record.h"
#include "storage/types.h"

namespace duetime::delivery {

// The record of the dead letter that stands for the message of `record`: a message of
// `dead_letter_topic`, accepted and due at `now_ms`, with the same payload, attributes, labels and
// ordering key (so that it can be given back), and with `origin`, of which origin_topic, key,
// deliver_ms and accept_ms are set from the record. The dead letter has no user key, does not
// expire, and is no occurrence.
//
// If the message is a dead letter itself, its own origin is replaced: a dead letter records its
// last origin only. DATA_LOSS if the record is damaged. REQUIRES: the texts of `origin` are shorter
// than 64 KiB.
absl::StatusOr<std::string> MakeDeadLetter(absl::string_view record,
                                           storage::TopicId dead_letter_topic, uint64_t now_ms,
                                           storage::DeadLetterOrigin origin);

// A message made from a dead letter.
struct Redriven {
  // The topic of the origin, which receives the message, and the name that the topic had.
  storage::TopicId topic{};
  std::string topic_name;
  // EncodeMessageRecord's bytes.
  std::string record;
};

// Makes a plain message of the origin's topic again, accepted and due at `now_ms`: with payload,
// attributes, labels and ordering key, and without its former key, because another message may have
// that key by now. FAILED_PRECONDITION if the record is not a dead letter's, DATA_LOSS if it is
// damaged.
absl::StatusOr<Redriven> MakeRedriven(absl::string_view record, uint64_t now_ms);

}  // namespace duetime::delivery
