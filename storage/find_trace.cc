// SPDX-License-Identifier: Apache-2.0
#include "storage/find_trace.h"

#include "absl/status/status.h"

#include "storage/key_codec.h"

namespace duetime::storage {

absl::StatusOr<std::optional<Locator>> FindTrace(KvSource* source, uint16_t shard,
                                                 const MessageId& id, OnDamage on_damage) {
  const auto [begin, end] = TraceNeighbours(id);
  const StoreKey lower = EncodeLocatorKey(shard, begin);
  const StoreKey upper = EncodeLocatorKey(shard, end);
  const bool fails = on_damage == OnDamage::kFail;
  const auto range =
      source->NewReader(ColumnFamily::kLocators, lower.bytes(), upper.bytes(), on_damage);
  for (; range->Valid(); range->Next()) {
    const std::optional<MessageId> row = DecodeLocatorKey(range->key());
    absl::StatusOr<std::optional<Locator>> found = absl::DataLossError("a key of traces");
    if (row.has_value()) found = ReadTraceRow(*row, range->value(), id);
    if (found.ok() ? found->has_value() : fails) return found;
  }
  const absl::Status status = range->status();
  if (status.ok() || (absl::IsDataLoss(status) && !fails)) return std::optional<Locator>();
  return status;
}

}  // namespace duetime::storage
