// SPDX-License-Identifier: Apache-2.0
//
// Makes a dead letter's record from a message's record, and a message's record from a dead
// letter's. Pure functions. The caller writes the new record in the batch that ends the old
// message.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/message_record.h"
#include "storage/types.h"

namespace duetime::delivery {

// The most dead-letter topics that a message may pass through. Settings that let dead letters
// circle are refused, but settings of an older version may be there, and a long chain is no use.
inline constexpr uint32_t kDeadLetterHopsMax = 16;

// Makes a dead letter's record from the message's `record`. The dead letter belongs to
// `dead_letter_topic` and is accepted and due at `now_ms`. It keeps payload, attributes, labels and
// ordering key, so that it can be redriven. It has no user key, does not expire, and is no
// occurrence. It carries `origin`, in which origin_topic, key, deliver_ms, accept_ms, ttl_ms and
// late_policy are set from the record.
//
// If the message is a dead letter itself, its own origin is replaced: a dead letter records its
// last origin only, and how many came before. FAILED_PRECONDITION if it has been in
// kDeadLetterHopsMax dead-letter topics; DATA_LOSS if the record is damaged. REQUIRES: the texts of
// `origin` are shorter than 64 KiB.
absl::StatusOr<std::string> MakeDeadLetter(absl::string_view record,
                                           storage::TopicId dead_letter_topic, uint64_t now_ms,
                                           storage::DeadLetterOrigin origin);

// Makes a message's record from a dead letter's, accepted and due at `now_ms`. The message belongs
// to `topic`: the number that the origin's name has now. The number in the origin may belong to
// another topic. The message has the payload, attributes, labels and ordering key, and the time to
// live and late policy of the origin. With `keep_key` it also has the key of the origin: the caller
// knows that no other message has it. FAILED_PRECONDITION if the record is not a dead letter's,
// DATA_LOSS if it is damaged.
absl::StatusOr<std::string> MakeRedriven(absl::string_view record, storage::TopicId topic,
                                         uint64_t now_ms, bool keep_key);

}  // namespace duetime::delivery
