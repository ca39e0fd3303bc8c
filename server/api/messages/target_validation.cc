// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/target_validation.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/api/validation_error.h"

namespace duetime::api {
namespace {

std::string Path(int index, absl::string_view field) {
  return index == kSingle ? std::string(field) : absl::StrCat("cancels[", index, "].", field);
}

// All requests that name a message have the same fields for it.
template <typename Request>
absl::Status Validate(const Request& request, int index, ValidTarget* target) {
  *target = {};
  switch (request.target_case()) {
    case Request::TARGET_NOT_SET:
      return Invalid("TARGET_MISSING", Path(index, "message_id"),
                     "required: exactly one of message_id and key");
    case Request::kMessageId: {
      const auto id = storage::MessageId::Parse(request.message_id());
      if (!id.has_value()) {
        return Invalid("INVALID_MESSAGE_ID", Path(index, "message_id"),
                       "not an id that a server gives (26 characters of lower-case base32)");
      }
      target->id = *id;
      return absl::OkStatus();
    }
    case Request::kKey:
      target->topic = request.key().topic();
      target->key = request.key().key();
      if (absl::Status status = ValidateTopic(target->topic, Path(index, "key.topic"));
          !status.ok()) {
        return status;
      }
      return ValidateKey(target->key, Path(index, "key.key"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTarget(const v1::CancelRequest& request, int index, ValidTarget* target) {
  return Validate(request, index, target);
}
absl::Status ValidateTarget(const v1::RescheduleRequest& request, ValidTarget* target) {
  return Validate(request, kSingle, target);
}
absl::Status ValidateTarget(const v1::GetRequest& request, ValidTarget* target) {
  return Validate(request, kSingle, target);
}
absl::Status ValidateTarget(const v1::ExplainRequest& request, ValidTarget* target) {
  return Validate(request, kSingle, target);
}

absl::Status ValidateReschedule(const v1::RescheduleRequest& request, const RequestLimits& limits,
                                uint64_t now_ms, ValidReschedule* valid) {
  absl::Status status = ValidateTarget(request, &valid->target);
  if (status.ok()) status = ResolveWhen(request, limits.horizon_ms, now_ms, &valid->when);
  if (!status.ok()) return status;
  valid->etag.reset();
  if (request.etag().empty()) return absl::OkStatus();
  valid->etag = ParseEtag(request.etag());
  if (!valid->etag.has_value()) {
    return Invalid("INVALID_ETAG", "etag", "not an etag that a server gives");
  }
  return absl::OkStatus();
}

absl::Status ValidateView(v1::MessageView view, bool* full) {
  if (!v1::MessageView_IsValid(view)) {
    return Invalid("INVALID_VIEW", "view", absl::StrCat("unknown value ", view),
                   {{"value", absl::StrCat(view)}});
  }
  *full = view == v1::MESSAGE_VIEW_FULL;
  return absl::OkStatus();
}

std::string EtagText(uint64_t etag) { return absl::StrCat(etag); }

std::optional<uint64_t> ParseEtag(absl::string_view text) {
  uint64_t etag = 0;
  if (!absl::SimpleAtoi(text, &etag) || EtagText(etag) != text) return std::nullopt;
  return etag;
}

}  // namespace duetime::api
