// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/operation.h"

#include <algorithm>

#include "absl/strings/match.h"

#include "server/protocol/object_codec.h"
#include "server/protocol/objects.pb.h"

namespace duetime::protocol {
namespace {

// DATA_LOSS if a number is no enumerator.
absl::Status Check(const Operation& operation) {
  const BulkAction action = operation.spec.action;
  const OperationState state = operation.state;
  if (operation.spec.topic == storage::TopicId{} || action < BulkAction::kCancel ||
      action > BulkAction::kRedrive || state < OperationState::kRunning ||
      state > OperationState::kStopped) {
    return DamagedObjectError();
  }
  return absl::OkStatus();
}

}  // namespace

bool MessageFilter::Matches(const storage::MessageId& message,
                            const storage::MessageRecord& record) const {
  if (id != storage::MessageId{} && message != id) return false;
  if (record.header.deliver_ms < from_ms || record.header.deliver_ms >= until_ms) return false;
  if (!absl::StartsWith(record.key, key_prefix)) return false;
  return std::all_of(labels.begin(), labels.end(), [&record](const auto& label) {
    return std::any_of(record.labels.begin(), record.labels.end(), [&label](const auto& has) {
      return has.first == label.first && has.second == label.second;
    });
  });
}

std::string EncodeOperation(const Operation& operation) {
  internal::OperationRecord record;
  const OperationSpec& spec = operation.spec;
  record.set_topic(static_cast<uint32_t>(spec.topic));
  record.set_key_prefix(spec.filter.key_prefix);
  for (const auto& [key, value] : spec.filter.labels) {
    internal::OperationRecord::Label* const label = record.add_labels();
    label->set_key(key);
    label->set_value(value);
  }
  record.set_from_ms(spec.filter.from_ms);
  if (spec.filter.id == storage::MessageId{}) {
    record.set_until_ms(spec.filter.until_ms);
  } else {
    record.set_id_high(spec.filter.id.high);
    record.set_id_low(spec.filter.id.low);
    record.set_id_until_ms(spec.filter.until_ms);
  }
  record.set_action(static_cast<uint32_t>(spec.action));
  record.set_shift_ms(spec.shift_ms);
  record.set_horizon_ms(spec.horizon_ms);
  Write(operation.content, record.mutable_content());
  record.set_state(static_cast<uint32_t>(operation.state));
  record.set_create_ms(operation.create_ms);
  record.set_start_high(operation.start.high);
  record.set_start_low(operation.start.low);
  record.set_end_ms(operation.end_ms);
  record.set_starting(operation.starting);
  record.set_elsewhere(operation.elsewhere);
  record.set_first_ms(operation.first_ms);
  Write(operation.cursor, record.mutable_cursor());
  record.set_matched(operation.matched);
  record.set_changed(operation.changed);
  record.set_unchanged(operation.unchanged);
  return EncodeObject(record);
}

absl::StatusOr<Operation> DecodeOperation(absl::string_view name, absl::string_view bytes) {
  internal::OperationRecord record;
  if (absl::Status status = DecodeObject(bytes, &record); !status.ok()) return status;
  Operation operation;
  operation.name = std::string(name);
  OperationSpec& spec = operation.spec;
  spec.topic = storage::TopicId{record.topic()};
  spec.filter.key_prefix = record.key_prefix();
  for (const internal::OperationRecord::Label& label : record.labels()) {
    spec.filter.labels.emplace_back(label.key(), label.value());
  }
  spec.filter.from_ms = record.from_ms();
  spec.filter.id = {.high = record.id_high(), .low = record.id_low()};
  spec.filter.until_ms =
      spec.filter.id == storage::MessageId{} ? record.until_ms() : record.id_until_ms();
  spec.action = EnumOf<BulkAction>(record.action());
  spec.shift_ms = record.shift_ms();
  spec.horizon_ms = record.horizon_ms();
  operation.content = ReadFingerprint(record.content());
  operation.state = EnumOf<OperationState>(record.state());
  operation.create_ms = record.create_ms();
  operation.start = {.high = record.start_high(), .low = record.start_low()};
  operation.end_ms = record.end_ms();
  operation.starting = record.starting();
  operation.elsewhere = record.elsewhere();
  operation.first_ms = record.first_ms();
  operation.cursor = ReadKey(record.cursor());
  operation.matched = record.matched();
  operation.changed = record.changed();
  operation.unchanged = record.unchanged();
  if (absl::Status status = Check(operation); !status.ok()) return status;
  return operation;
}

}  // namespace duetime::protocol
