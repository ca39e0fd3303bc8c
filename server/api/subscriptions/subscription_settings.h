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

// INVALID_SUBSCRIPTION. An empty name stands for kDefaultSubscription. `valid` points into `name`
// or to that constant.
absl::Status ValidateSubscription(absl::string_view name, const std::string& field,
                                  absl::string_view* valid);

// INVALID_SUBSCRIPTION_SETTINGS. `path` is the path of `proto` in the request, `topic` the topic's
// name. Does not set settings->dead_letter.
absl::Status ValidateSubscriptionSettings(const v1::SubscriptionSettings& proto,
                                          absl::string_view topic, const RequestLimits& limits,
                                          absl::string_view path,
                                          protocol::SubscriptionSettings* settings);

// Copies the fields that the mask names from `from`. INVALID_UPDATE_MASK if the mask is empty or
// names another field; INVALID_SUBSCRIPTION_SETTINGS if the result is inconsistent. A longest
// backoff below the shortest rises to it, if it has its default and the mask does not name it.
absl::Status ApplySubscriptionMask(const google::protobuf::FieldMask& mask,
                                   const protocol::SubscriptionSettings& from,
                                   protocol::SubscriptionSettings* settings);

// INVALID_SUBSCRIPTION_SETTINGS if the longest backoff is below the shortest. An update mask can
// cause this.
absl::Status CheckBackoff(const protocol::RetryPolicy& retry, absl::string_view path);

void ToProto(const protocol::SubscriptionSettings& settings, v1::SubscriptionSettings* proto);

}  // namespace duetime::api
