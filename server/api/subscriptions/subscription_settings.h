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
#include "server/protocol/subscription_state.h"
#include "storage/time_units.h"

namespace duetime::api {

inline constexpr absl::string_view kDefaultSubscription = "default";
inline constexpr size_t kSubscriptionBytesMax = 255;
inline constexpr uint64_t kBackoffMsMax = 12 * storage::kHourMs;

// INVALID_SUBSCRIPTION. An empty name stands for kDefaultSubscription; `valid` points into `name`
// or to that.
absl::Status ValidateSubscription(absl::string_view name, const std::string& field,
                                  absl::string_view* valid);

// INVALID_SUBSCRIPTION_SETTINGS; `path` is that of `proto` in the request, `topic` the topic's
// name. What settings->dead_letter is to be is not decided here.
absl::Status ValidateSubscriptionSettings(const v1::SubscriptionSettings& proto,
                                          absl::string_view topic, const RequestLimits& limits,
                                          absl::string_view path,
                                          protocol::SubscriptionSettings* settings);

// Takes over from `from` what the mask names. INVALID_UPDATE_MASK if it is empty or names something
// else, INVALID_SUBSCRIPTION_SETTINGS if they do not go together then. A shortest backoff takes
// along a longest one that has its default and is not named.
absl::Status ApplySubscriptionMask(const google::protobuf::FieldMask& mask,
                                   const protocol::SubscriptionSettings& from,
                                   protocol::SubscriptionSettings* settings);

// What the settings must be together: INVALID_SUBSCRIPTION_SETTINGS if the longest backoff is below
// the shortest, which a mask can bring about.
absl::Status CheckBackoff(const protocol::RetryPolicy& retry, absl::string_view path);

void ToProto(const protocol::SubscriptionSettings& settings, v1::SubscriptionSettings* proto);

}  // namespace duetime::api
