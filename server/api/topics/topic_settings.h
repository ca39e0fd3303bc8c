// SPDX-License-Identifier: Apache-2.0
//
// What holds for the messages of one topic, and how it is kept on disk (storage/FORMAT.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/topic.pb.h"
#include "server/api/request_validation.h"
#include "server/protocol/commands.h"

namespace duetime::api {

inline constexpr absl::string_view kDeadLetterSuffix = ".dlq";
inline constexpr uint64_t kTombstoneRetentionMsMax = uint64_t{400} * 24 * 3'600'000;

// The defaults are those of a topic that was made by use.
struct TopicSettings {
  // 0: no limit.
  uint64_t max_pending = 0;
  // 0: the server's.
  uint64_t max_payload_bytes = 0;
  // 0: none.
  uint64_t default_ttl_ms = 0;
  // Nothing: the server's.
  std::optional<uint64_t> tombstone_retention_ms;
  // Deliveries per second of each subscription, and how many at once. 0: no limit, and no burst.
  uint64_t rate_per_s = 0;
  uint64_t burst = 0;
  bool paused = false;
  // How many messages may become due in one minute, what is done with more, and how much later
  // kSpread may deliver. 0: no limit, and the rest is 0.
  uint64_t minute_max = 0;
  protocol::BucketPolicy minute_policy{};
  uint64_t minute_spread_ms = 0;
  // Empty: the topic's name with kDeadLetterSuffix.
  std::string dead_letter_topic = "";

  friend bool operator==(const TopicSettings&, const TopicSettings&) = default;
};

// What is stored under a topic's name: its settings, or that it was deleted.
struct TopicObject {
  TopicSettings settings;
  bool deleted = false;

  friend bool operator==(const TopicObject&, const TopicObject&) = default;
};

std::string EncodeTopicObject(const TopicObject& object);
// DATA_LOSS for bytes that no encoder wrote.
absl::StatusOr<TopicObject> DecodeTopicObject(absl::string_view bytes);

// INVALID_TOPIC_SETTINGS; `path` is that of `proto` in the request, `topic` the topic's name.
absl::Status ValidateTopicSettings(const v1::TopicSettings& proto, absl::string_view topic,
                                   const RequestLimits& limits, absl::string_view path,
                                   TopicSettings* settings);

// Takes over from `from` what the mask names. INVALID_UPDATE_MASK if it is empty or names something
// else.
absl::Status ApplyTopicMask(const google::protobuf::FieldMask& mask, const TopicSettings& from,
                            TopicSettings* settings);

void ToProto(const TopicSettings& settings, v1::TopicSettings* proto);

}  // namespace duetime::api
