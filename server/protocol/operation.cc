// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/operation.h"

#include <algorithm>

#include "absl/strings/match.h"

#include "server/protocol/field_codec.h"

namespace duetime::protocol {
namespace {

constexpr uint8_t kOperationVersion = 1;

}  // namespace

bool MessageFilter::Matches(const storage::MessageRecord& record) const {
  if (record.header.deliver_ms < from_ms || record.header.deliver_ms >= until_ms) return false;
  if (!absl::StartsWith(record.key, key_prefix)) return false;
  return std::all_of(labels.begin(), labels.end(), [&record](const auto& label) {
    return std::any_of(record.labels.begin(), record.labels.end(), [&label](const auto& has) {
      return has.first == label.first && has.second == label.second;
    });
  });
}

std::string EncodeOperation(const Operation& operation) {
  FieldWriter writer(kOperationVersion);
  const OperationSpec& spec = operation.spec;
  writer.Number(static_cast<uint64_t>(spec.topic));
  writer.Text(spec.filter.key_prefix).Number(spec.filter.labels.size());
  for (const auto& [key, value] : spec.filter.labels) writer.Text(key).Text(value);
  writer.Number(spec.filter.from_ms).Number(spec.filter.until_ms);
  writer.Number(static_cast<uint64_t>(spec.action));
  writer.Number(static_cast<uint64_t>(spec.shift_ms)).Number(spec.horizon_ms);
  writer.Number(operation.content.high).Number(operation.content.low);
  writer.Number(static_cast<uint64_t>(operation.state));
  writer.Number(operation.create_ms).Number(operation.end_ms);
  writer.Number(operation.cursor.due_ms);
  writer.Number(operation.cursor.id.high).Number(operation.cursor.id.low);
  writer.Number(operation.matched).Number(operation.changed).Number(operation.unchanged);
  return writer.Take();
}

absl::StatusOr<Operation> DecodeOperation(absl::string_view name, absl::string_view bytes) {
  FieldReader reader(bytes, kOperationVersion);
  Operation operation;
  operation.name = std::string(name);
  OperationSpec& spec = operation.spec;
  spec.topic = static_cast<storage::TopicId>(reader.Number());
  spec.filter.key_prefix = reader.Text();
  const uint64_t labels = reader.Number();
  for (uint64_t i = 0; i < labels && reader.ok(); ++i) {
    std::string key = reader.Text();
    spec.filter.labels.emplace_back(std::move(key), reader.Text());
  }
  spec.filter.from_ms = reader.Number();
  spec.filter.until_ms = reader.Number();
  spec.action = static_cast<BulkAction>(reader.Number());
  spec.shift_ms = static_cast<int64_t>(reader.Number());
  spec.horizon_ms = reader.Number();
  operation.content.high = reader.Number();
  operation.content.low = reader.Number();
  operation.state = static_cast<OperationState>(reader.Number());
  operation.create_ms = reader.Number();
  operation.end_ms = reader.Number();
  operation.cursor.due_ms = reader.Number();
  operation.cursor.id.high = reader.Number();
  operation.cursor.id.low = reader.Number();
  operation.matched = reader.Number();
  operation.changed = reader.Number();
  operation.unchanged = reader.Number();
  if (absl::Status status = reader.Done(); !status.ok()) return status;
  return operation;
}

}  // namespace duetime::protocol
