// SPDX-License-Identifier: Apache-2.0
//
// The settings of a topic in requests and answers.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/topic.pb.h"
#include "server/api/request_validation.h"
#include "server/api/update_mask.h"
#include "server/protocol/settings.h"

namespace duetime::api {

using protocol::TopicSettings;

inline constexpr uint64_t kTombstoneRetentionMsMax = uint64_t{400} * 24 * 3'600'000;

// INVALID_TOPIC_SETTINGS. `path` is the path of `proto` in the request, `topic` the topic's name.
absl::Status ValidateTopicSettings(const v1::TopicSettings& proto, absl::string_view topic,
                                   const RequestLimits& limits, absl::string_view path,
                                   TopicSettings* settings);

// Copies the fields that the mask names from `from`. A burst that equals the rate follows it unless
// the mask names the burst. INVALID_TOPIC_SETTINGS if a named field is invalid, or does not fit the
// others. Those may be above limits that were lowered since.
absl::Status ApplyTopicMask(const SettingsMask& mask, const v1::TopicSettings& from,
                            absl::string_view topic, const RequestLimits& limits,
                            TopicSettings* settings);

void ToProto(const TopicSettings& settings, v1::TopicSettings* proto);

}  // namespace duetime::api
