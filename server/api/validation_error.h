// SPDX-License-Identifier: Apache-2.0
//
// Errors and checks that all validation shares. A validation error echoes no text of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/catalog/catalog_errors.h"
#include "server/catalog/topic.h"

namespace duetime::api {

using catalog::kTopicBytesMax;
using catalog::SubscriptionNotFoundError;
using catalog::TopicNotFoundError;
inline constexpr size_t kKeyBytesMax = 255;

// The position of a message in its request, for the path of a bad field: kSingle, or the index in a
// batch.
inline constexpr int kSingle = -1;

// "messages[3].topic", or "topic" for kSingle.
std::string FieldPath(int index, absl::string_view field);

// An INVALID_ARGUMENT for a field: "<field>: <text>".
absl::Status Invalid(absl::string_view reason, const std::string& field, absl::string_view text,
                     std::vector<std::pair<std::string, std::string>> metadata = {});

// "<field>: <value> <unit>, limit <limit>".
absl::Status OverLimit(absl::string_view reason, const std::string& field, uint64_t value,
                       uint64_t limit, absl::string_view unit);
// OK for 1 to `bytes_max` bytes that base::IsNameChar accepts.
absl::Status ValidateName(absl::string_view reason, const std::string& field,
                          absl::string_view name, size_t bytes_max);

// INVALID_TOPIC.
absl::Status ValidateTopic(absl::string_view topic, const std::string& field);

// INVALID_KEY: not 1-255 bytes. (The parser has checked that it is UTF-8.)
absl::Status ValidateKey(absl::string_view key, const std::string& field);

// ---- Errors that more than one call makes

// NOT_FOUND MESSAGE_NOT_FOUND, for a key in a topic that does not exist.
absl::Status KeyNotFoundError(absl::string_view topic, absl::string_view key);
// DATA_LOSS CHECKSUM_MISMATCH.
absl::Status DamagedError();

// Turns an error of a read of the store into an error for clients. Damaged bytes become DATA_LOSS
// CHECKSUM_MISMATCH, any other failure of the store becomes UNAVAILABLE STORAGE_FAILED. An error
// that MakeError made stays as it is.
absl::Status ReadError(const absl::Status& status);

// Adds the error of one shard to the status of a call to several shards. NOT_FOUND does not replace
// another error: the shard that returned the other error may hold the object.
void AddShardError(const absl::Status& error, absl::Status* status);

// `status` with one more pair in its metadata, if it is an error made by MakeError.
absl::Status WithMetadata(const absl::Status& status, absl::string_view key,
                          absl::string_view value);

}  // namespace duetime::api
