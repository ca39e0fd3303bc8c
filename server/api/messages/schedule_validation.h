// SPDX-License-Identifier: Apache-2.0
//
// Validation of requests to schedule, and their fingerprints.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/request_validation.h"
#include "server/api/topics/topic_settings.h"
#include "server/api/when.h"
#include "server/protocol/new_message.h"
#include "storage/message_record.h"

namespace duetime::api {

inline constexpr size_t kRequestIdBytesMax = 128;
inline constexpr size_t kOrderingKeyBytesMax = 255;
inline constexpr size_t kLabelKeyBytesMax = 63;
inline constexpr size_t kLabelValueBytesMax = 255;

// The name that decides where a message is: its key, else its ordering key, else its request id.
// Empty: it has none and may be anywhere.
inline absl::string_view RoutingName(absl::string_view key, absl::string_view ordering_key,
                                     absl::string_view request_id) {
  return !key.empty() ? key : !ordering_key.empty() ? ordering_key : request_id;
}

// A valid request to schedule. The views point into the request.
struct ValidSchedule {
  using Pairs = storage::MessageRecord::Pairs;

  absl::string_view topic;
  absl::string_view payload;
  Pairs attributes;
  When when;
  // True if the request uses none of the fields below. They are then not set, except ttl_ms and
  // late_policy, which ApplyTopicSettings sets.
  bool plain = true;
  Pairs labels;
  absl::string_view key;
  absl::string_view ordering_key;
  absl::string_view request_id;
  protocol::OnConflict on_conflict = protocol::OnConflict::kFail;
  bool only_if_exists = false;
  bool validate_only = false;
  uint64_t max_wait_ms = 0;
  uint64_t spread_ms = 0;
  uint64_t ttl_ms = 0;
  // The end of the time to live, if the request gives it. 0: it gives none, or a ttl.
  uint64_t expire_ms = 0;
  storage::LatePolicy late_policy = storage::LatePolicy::kDeliver;

  // Empty: any shard.
  absl::string_view routing_name() const {
    return plain ? absl::string_view() : RoutingName(key, ordering_key, request_id);
  }
  // True if the shard must decide the message by itself, with ScheduleOptions.
  bool needs_options() const {
    return !plain &&
           (!key.empty() || !request_id.empty() || validate_only || spread_ms > 0 || expire_ms > 0);
  }
};

// Checks all errors that messages.proto names at Schedule, except those that need the topic.
// Overwrites `valid` and reuses its vectors. After an error `valid` is void.
absl::Status ValidateSchedule(const v1::ScheduleRequest& request, const RequestLimits& limits,
                              uint64_t now_ms, int index, ValidSchedule* valid);

// Applies the topic's settings to a valid request: PAYLOAD_TOO_LARGE, INVALID_LATE_POLICY. Sets
// ttl_ms and late_policy, also of a plain request.
absl::Status ApplyTopicSettings(const TopicSettings& settings, int index, ValidSchedule* valid);

// INVALID_ON_CONFLICT for ONCE in a topic without tombstones.
absl::Status CheckOnce(uint64_t tombstone_retention_ms, int index, const ValidSchedule& valid);

// INVALID_LABELS. Appends the labels to `valid`.
absl::Status ValidateLabels(const google::protobuf::Map<std::string, std::string>& labels,
                            size_t labels_max, const std::string& field,
                            ValidSchedule::Pairs* valid);

// INVALID_LATE_POLICY for an unknown policy. ApplyTopicSettings checks that there is a time to
// live, because the topic may give it.
absl::Status ValidateLatePolicy(v1::Message::LatePolicy policy, const std::string& field,
                                storage::LatePolicy* valid);

// XXH3-128 over the content of the request as the client gave it. ScheduleRequest.OnConflict in the
// proto lists the fields. The encoding depends neither on the order of maps nor on protobuf. The
// fingerprint is on disk: it must never change for a request that can be made today.
storage::Fingerprint FingerprintOf(const v1::ScheduleRequest& request);

}  // namespace duetime::api
