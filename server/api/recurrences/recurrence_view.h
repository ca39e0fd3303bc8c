// SPDX-License-Identifier: Apache-2.0
//
// Conversion of recurrences between the API's form and the shards' form.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/request_validation.h"
#include "server/api/topics/topic_settings.h"
#include "server/protocol/recurrence_state.h"

namespace duetime::api {

// INVALID_RECURRENCE_NAME.
absl::Status ValidateRecurrenceName(const std::string& name, const std::string& field);

// INVALID_RECURRENCE and INVALID_CRON for the faults that calendar::Recurrence::Compile cannot see:
// malformed fields, and limits that hold only for requests. A rule without a start begins at
// `now_ms`.
absl::Status ReadRule(const v1::RecurrenceSchedule& schedule, const RequestLimits& limits,
                      uint64_t now_ms, const std::string& field, calendar::RecurrenceRule* rule);

// Validates a template as Schedule validates a message of a topic with these settings. `message`
// becomes the record from which occurrences are made.
absl::Status ReadTemplate(const v1::MessageTemplate& from, const TopicSettings& settings,
                          const RequestLimits& limits, std::string* message);

// INVALID_RECURRENCE for unknown values.
absl::Status ReadPolicies(const v1::Recurrence& from, protocol::Overlap* overlap,
                          protocol::Misfire* misfire);

// `full`: with the template's payload.
void FillRecurrence(const protocol::RecurrenceState& state, absl::string_view topic, bool full,
                    v1::Recurrence* proto);

}  // namespace duetime::api
