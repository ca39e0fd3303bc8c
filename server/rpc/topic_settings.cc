// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/topic_settings.h"

#include "absl/strings/str_cat.h"

#include "server/rpc/proto_time.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kDeleted = 1;
constexpr uint8_t kHasFateRetention = 2;
constexpr uint8_t kFlagsAll = 3;
// version, flags, four numbers.
constexpr size_t kObjectBytes = 2 + 4 * sizeof(uint64_t);

constexpr absl::string_view kReason = "INVALID_TOPIC_SETTINGS";

void AppendNumber(uint64_t value, std::string* bytes) {
  for (int shift = 0; shift < 64; shift += 8) bytes->push_back(static_cast<char>(value >> shift));
}

uint64_t NumberAt(absl::string_view bytes, size_t index) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[2 + index * sizeof(value) + i]);
    value |= uint64_t{byte} << (8 * i);
  }
  return value;
}

absl::Status ReadDuration(const google::protobuf::Duration& duration, const std::string& field,
                          uint64_t limit_ms, uint64_t* ms) {
  const std::optional<uint64_t> read = DurationToMs(duration);
  if (!read.has_value()) return Invalid(kReason, field, "negative or not a valid duration");
  if (*read > limit_ms) return OverLimit(kReason, field, *read, limit_ms, "ms");
  *ms = *read;
  return absl::OkStatus();
}

}  // namespace

std::string EncodeTopicObject(const TopicObject& object) {
  const TopicSettings& settings = object.settings;
  std::string bytes;
  bytes.reserve(kObjectBytes);
  bytes.push_back(static_cast<char>(kVersion));
  const int flags = (object.deleted ? kDeleted : 0) |
                    (settings.fate_retention_ms.has_value() ? kHasFateRetention : 0);
  bytes.push_back(static_cast<char>(flags));
  AppendNumber(settings.max_pending, &bytes);
  AppendNumber(settings.max_payload_bytes, &bytes);
  AppendNumber(settings.default_ttl_ms, &bytes);
  AppendNumber(settings.fate_retention_ms.value_or(0), &bytes);
  return bytes;
}

absl::StatusOr<TopicObject> DecodeTopicObject(absl::string_view bytes) {
  if (bytes.size() != kObjectBytes || static_cast<uint8_t>(bytes[0]) != kVersion ||
      static_cast<uint8_t>(bytes[1]) > kFlagsAll) {
    return absl::DataLossError("the settings of a topic on disk are damaged");
  }
  const auto flags = static_cast<uint8_t>(bytes[1]);
  TopicObject object;
  object.deleted = (flags & kDeleted) != 0;
  object.settings.max_pending = NumberAt(bytes, 0);
  object.settings.max_payload_bytes = NumberAt(bytes, 1);
  object.settings.default_ttl_ms = NumberAt(bytes, 2);
  if ((flags & kHasFateRetention) != 0) object.settings.fate_retention_ms = NumberAt(bytes, 3);
  return object;
}

absl::Status ValidateTopicSettings(const v1::TopicSettings& proto, const RequestLimits& limits,
                                   absl::string_view path, TopicSettings* settings) {
  *settings = {};
  if (proto.max_pending() < 0) {
    return Invalid(kReason, absl::StrCat(path, ".max_pending"), "negative");
  }
  settings->max_pending = static_cast<uint64_t>(proto.max_pending());
  const std::string payload = absl::StrCat(path, ".max_payload_bytes");
  if (proto.max_payload_bytes() < 0) return Invalid(kReason, payload, "negative");
  settings->max_payload_bytes = static_cast<uint64_t>(proto.max_payload_bytes());
  if (settings->max_payload_bytes > limits.payload_bytes_max) {
    return OverLimit(kReason, payload, settings->max_payload_bytes, limits.payload_bytes_max,
                     "bytes");
  }
  absl::Status status = ReadDuration(proto.default_ttl(), absl::StrCat(path, ".default_ttl"),
                                     limits.horizon_ms, &settings->default_ttl_ms);
  if (!status.ok() || !proto.has_fate_retention()) return status;
  uint64_t fate_retention_ms = 0;
  status = ReadDuration(proto.fate_retention(), absl::StrCat(path, ".fate_retention"),
                        kFateRetentionMsMax, &fate_retention_ms);
  settings->fate_retention_ms = fate_retention_ms;
  return status;
}

absl::Status ApplyTopicMask(const google::protobuf::FieldMask& mask, const TopicSettings& from,
                            TopicSettings* settings) {
  constexpr absl::string_view kMaskReason = "INVALID_UPDATE_MASK";
  if (mask.paths().empty()) return Invalid(kMaskReason, "update_mask", "required");
  for (const std::string& path : mask.paths()) {
    if (path == "settings") {
      *settings = from;
    } else if (path == "settings.max_pending") {
      settings->max_pending = from.max_pending;
    } else if (path == "settings.max_payload_bytes") {
      settings->max_payload_bytes = from.max_payload_bytes;
    } else if (path == "settings.default_ttl") {
      settings->default_ttl_ms = from.default_ttl_ms;
    } else if (path == "settings.fate_retention") {
      settings->fate_retention_ms = from.fate_retention_ms;
    } else {
      return Invalid(kMaskReason, "update_mask", "a path is not one of a topic's settings");
    }
  }
  return absl::OkStatus();
}

void ToProto(const TopicSettings& settings, v1::TopicSettings* proto) {
  proto->set_max_pending(static_cast<int64_t>(settings.max_pending));
  proto->set_max_payload_bytes(static_cast<int64_t>(settings.max_payload_bytes));
  if (settings.default_ttl_ms > 0) {
    SetDuration(settings.default_ttl_ms, proto->mutable_default_ttl());
  }
  if (settings.fate_retention_ms.has_value()) {
    SetDuration(*settings.fate_retention_ms, proto->mutable_fate_retention());
  }
}

}  // namespace duetime::rpc
