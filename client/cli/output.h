// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints, as text: payloads, deliveries, the server and errors. Messages are in
// message_output.h, what operators look at in admin_output.h. Pure: nothing is written here, no
// clock is read.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/subscriber.h"
#include "duetime/v1/admin.pb.h"

namespace duetime::cli {

// Bytes on one line of a terminal: text as it is, with line breaks and tabs as \n, \r and \t; bytes
// that are not UTF-8 or hold other control characters (which could take over the terminal) as
// "base64:...". Longer than `bytes_max`: cut, saying so.
std::string PrintablePayload(absl::string_view payload, size_t bytes_max);

bool IsUtf8(absl::string_view text);

// For people; lines end with a line break.
std::string DeliveryText(const client::Delivery& delivery, absl::Time received,
                         const absl::TimeZone& zone);
std::string CountsText(const client::SubscriberCounts& counts);
std::string ServerInfoText(const v1::ServerInfoResponse& info, const absl::TimeZone& zone);
// One line: the reason, the text, and when to come again. `server` is named when it could not be
// reached.
std::string ErrorText(const absl::Status& error, absl::string_view server);

// For programs: one JSON object on one line, by the rules of json.h.
std::string DeliveryJson(const client::Delivery& delivery, absl::Time received);
std::string CountsJson(const client::SubscriberCounts& counts);
std::string ErrorJson(const absl::Status& error);

}  // namespace duetime::cli
