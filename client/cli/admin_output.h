// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints for people about forecasts, operations, recurrences and topics; for programs
// json.h is enough. Pure: nothing is written here, no clock is read. Lines end with a line break.
#pragma once

#include <string>

#include "absl/time/time.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {

// A chart with a bar for each bucket. More than three empty ones in a row are one line.
std::string ForecastText(const v1::ForecastRequest& request, const v1::ForecastResponse& response,
                         const absl::TimeZone& zone);

std::string OperationText(const v1::Operation& operation, const absl::TimeZone& zone);
std::string OperationTable(const google::protobuf::RepeatedPtrField<v1::Operation>& operations,
                           const absl::TimeZone& zone);

std::string RecurrenceText(const v1::Recurrence& recurrence, const absl::TimeZone& zone);
std::string RecurrenceTable(const google::protobuf::RepeatedPtrField<v1::Recurrence>& recurrences,
                            const absl::TimeZone& zone);
std::string PreviewText(const v1::PreviewRecurrenceResponse& response, const absl::TimeZone& zone);

std::string TopicText(const v1::Topic& topic);
std::string TopicTable(const google::protobuf::RepeatedPtrField<v1::Topic>& topics);

}  // namespace duetime::cli
