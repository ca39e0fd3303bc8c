// SPDX-License-Identifier: Apache-2.0
#include "storage/count_sum.h"

#include "storage/key_codec.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

bool IsDay(absl::string_view key) {
  const std::optional<CountPlace> place = DecodeCountKey(key);
  return place.has_value() && place->row != CountRow::kTopic;
}

}  // namespace

CountSum::CountSum(absl::string_view key) {
  if (IsDay(key)) day_.emplace();
}

bool CountSum::Add(absl::string_view bytes) {
  if (day_.has_value()) return day_->Add(bytes);
  const std::optional<CountDelta> delta = DecodeCountDelta(bytes);
  if (!delta.has_value()) return false;
  total_ = Sum(total_, *delta);
  return true;
}

std::string CountSum::Encode() const {
  if (day_.has_value()) return day_->Encode();
  const auto bytes = EncodeCountDelta(total_);
  return std::string(bytes.data(), bytes.size());
}

bool CountSum::IsZero(absl::string_view key, absl::string_view value) {
  return IsDay(key) ? value.empty() : DecodeCountDelta(value) == CountDelta{};
}

}  // namespace duetime::storage
