// SPDX-License-Identifier: Apache-2.0
//
// Validation of the requests about accepted messages: Cancel, Reschedule, Get, Explain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/request_validation.h"
#include "server/api/when.h"
#include "storage/message_id.h"

namespace duetime::api {

// Names a message. The views point into the request.
struct ValidTarget {
  storage::MessageId id;
  // If not empty, the target is named by its key, and `id` is void.
  absl::string_view key;
  absl::string_view topic;
};

// TARGET_MISSING, INVALID_MESSAGE_ID, INVALID_TOPIC, INVALID_KEY. `index`: the index of the request
// in its batch, for the path of a bad field.
absl::Status ValidateTarget(const v1::CancelRequest& request, int index, ValidTarget* target);
absl::Status ValidateTarget(const v1::RescheduleRequest& request, ValidTarget* target);
absl::Status ValidateTarget(const v1::GetRequest& request, ValidTarget* target);
absl::Status ValidateTarget(const v1::ExplainRequest& request, ValidTarget* target);

struct ValidReschedule {
  ValidTarget target;
  When when;
  std::optional<uint64_t> etag;
};

// The errors of ValidateTarget and ResolveWhen, and INVALID_ETAG.
absl::Status ValidateReschedule(const v1::RescheduleRequest& request, const RequestLimits& limits,
                                uint64_t now_ms, ValidReschedule* valid);

// INVALID_VIEW.
absl::Status ValidateView(v1::MessageView view, bool* full);

// The text of an etag (protocol::EtagOf).
std::string EtagText(uint64_t etag);
// nullopt if EtagText does not make such a text.
std::optional<uint64_t> ParseEtag(absl::string_view text);

}  // namespace duetime::api
