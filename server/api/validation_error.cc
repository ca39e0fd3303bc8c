// SPDX-License-Identifier: Apache-2.0
#include "server/api/validation_error.h"

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/base/name_char.h"

namespace duetime::api {

std::string FieldPath(int index, absl::string_view field) {
  return index == kSingle ? std::string(field) : absl::StrCat("messages[", index, "].", field);
}

absl::Status Invalid(absl::string_view reason, const std::string& field, absl::string_view text,
                     std::vector<std::pair<std::string, std::string>> metadata) {
  metadata.emplace_back("field", field);
  return base::MakeError(absl::StatusCode::kInvalidArgument, absl::StrCat(field, ": ", text),
                         {.reason = std::string(reason),
                          .field = field,
                          .metadata = std::move(metadata),
                          .retry_after_ms = 0});
}

absl::Status OverLimit(absl::string_view reason, const std::string& field, uint64_t value,
                       uint64_t limit, absl::string_view unit) {
  return Invalid(reason, field, absl::StrCat(value, " ", unit, ", limit ", limit),
                 {{"value", absl::StrCat(value)}, {"limit", absl::StrCat(limit)}});
}

absl::Status ValidateName(absl::string_view reason, const std::string& field,
                          absl::string_view name, size_t bytes_max) {
  if (name.empty()) return Invalid(reason, field, "required");
  if (name.size() > bytes_max) return OverLimit(reason, field, name.size(), bytes_max, "bytes");
  for (size_t i = 0; i < name.size(); ++i) {
    if (!base::IsNameChar(name[i])) {
      return Invalid(reason, field,
                     absl::StrCat("byte ", i, " is not a letter, a digit or one of . _ - : /"),
                     {{"position", absl::StrCat(i)}});
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateTopic(absl::string_view topic, const std::string& field) {
  return ValidateName("INVALID_TOPIC", field, topic, kTopicBytesMax);
}

absl::Status ValidateKey(absl::string_view key, const std::string& field) {
  if (key.empty()) return Invalid("INVALID_KEY", field, "required");
  if (key.size() > kKeyBytesMax) {
    return OverLimit("INVALID_KEY", field, key.size(), kKeyBytesMax, "bytes");
  }
  return absl::OkStatus();
}

absl::Status KeyNotFoundError(absl::string_view topic, absl::string_view key) {
  return base::MakeError(absl::StatusCode::kNotFound,
                         absl::StrCat("there is no topic ", topic, ", so no such key"),
                         {.reason = "MESSAGE_NOT_FOUND",
                          .field = "key",
                          .metadata = {{"topic", std::string(topic)}, {"key", std::string(key)}},
                          .retry_after_ms = 0});
}

absl::Status DamagedError() {
  return base::MakeError(
      absl::StatusCode::kDataLoss, "bytes on disk that the answer needs are damaged",
      {.reason = "CHECKSUM_MISMATCH", .field = "", .metadata = {}, .retry_after_ms = 0});
}

absl::Status ReadError(const absl::Status& status) {
  if (base::GetErrorDetail(status).has_value()) return status;
  return absl::IsDataLoss(status) ? DamagedError() : base::StorageFailedError();
}

void AddShardError(const absl::Status& error, absl::Status* status) {
  if (status->ok() || !absl::IsNotFound(error)) *status = error;
}

absl::Status WithMetadata(const absl::Status& status, absl::string_view key,
                          absl::string_view value) {
  auto detail = base::GetErrorDetail(status);
  if (!detail.has_value()) return status;
  detail->metadata.emplace_back(std::string(key), std::string(value));
  return base::MakeError(status.code(), status.message(), *detail);
}

}  // namespace duetime::api
