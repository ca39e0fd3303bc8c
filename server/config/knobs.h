// SPDX-License-Identifier: Apache-2.0
//
// The table of knobs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/config/config.h"

namespace duetime::config {

enum class Unit : uint8_t { kNone, kCount, kMillis, kBytes };

// One thing an operator may set. As a flag it is called --like-this, in the file like_this.
struct Knob {
  using Member = std::variant<std::string Config::*, std::vector<std::string> Config::*,
                              bool Config::*, uint64_t Config::*>;
  const char* name;
  // Heading in --help.
  const char* group;
  Member member;
  Unit unit = Unit::kNone;
  // Bounds of a number, both allowed.
  uint64_t min = 0;
  uint64_t max = 0;
  // For text: the allowed values, separated by '|', or null for any.
  const char* choices = nullptr;
  const char* description;
};

// Every knob, in the order in which people should read them.
std::span<const Knob> Knobs();

// "mailbox_bytes_max" -> "mailbox-bytes-max".
std::string FlagName(absl::string_view name);

// "ms", "bytes" or "".
absl::string_view UnitName(Unit unit);

// The value as TOML writes it: 30000, true, "text", ["a", "b"].
std::string ValueText(const Knob& knob, const Config& config);

// Unit, default and bounds for people: "ms, default 30000 (30s), 1000 to 600000".
std::string BoundsText(const Knob& knob);

}  // namespace duetime::config
