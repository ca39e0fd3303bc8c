// SPDX-License-Identifier: Apache-2.0
//
// How requests are refused: what all validation shares. Nothing that the client sent is echoed.
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

// Where a message stands in its request: kSingle, or its index in a batch, for the path of a bad
// field.
inline constexpr int kSingle = -1;

// "messages[3].topic", or "topic" for kSingle.
std::string FieldPath(int index, absl::string_view field);

// An INVALID_ARGUMENT for a field: "<field>: <text>".
absl::Status Invalid(absl::string_view reason, const std::string& field, absl::string_view text,
                     std::vector<std::pair<std::string, std::string>> metadata = {});

// "<field>: <value> <unit>, limit <limit>".
absl::Status OverLimit(absl::string_view reason, const std::string& field, uint64_t value,
                       uint64_t limit, absl::string_view unit);

// True for letters, digits and . _ - : /
bool IsNameChar(char c);

// OK for 1 to `bytes_max` such characters.
absl::Status ValidateName(absl::string_view reason, const std::string& field,
                          absl::string_view name, size_t bytes_max);

// INVALID_TOPIC.
absl::Status ValidateTopic(absl::string_view topic, const std::string& field);

// INVALID_KEY: not 1-255 bytes. (That it is UTF-8 was checked when the request was parsed.)
absl::Status ValidateKey(absl::string_view key, const std::string& field);

// ---- Errors that more than one call makes

// NOT_FOUND MESSAGE_NOT_FOUND, for a key in a topic that does not exist.
absl::Status KeyNotFoundError(absl::string_view topic, absl::string_view key);
// DATA_LOSS CHECKSUM_MISMATCH.
absl::Status DamagedError();

// What a read beside the engines tells the client: damaged bytes are DATA_LOSS CHECKSUM_MISMATCH,
// any other failure of the store is UNAVAILABLE STORAGE_FAILED; an error that was made for clients
// stays as it is.
absl::Status ReadError(const absl::Status& status);

// `status` with one more pair in its metadata, if it is an error made by MakeError.
absl::Status WithMetadata(const absl::Status& status, absl::string_view key,
                          absl::string_view value);

}  // namespace duetime::api
