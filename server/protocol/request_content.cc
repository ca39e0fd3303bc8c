// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/request_content.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"

#include "storage/byte_order.h"
#include "storage/message_id.h"

namespace duetime::protocol {
namespace {

// Writes a first byte, then numbers and texts, little-endian.
class ContentWriter {
 public:
  ContentWriter& Number(uint64_t value) {
    char bytes[sizeof(value)];
    storage::StoreLittleEndian(value, bytes);
    bytes_.append(bytes, sizeof(bytes));
    return *this;
  }
  ContentWriter& Zeros(size_t count) {
    for (size_t i = 0; i < count; ++i) Number(0);
    return *this;
  }
  ContentWriter& Text(absl::string_view text) {
    Number(text.size());
    bytes_.append(text.data(), text.size());
    return *this;
  }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_ = "\1";
};

}  // namespace

std::string ContentOf(const OperationSpec& spec) {
  ContentWriter writer;
  writer.Number(static_cast<uint64_t>(spec.topic));
  writer.Text(spec.filter.key_prefix).Number(spec.filter.labels.size());
  for (const auto& [key, value] : spec.filter.labels) writer.Text(key).Text(value);
  writer.Number(spec.filter.from_ms).Number(spec.filter.until_ms);
  writer.Number(static_cast<uint64_t>(spec.action));
  writer.Number(static_cast<uint64_t>(spec.shift_ms)).Number(spec.horizon_ms);
  // Fields of the object that had this form at first, with their first values.
  writer.Number(0).Number(0).Number(static_cast<uint64_t>(OperationState::kRunning)).Zeros(8);
  if (spec.filter.id != storage::MessageId{}) {
    writer.Number(spec.filter.id.high).Number(spec.filter.id.low);
  }
  return writer.Take();
}

std::string ContentOf(const RecurrenceSpec& spec) {
  ContentWriter writer;
  const calendar::RecurrenceRule& rule = spec.rule;
  writer.Number(static_cast<uint64_t>(spec.topic));
  writer.Text(rule.cron).Number(static_cast<uint64_t>(rule.interval_ms)).Text(rule.time_zone);
  writer.Number(static_cast<uint64_t>(rule.start_ms)).Number(rule.end_ms.has_value() ? 1 : 0);
  writer.Number(static_cast<uint64_t>(rule.end_ms.value_or(0))).Number(rule.max_count);
  writer.Number(static_cast<uint64_t>(rule.jitter_ms));
  writer.Number(static_cast<uint64_t>(spec.overlap)).Number(static_cast<uint64_t>(spec.misfire));
  writer.Text(spec.message);
  // As in the content of an operation.
  writer.Number(0).Number(0).Number(static_cast<uint64_t>(RecurrenceStatus::kActive)).Zeros(13);
  return writer.Take();
}

}  // namespace duetime::protocol
