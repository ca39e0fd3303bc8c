// SPDX-License-Identifier: Apache-2.0
//
// Names and settings of subscriptions in requests and answers.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/subscription.pb.h"
#include "server/api/request_validation.h"
#include "server/api/update_mask.h"
#include "server/protocol/settings.h"
#include "storage/time_units.h"

namespace duetime::api {

inline constexpr absl::string_view kDefaultSubscription = "default";
inline constexpr size_t kSubscriptionBytesMax = 255;
inline constexpr uint64_t kBackoffMsMax = 12 * storage::kHourMs;

// INVALID_SUBSCRIPTION. An empty name stands for kDefaultSubscription. `valid` points into `name`
// or to that constant.
absl::Status ValidateSubscription(absl::string_view name, const std::string& field,
                                  absl::string_view* valid);

// INVALID_SUBSCRIPTION_SETTINGS. `path` is the path of `proto` in the request, `topic` the topic's
// name. The number of the dead-letter topic stays 0.
absl::Status ValidateSubscriptionSettings(const v1::SubscriptionSettings& proto,
                                          absl::string_view topic, const RequestLimits& limits,
                                          absl::string_view path,
                                          protocol::SubscriptionSettings* settings);

// Copies the fields that the mask names from `from`. A backoff that has its default and that the
// mask does not name follows the other one. INVALID_SUBSCRIPTION_SETTINGS if a named field is
// invalid, or does not fit the others. Those may be above limits that were lowered since.
absl::Status ApplySubscriptionMask(const SettingsMask& mask, const v1::SubscriptionSettings& from,
                                   absl::string_view topic, const RequestLimits& limits,
                                   protocol::SubscriptionSettings* settings);

void ToProto(const protocol::SubscriptionSettings& settings, v1::SubscriptionSettings* proto);

}  // namespace duetime::api
