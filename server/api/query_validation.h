// SPDX-License-Identifier: Apache-2.0
//
// Validation of the requests that read much: List, Forecast, lists of topics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/forecast.pb.h"
#include "duetime/v1/lifecycle.pb.h"
#include "duetime/v1/topic.pb.h"
#include "server/api/request_validation.h"
#include "server/query/forecast_query.h"
#include "server/query/list_query.h"

namespace duetime::api {

inline constexpr size_t kPageSizeMax = 1'000;
inline constexpr size_t kPageSizeDefault = 100;
inline constexpr size_t kForecastBucketsMax = 10'000;

// A valid List. The filter has everything but the topic's id.
struct ValidList {
  std::string topic;
  query::MessageFilter filter;
  bool scheduled = true;
  bool due = true;
  bool in_flight = true;
  size_t page_size = 0;
  // Whether the answer has payloads and attributes.
  bool full = false;
  // The `filter` of the page token.
  std::string token_filter;
  query::ListPosition from;
};

// INVALID_TOPIC, INVALID_KEY, INVALID_LABELS, INVALID_FILTER, INVALID_PAGE_SIZE,
// INVALID_PAGE_TOKEN, INVALID_VIEW.
absl::Status ValidateList(const v1::ListRequest& request, const RequestLimits& limits,
                          ValidList* valid);

// The conditions that lists and bulk operations share: INVALID_KEY, INVALID_LABELS, INVALID_FILTER.
// In an error, `path` precedes the field's name. Does not set the topic.
struct FilterFields {
  const std::string& key_prefix;
  const google::protobuf::Map<std::string, std::string>& labels;
  const google::protobuf::Timestamp* start_time;
  const google::protobuf::Timestamp* end_time;
};
absl::Status ValidateFilter(const FilterFields& fields, const RequestLimits& limits,
                            absl::string_view path, query::MessageFilter* filter);

struct ValidForecast {
  // Empty: all topics.
  std::string topic;
  query::ForecastRange range;
};

// INVALID_TOPIC, INVALID_FORECAST.
absl::Status ValidateForecast(const v1::ForecastRequest& request, uint64_t now_ms,
                              ValidForecast* valid);

// The page of a list in the order of names: INVALID_PAGE_SIZE, INVALID_PAGE_TOKEN. `token_filter`
// is the `filter` of the page token; `after` becomes the last name of the page before.
absl::Status ValidatePage(int32_t asked, absl::string_view token, absl::string_view token_filter,
                          size_t* page_size, std::string* after);

struct ValidTopicList {
  size_t page_size = 0;
  std::string token_filter;
  std::string after;
};

// INVALID_PAGE_SIZE, INVALID_PAGE_TOKEN.
absl::Status ValidateTopicList(const v1::ListTopicsRequest& request, ValidTopicList* valid);

}  // namespace duetime::api
