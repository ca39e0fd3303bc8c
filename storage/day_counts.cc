// SPDX-License-Identifier: Apache-2.0
#include "storage/day_counts.h"

#include <optional>

#include "server/base/check.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

// Appends the varint of Protocol Buffers: 7 bits in each byte, the lowest first. The top bit of a
// byte is set if another byte follows.
void AppendVarint(uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

std::optional<uint64_t> TakeVarint(absl::string_view* bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    const uint64_t bits = byte & 0x7f;
    // No bit beyond the 64th, and no zero at the end: a number has one encoding.
    if (bits << shift >> shift != bits || (byte == 0 && shift != 0)) return std::nullopt;
    value |= bits << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Small numbers for small amounts of either sign.
uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) { return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1))); }

}  // namespace

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
