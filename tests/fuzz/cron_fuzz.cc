// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes cron expressions with any text, and with texts made of their tokens.
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/calendar/cron.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/target.h"

namespace {

using duetime::calendar::CronExpression;
using duetime::test::ByteReader;

// Checks that a text is an expression or gives an INVALID_CRON error, and that an expression's
// occurrences follow each other in order.
void CheckText(const std::string& text, int64_t after_ms, const absl::TimeZone& zone) {
  const auto expression = CronExpression::Parse(text, "cron");
  if (!expression.ok()) {
    DT_CHECK(absl::IsInvalidArgument(expression.status()));
    const auto detail = duetime::base::GetErrorDetail(expression.status());
    DT_CHECK(detail.has_value());
    DT_CHECK_EQ(detail->reason, std::string("INVALID_CRON"));
    return;
  }
  DT_CHECK_EQ(expression->text(), text);
  const std::optional<int64_t> first = expression->Next(after_ms, zone);
  if (!first.has_value()) return;
  DT_CHECK_GT(*first, after_ms);
  DT_CHECK_EQ(*first % 1'000, 0);
  // No occurrence lies between: `first` is also the next one for every time before it.
  DT_CHECK(expression->Next(*first - 1, zone) == first);
  const int64_t before_ms = after_ms < 0 ? -1 : after_ms;
  DT_CHECK(expression->Next(before_ms + (*first - before_ms) / 2, zone) >= first);
  const std::optional<int64_t> second = expression->Next(*first, zone);
  DT_CHECK(!second.has_value() || *second > *first);
}

// A text that is likely to be an expression.
std::string MakeText(ByteReader* reader) {
  constexpr std::array<const char*, 32> kParts = {
      "*",  "*",  "0",   "1",  "2",   "5",   "7",   "9", "12", "23",    "28",
      "29", "30", "31",  "59", "60",  ",",   "-",   "/", "/2", "?",     "L",
      "LW", "#",  "L-3", "#5", "FEB", "fri", "SUN", ":", "-5", "@daily"};
  std::string text;
  for (int fields = reader->Byte() % 2 + 5; fields > 0; --fields) {
    for (int parts = reader->Byte() % 4; parts >= 0; --parts) {
      text += kParts[reader->Byte() % kParts.size()];
    }
    text += ' ';
  }
  return text;
}

const std::array<absl::TimeZone, 4>& Zones() {
  static const auto* const zones = [] {
    auto* made = new std::array<absl::TimeZone, 4>;
    constexpr std::array<const char*, 3> kNames = {"America/New_York", "Australia/Lord_Howe",
                                                   "Pacific/Apia"};
    for (size_t i = 0; i < kNames.size(); ++i) DT_CHECK(absl::LoadTimeZone(kNames[i], &(*made)[i]));
    return made;
  }();
  return *zones;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader reader(data, size);
  const absl::TimeZone& zone = Zones()[reader.Byte() % Zones().size()];
  const auto after_ms = static_cast<int64_t>(reader.Magnitude());
  const std::string text = reader.Bytes(SIZE_MAX);
  CheckText(text, after_ms, zone);
  CheckText(text, ~after_ms, zone);

  ByteReader again(data, size);
  const std::string made = MakeText(&again);
  CheckText(made, after_ms, zone);
  return 0;
}
