// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/new_message.h"

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

template <typename Request>
void FillWhen(const When& when, Request* request) {
  if (const auto* delay = std::get_if<absl::Duration>(&when)) {
    *request->mutable_delay() = ToProto(*delay);
  } else if (const auto* time = std::get_if<absl::Time>(&when)) {
    *request->mutable_deliver_time() = ToProto(*time);
  } else {
    const auto& civil = std::get<CivilTime>(when);
    request->mutable_civil_time()->set_local(civil.local);
    request->mutable_civil_time()->set_time_zone(civil.time_zone);
  }
}

}  // namespace

void SetWhen(const When& when, v1::ScheduleRequest* request) { FillWhen(when, request); }
void SetWhen(const When& when, v1::RescheduleRequest* request) { FillWhen(when, request); }

v1::ScheduleRequest ToProto(const NewMessage& message) {
  v1::ScheduleRequest request;
  request.set_topic(message.topic);
  request.set_payload(message.payload);
  request.mutable_attributes()->insert(message.attributes.begin(), message.attributes.end());
  if (message.when.has_value()) SetWhen(*message.when, &request);
  request.set_key(message.key);
  request.set_on_conflict(message.on_conflict);
  // Zero and absent mean the same; absent is shorter.
  if (message.max_wait != absl::ZeroDuration()) {
    *request.mutable_max_wait() = ToProto(message.max_wait);
  }
  request.set_only_if_exists(message.only_if_exists);
  request.set_request_id(message.request_id);
  request.set_validate_only(message.validate_only);
  request.mutable_labels()->insert(message.labels.begin(), message.labels.end());
  request.set_ordering_key(message.ordering_key);
  if (const auto* ttl = std::get_if<absl::Duration>(&message.lifetime)) {
    *request.mutable_ttl() = ToProto(*ttl);
  } else if (const auto* expire_time = std::get_if<absl::Time>(&message.lifetime)) {
    *request.mutable_expire_time() = ToProto(*expire_time);
  }
  request.set_late_policy(message.late_policy);
  if (message.spread != absl::ZeroDuration()) *request.mutable_spread() = ToProto(message.spread);
  return request;
}

}  // namespace duetime::client
