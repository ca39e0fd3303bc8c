// SPDX-License-Identifier: Apache-2.0
//
// What a message becomes when it is given up, and what becomes of it when it is sent back: records
// made from records. Pure functions; who writes them, with the end of what they stand for in the
// same batch, is somebody else's business.
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
// deliver_ms and accept_ms are set from the record. Nothing else of the message goes along: a dead
// letter has no user key, does not expire, and is no occurrence.
//
// If the message is a dead letter itself, its own origin is replaced: a dead letter knows the last
// place it comes from, and no more. DATA_LOSS if the record is damaged.
// REQUIRES: the texts of `origin` are shorter than 64 KiB.
absl::StatusOr<std::string> MakeDeadLetter(absl::string_view record,
                                           storage::TopicId dead_letter_topic, uint64_t now_ms,
                                           storage::DeadLetterOrigin origin);

// A message that was a dead letter.
struct Redriven {
  // Where it comes from and now goes; the name as it was then.
  storage::TopicId topic{};
  std::string topic_name;
  // EncodeMessageRecord's bytes.
  std::string record;
};

// Makes a plain message of the origin's topic again, accepted and due at `now_ms`: with payload,
// attributes, labels and ordering key, and without the key that it had, which may be another
// message's by now. FAILED_PRECONDITION if the record is not a dead letter's, DATA_LOSS if it is
// damaged.
absl::StatusOr<Redriven> MakeRedriven(absl::string_view record, uint64_t now_ms);

}  // namespace duetime::delivery
