// SPDX-License-Identifier: Apache-2.0
//
// The settings of a topic in requests and answers.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/topic.pb.h"
#include "server/api/request_validation.h"
#include "server/protocol/settings.h"

namespace duetime::api {

using protocol::TopicSettings;

inline constexpr uint64_t kTombstoneRetentionMsMax = uint64_t{400} * 24 * 3'600'000;

// INVALID_TOPIC_SETTINGS. `path` is the path of `proto` in the request, `topic` the topic's name.
absl::Status ValidateTopicSettings(const v1::TopicSettings& proto, absl::string_view topic,
                                   const RequestLimits& limits, absl::string_view path,
                                   TopicSettings* settings);

// Copies the fields that the mask names from `from`, which is valid. The errors are those of
// ApplyMask, and INVALID_TOPIC_SETTINGS if the named fields and the others do not fit together.
absl::Status ApplyTopicMask(const google::protobuf::FieldMask& mask, const v1::TopicSettings& from,
                            TopicSettings* settings);

void ToProto(const TopicSettings& settings, v1::TopicSettings* proto);

}  // namespace duetime::api
