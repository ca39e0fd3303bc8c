// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints about messages. Pure: nothing is written here, no clock is read.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/delay_client.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {

// "in flight", "scheduled" and so on.
std::string StateWord(v1::Message::State state);

// "a=1 b=2", in the order of the keys, safe for a terminal.
std::string PairsText(const google::protobuf::Map<std::string, std::string>& pairs);

// For people; lines end with a line break. `name` is what the message was called on the command
// line: its id or its key.
std::string GetText(const v1::GetResponse& response, const absl::TimeZone& zone);
// The next one due first, if that is how they come.
std::string MessageTable(const google::protobuf::RepeatedPtrField<v1::Message>& messages,
                         const absl::TimeZone& zone);
std::string ScheduledText(const v1::ScheduleResponse& response, const absl::TimeZone& zone);
std::string RescheduledText(absl::string_view name, const v1::RescheduleResponse& response,
                            const absl::TimeZone& zone);
std::string CancelText(absl::string_view name, const client::CancelResult& result,
                       const absl::TimeZone& zone);
// A timeline. What lies behind `now` is marked as still to come.
std::string ExplainText(const v1::ExplainResponse& story, absl::Time now,
                        const absl::TimeZone& zone);

// For programs: one JSON object on one line, by the rules of json.h. The message of a response and
// what is said of it are one object.
std::string GetJson(const v1::GetResponse& response);
std::string ScheduledJson(const v1::ScheduleResponse& response);
std::string CancelJson(absl::string_view name, const client::CancelResult& result);

}  // namespace duetime::cli
