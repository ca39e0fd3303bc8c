// SPDX-License-Identifier: Apache-2.0
#include "server/api/operations/operation_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/query_validation.h"
#include "server/api/validation_error.h"

namespace duetime::api {
namespace {

using protocol::BulkAction;
using protocol::OperationState;

v1::Operation::State OperationStateToProto(OperationState state) {
  switch (state) {
    case OperationState::kRunning:
      return v1::Operation::STATE_RUNNING;
    case OperationState::kDone:
      return v1::Operation::STATE_DONE;
    case OperationState::kStopped:
      return v1::Operation::STATE_STOPPED;
  }
  return v1::Operation::STATE_UNSPECIFIED;
}

v1::BulkAction ActionToProto(BulkAction action) {
  switch (action) {
    case BulkAction::kCancel:
      return v1::BULK_ACTION_CANCEL;
    case BulkAction::kShift:
      return v1::BULK_ACTION_SHIFT;
    case BulkAction::kRelease:
      return v1::BULK_ACTION_RELEASE;
    case BulkAction::kPurge:
      return v1::BULK_ACTION_PURGE;
    case BulkAction::kRedrive:
      return v1::BULK_ACTION_REDRIVE;
  }
  return v1::BULK_ACTION_UNSPECIFIED;
}

absl::Status ValidateAction(const v1::StartBulkRequest& request, uint64_t horizon_ms,
                            protocol::OperationSpec* spec) {
  constexpr absl::string_view kReason = "INVALID_ACTION";
  switch (request.action()) {
    case v1::BULK_ACTION_CANCEL:
      spec->action = BulkAction::kCancel;
      break;
    case v1::BULK_ACTION_SHIFT:
      spec->action = BulkAction::kShift;
      break;
    case v1::BULK_ACTION_RELEASE:
      spec->action = BulkAction::kRelease;
      break;
    case v1::BULK_ACTION_PURGE:
      spec->action = BulkAction::kPurge;
      break;
    case v1::BULK_ACTION_REDRIVE:
      spec->action = BulkAction::kRedrive;
      break;
    default:
      return Invalid(kReason, "action", "say what to do: cancel, shift, release, purge or redrive");
  }
  const bool shifts = spec->action == BulkAction::kShift;
  if (shifts != request.has_shift_by()) {
    return Invalid(kReason, "shift_by",
                   shifts ? "required with BULK_ACTION_SHIFT" : "only with BULK_ACTION_SHIFT");
  }
  if (!shifts) return absl::OkStatus();
  spec->horizon_ms = horizon_ms;
  google::protobuf::Duration by = request.shift_by();
  // The range of a Duration. Negating a value beyond the range might overflow.
  constexpr int64_t kSecondsMax = 315'576'000'000;
  constexpr int32_t kNanosMax = 999'999'999;
  const bool valid = by.seconds() >= -kSecondsMax && by.seconds() <= kSecondsMax &&
                     by.nanos() >= -kNanosMax && by.nanos() <= kNanosMax;
  const bool earlier = by.seconds() < 0 || by.nanos() < 0;
  if (valid && earlier) {
    by.set_seconds(-by.seconds());
    by.set_nanos(-by.nanos());
  }
  const auto ms = DurationToMs(by);
  if (!valid || !ms.has_value() || *ms == 0 || *ms > horizon_ms) {
    return Invalid(kReason, "shift_by",
                   absl::StrCat("at least a millisecond and at most the horizon, ", horizon_ms,
                                " ms, either way"),
                   {{"limit", absl::StrCat(horizon_ms)}});
  }
  spec->shift_ms = earlier ? -static_cast<int64_t>(*ms) : static_cast<int64_t>(*ms);
  return absl::OkStatus();
}

absl::Status ValidateId(const std::string& text, storage::MessageId* id) {
  if (text.empty()) return absl::OkStatus();
  const auto parsed = storage::MessageId::Parse(text);
  if (!parsed.has_value()) {
    return Invalid("INVALID_FILTER", "filter.message_id",
                   "not an id that a server gives (26 characters of lower-case base32)");
  }
  *id = *parsed;
  return absl::OkStatus();
}

}  // namespace

WholeOperation Merge(const protocol::OperationParts& parts, uint16_t shard_count) {
  // Shard 0 started first. Once it has dropped its part, the others decide.
  const protocol::Operation& first = parts.begin()->second;
  // Only shard 0 hears the end of the start.
  const bool starting = parts.begin()->first == 0 && first.starting;
  WholeOperation whole = {.sum = first, .starting = false, .missing = {}, .stopped = false};
  protocol::Operation& merged = whole.sum;
  merged.matched = merged.changed = merged.unchanged = 0;
  bool running = false;
  storage::MessageKey slowest;
  for (uint16_t shard = 0; shard < shard_count; ++shard) {
    const auto found = parts.find(shard);
    // A part may belong to an earlier operation of the same name.
    if (found == parts.end() || (first.first_ms != 0 && found->second.first_ms != first.first_ms)) {
      if (starting) whole.missing.push_back(shard);
      continue;
    }
    const protocol::Operation& part = found->second;
    merged.matched += part.matched;
    merged.changed += part.changed;
    merged.unchanged += part.unchanged;
    merged.create_ms = std::min(merged.create_ms, part.create_ms);
    merged.end_ms = std::max(merged.end_ms, part.end_ms);
    whole.stopped = whole.stopped || part.state == OperationState::kStopped;
    if (part.state != OperationState::kRunning) continue;
    slowest = running ? std::min(slowest, part.cursor) : part.cursor;
    running = true;
  }
  whole.starting = starting && (first.elsewhere || !whole.missing.empty());
  merged.cursor = slowest;
  merged.state = running         ? OperationState::kRunning
                 : whole.stopped ? OperationState::kStopped
                                 : OperationState::kDone;
  return whole;
}

void FillOperation(const WholeOperation& whole, absl::string_view topic, v1::Operation* proto) {
  const protocol::Operation& operation = whole.sum;
  const protocol::OperationSpec& spec = operation.spec;
  proto->set_name(operation.name);
  proto->set_topic(std::string(topic));
  v1::BulkFilter* filter = proto->mutable_filter();
  filter->set_key_prefix(spec.filter.key_prefix);
  for (const auto& [key, value] : spec.filter.labels) (*filter->mutable_labels())[key] = value;
  if (spec.filter.from_ms > 0) SetTimestamp(spec.filter.from_ms, filter->mutable_start_time());
  if (spec.filter.until_ms < storage::MessageId::kDueMax) {
    SetTimestamp(spec.filter.until_ms, filter->mutable_end_time());
  }
  if (spec.filter.id != storage::MessageId{}) {
    filter->set_message_id(spec.filter.id.ToString());
  }
  proto->set_action(ActionToProto(spec.action));
  if (spec.action == BulkAction::kShift) {
    google::protobuf::Duration* by = proto->mutable_shift_by();
    by->set_seconds(spec.shift_ms / 1'000);
    by->set_nanos(static_cast<int32_t>(spec.shift_ms % 1'000) * 1'000'000);
  }
  proto->set_state(whole.starting ? v1::Operation::STATE_STARTING
                                  : OperationStateToProto(operation.state));
  for (const uint16_t shard : whole.missing) {
    proto->add_missing_places(absl::StrCat("shard ", shard));
  }
  SetTimestamp(operation.create_ms, proto->mutable_create_time());
  if (whole.starting) {
    // No progress of the whole, and no end.
  } else if (operation.state == OperationState::kRunning) {
    SetTimestamp(operation.cursor.due_ms, proto->mutable_progress_time());
  } else {
    SetTimestamp(operation.end_ms, proto->mutable_end_time());
  }
  proto->set_matched(static_cast<int64_t>(operation.matched));
  proto->set_changed(static_cast<int64_t>(operation.changed));
  proto->set_unchanged(static_cast<int64_t>(operation.unchanged));
}

absl::Status ValidateOperationName(const std::string& name, const std::string& field) {
  return ValidateName("INVALID_OPERATION_NAME", field, name, kOperationNameBytesMax);
}

absl::Status ValidateBulk(const v1::StartBulkRequest& request, const RequestLimits& limits,
                          protocol::OperationSpec* spec) {
  absl::Status status = ValidateTopic(request.topic(), "topic");
  if (!status.ok()) return status;
  const v1::BulkFilter& asked = request.filter();
  query::MessageFilter filter;
  status = ValidateFilter({.key_prefix = asked.key_prefix(),
                           .labels = asked.labels(),
                           .start_time = asked.has_start_time() ? &asked.start_time() : nullptr,
                           .end_time = asked.has_end_time() ? &asked.end_time() : nullptr},
                          limits, "filter.", &filter);
  if (!status.ok()) return status;
  spec->filter.key_prefix = std::move(filter.key_prefix);
  spec->filter.labels = std::move(filter.labels);
  // A map has no order. Sort the labels, so that a repeat of the request has the same content.
  std::sort(spec->filter.labels.begin(), spec->filter.labels.end());
  spec->filter.from_ms = filter.from_ms;
  spec->filter.until_ms = std::min(filter.until_ms, storage::MessageId::kDueMax);
  if (status = ValidateId(asked.message_id(), &spec->filter.id); !status.ok()) return status;
  if (status = ValidateAction(request, limits.horizon_ms, spec); !status.ok()) return status;
  return request.name().empty() ? absl::OkStatus() : ValidateOperationName(request.name(), "name");
}

}  // namespace duetime::api
