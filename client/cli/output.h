// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints, as text. Pure: nothing is written here, no clock is read.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/delay_client.h"
#include "client/subscriber.h"

namespace duetime::cli {

// Bytes on one line of a terminal: text as it is, with line breaks and tabs as \n, \r and \t; bytes
// that are not UTF-8 or hold other control characters (which could take over the terminal) as
// "base64:...". Longer than `bytes_max`: cut, saying so.
std::string PrintablePayload(absl::string_view payload, size_t bytes_max);

// For people; lines end with a line break.
std::string MessageText(const client::Message& message, const absl::TimeZone& zone);
std::string ScheduledText(const client::Message& message, const absl::TimeZone& zone);
std::string CancelText(absl::string_view id, const client::CancelResult& result);
std::string DeliveryText(const client::Delivery& delivery, absl::Time received,
                         const absl::TimeZone& zone);
std::string CountsText(const client::SubscriberCounts& counts);
std::string ServerInfoText(const v1::ServerInfoResponse& info, const absl::TimeZone& zone);
// One line: the reason, the text, and when to come again. `server` is named when it could not be
// reached.
std::string ErrorText(const absl::Status& error, absl::string_view server);

// For programs: one JSON object on one line. Times are RFC 3339 in UTC; a payload that is UTF-8 is
// `payload`, any other is `payload_base64`.
std::string MessageJson(const client::Message& message);
std::string CancelJson(absl::string_view id, const client::CancelResult& result);
std::string DeliveryJson(const client::Delivery& delivery, absl::Time received);
std::string CountsJson(const client::SubscriberCounts& counts);
std::string ServerInfoJson(const v1::ServerInfoResponse& info);
std::string ErrorJson(const absl::Status& error);

}  // namespace duetime::cli
