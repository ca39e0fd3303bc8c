// SPDX-License-Identifier: Apache-2.0
#include "server/api/query_validation.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "server/api/messages/schedule_validation.h"
#include "server/api/messages/target_validation.h"
#include "server/api/page_token.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "storage/time_units.h"

namespace duetime::api {
namespace {

absl::Status ValidatePageSize(int32_t asked, size_t* page_size) {
  if (asked < 0) return Invalid("INVALID_PAGE_SIZE", "page_size", "negative");
  *page_size = asked == 0 ? kPageSizeDefault : std::min(static_cast<size_t>(asked), kPageSizeMax);
  return absl::OkStatus();
}

absl::Status ReadToken(absl::string_view token, absl::string_view filter,
                       query::ListPosition* position) {
  if (token.empty()) return absl::OkStatus();
  const std::optional<query::ListPosition> read = ReadPageToken(token, filter);
  if (!read.has_value()) {
    return Invalid("INVALID_PAGE_TOKEN", "page_token",
                   "not a token that was given for this request");
  }
  *position = *read;
  return absl::OkStatus();
}

absl::Status ReadTime(const google::protobuf::Timestamp* time, const std::string& field,
                      uint64_t* ms) {
  if (time == nullptr) return absl::OkStatus();
  const std::optional<uint64_t> read = TimestampToMs(*time);
  if (!read.has_value()) {
    return Invalid("INVALID_FILTER", field,
                   "not a valid timestamp: years 0001-9999, nanos 0 to 999999999");
  }
  *ms = std::min(*read, storage::MessageId::kDueMax + 1);
  return absl::OkStatus();
}

absl::Status ValidateStates(const v1::ListRequest& request, ValidList* valid) {
  if (request.states().empty()) return absl::OkStatus();
  valid->scheduled = valid->due = valid->in_flight = false;
  for (const int state : request.states()) {
    switch (state) {
      case v1::Message::STATE_SCHEDULED:
        valid->scheduled = true;
        break;
      case v1::Message::STATE_DUE:
        valid->due = true;
        break;
      case v1::Message::STATE_IN_FLIGHT:
        valid->in_flight = true;
        break;
      default:
        return Invalid("INVALID_FILTER", "states",
                       absl::StrCat("value ", state, " is not a state of a pending message"),
                       {{"value", absl::StrCat(state)}});
    }
  }
  return absl::OkStatus();
}

// Adds a part with its length, so that no two requests have the same text.
void AppendPart(absl::string_view part, std::string* text) {
  absl::StrAppend(text, part.size(), ":", part, ";");
}

std::string TokenFilter(const ValidList& valid) {
  std::string text = "list;";
  AppendPart(valid.topic, &text);
  AppendPart(valid.filter.key_prefix, &text);
  auto labels = valid.filter.labels;
  std::sort(labels.begin(), labels.end());
  for (const auto& [key, value] : labels) {
    AppendPart(key, &text);
    AppendPart(value, &text);
  }
  absl::StrAppend(&text, valid.filter.from_ms, ";", valid.filter.until_ms, ";", valid.scheduled,
                  valid.due, valid.in_flight);
  return text;
}

}  // namespace

absl::Status ValidateFilter(const FilterFields& fields, const RequestLimits& limits,
                            absl::string_view path, query::MessageFilter* filter) {
  if (fields.key_prefix.size() > kKeyBytesMax) {
    return OverLimit("INVALID_KEY", absl::StrCat(path, "key_prefix"), fields.key_prefix.size(),
                     kKeyBytesMax, "bytes");
  }
  filter->key_prefix = fields.key_prefix;
  ValidSchedule::Pairs labels;
  absl::Status status =
      ValidateLabels(fields.labels, limits.labels_max, absl::StrCat(path, "labels"), &labels);
  if (!status.ok()) return status;
  filter->labels.clear();
  for (const auto& [key, value] : labels) filter->labels.emplace_back(key, value);
  const std::string end = absl::StrCat(path, "end_time");
  status = ReadTime(fields.start_time, absl::StrCat(path, "start_time"), &filter->from_ms);
  if (status.ok()) status = ReadTime(fields.end_time, end, &filter->until_ms);
  if (!status.ok()) return status;
  if (fields.end_time != nullptr && filter->until_ms <= filter->from_ms) {
    return Invalid("INVALID_FILTER", end, "not after start_time");
  }
  return absl::OkStatus();
}

absl::Status ValidateList(const v1::ListRequest& request, const RequestLimits& limits,
                          ValidList* valid) {
  absl::Status status = ValidateTopic(request.topic(), "topic");
  if (!status.ok()) return status;
  valid->topic = request.topic();
  const FilterFields fields = {
      .key_prefix = request.key_prefix(),
      .labels = request.labels(),
      .start_time = request.has_start_time() ? &request.start_time() : nullptr,
      .end_time = request.has_end_time() ? &request.end_time() : nullptr};
  status = ValidateFilter(fields, limits, "", &valid->filter);
  if (status.ok()) status = ValidateStates(request, valid);
  if (status.ok()) status = ValidatePageSize(request.page_size(), &valid->page_size);
  if (status.ok()) status = ValidateView(request.view(), &valid->full);
  if (!status.ok()) return status;
  valid->token_filter = TokenFilter(*valid);
  return ReadToken(request.page_token(), valid->token_filter, &valid->from);
}

absl::Status ValidateForecast(const v1::ForecastRequest& request, uint64_t now_ms,
                              ValidForecast* valid) {
  constexpr absl::string_view kReason = "INVALID_FORECAST";
  valid->topic = request.topic();
  if (!valid->topic.empty()) {
    absl::Status status = ValidateTopic(valid->topic, "topic");
    if (!status.ok()) return status;
  }
  size_t buckets = 24;
  switch (request.bucket()) {
    case v1::ForecastRequest::BUCKET_SECOND:
      valid->range.bucket_ms = storage::kSecondMs;
      buckets = 60;
      break;
    case v1::ForecastRequest::BUCKET_MINUTE:
      valid->range.bucket_ms = storage::kMinuteMs;
      buckets = 60;
      break;
    case v1::ForecastRequest::BUCKET_UNSPECIFIED:
    case v1::ForecastRequest::BUCKET_HOUR:
      valid->range.bucket_ms = storage::kHourMs;
      break;
    case v1::ForecastRequest::BUCKET_DAY:
      valid->range.bucket_ms = storage::kDayMs;
      buckets = 30;
      break;
    default:
      return Invalid(kReason, "bucket", absl::StrCat("unknown value ", request.bucket()),
                     {{"value", absl::StrCat(request.bucket())}});
  }
  if (request.buckets() < 0) return Invalid(kReason, "buckets", "negative");
  if (request.buckets() > 0) buckets = static_cast<size_t>(request.buckets());
  if (buckets > kForecastBucketsMax) {
    return OverLimit(kReason, "buckets", buckets, kForecastBucketsMax, "buckets");
  }
  valid->range.buckets = buckets;
  uint64_t start_ms = now_ms;
  if (request.has_start_time()) {
    const std::optional<uint64_t> ms = TimestampToMs(request.start_time());
    if (!ms.has_value() || *ms > storage::MessageId::kDueMax) {
      return Invalid(kReason, "start_time", "not a valid timestamp, or after the year 2527");
    }
    start_ms = *ms;
  }
  valid->range.start_ms = start_ms - start_ms % valid->range.bucket_ms;
  return absl::OkStatus();
}

absl::Status ValidatePage(int32_t asked, absl::string_view token, absl::string_view token_filter,
                          size_t* page_size, std::string* after) {
  absl::Status status = ValidatePageSize(asked, page_size);
  if (!status.ok()) return status;
  query::ListPosition position;
  status = ReadToken(token, token_filter, &position);
  *after = position.key;
  return status;
}

absl::Status ValidateTopicList(const v1::ListTopicsRequest& request, ValidTopicList* valid) {
  valid->token_filter = absl::StrCat("topics;", request.name_prefix());
  return ValidatePage(request.page_size(), request.page_token(), valid->token_filter,
                      &valid->page_size, &valid->after);
}

}  // namespace duetime::api
