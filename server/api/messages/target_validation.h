// SPDX-License-Identifier: Apache-2.0
//
// What the requests about accepted messages must be: Cancel, Reschedule, Get, Explain.
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
  // Not empty: by key, and id means nothing.
  absl::string_view key;
  absl::string_view topic;
};

// TARGET_MISSING, INVALID_MESSAGE_ID, INVALID_TOPIC, INVALID_KEY. `index` is that of the request in
// its batch, for the path of a bad field.
absl::Status ValidateTarget(const v1::CancelRequest& request, int index, ValidTarget* target);
absl::Status ValidateTarget(const v1::RescheduleRequest& request, ValidTarget* target);
absl::Status ValidateTarget(const v1::GetRequest& request, ValidTarget* target);
absl::Status ValidateTarget(const v1::ExplainRequest& request, ValidTarget* target);

struct ValidReschedule {
  ValidTarget target;
  When when;
  std::optional<uint64_t> revision;
};

// What ResolveWhen says, and INVALID_ETAG.
absl::Status ValidateReschedule(const v1::RescheduleRequest& request, const RequestLimits& limits,
                                uint64_t now_ms, ValidReschedule* valid);

// INVALID_VIEW.
absl::Status ValidateView(v1::MessageView view, bool* full);

// The text of an etag: the revision.
std::string EtagOf(uint64_t revision);
// Nothing if it is not what EtagOf gives.
std::optional<uint64_t> ParseEtag(absl::string_view etag);

}  // namespace duetime::api
