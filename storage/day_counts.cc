// SPDX-License-Identifier: Apache-2.0
#include "storage/day_counts.h"

#include <optional>

#include "server/base/check.h"
#include "storage/value_codec.h"
#include "storage/varint.h"

namespace duetime::storage {

void DayEncoder::Add(size_t minute, const CountDelta& delta) {
  DT_CHECK(minute >= next_ && minute < kMinutesPerDay);
  if (delta == CountDelta{}) return;
  AppendVarint(minute - next_, &bytes_);
  AppendVarint(ZigZag(delta.messages), &bytes_);
  AppendVarint(ZigZag(delta.bytes), &bytes_);
  next_ = minute + 1;
}

bool DayDecoder::Next() {
  if (rest_.empty()) return false;
  const std::optional<uint64_t> gap = TakeVarint(&rest_);
  const std::optional<uint64_t> messages = TakeVarint(&rest_);
  const std::optional<uint64_t> bytes = TakeVarint(&rest_);
  if (!gap.has_value() || !messages.has_value() || !bytes.has_value() ||
      *gap >= kMinutesPerDay - next_) {
    invalid_ = true;
    rest_ = {};
    return false;
  }
  minute_ = next_ + static_cast<size_t>(*gap);
  next_ = minute_ + 1;
  delta_ = {.messages = UnZigZag(*messages), .bytes = UnZigZag(*bytes)};
  if (delta_ == CountDelta{}) invalid_ = true;
  return !invalid_;
}

void DayCounts::Add(size_t minute, const CountDelta& delta) {
  DT_CHECK_LT(minute, kMinutesPerDay);
  minutes_[minute] = Sum(minutes_[minute], delta);
}

bool DayCounts::Add(absl::string_view bytes) {
  DayDecoder decoder(bytes);
  while (decoder.Next()) Add(decoder.minute(), decoder.delta());
  return !decoder.invalid();
}

std::string DayCounts::Encode() const {
  DayEncoder encoder;
  for (size_t minute = 0; minute < kMinutesPerDay; ++minute) encoder.Add(minute, minutes_[minute]);
  return encoder.bytes();
}

}  // namespace duetime::storage
