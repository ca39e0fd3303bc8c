// SPDX-License-Identifier: Apache-2.0
//
// The table of knobs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/config/config.h"

namespace duetime::config {

enum class Unit : uint8_t { kNone, kCount, kMillis, kBytes };

// Finds a knob's value in a Config.
template <typename T>
class Field {
 public:
  // `accessor` is a lambda without captures: [](auto& config) { return &config.room.value; }
  template <typename Accessor>
  Field(Accessor accessor)  // NOLINT(google-explicit-constructor): a lambda names a field.
      : get_(accessor), mutable_(accessor) {}

  const T& operator()(const Config& config) const { return *get_(config); }
  T& operator()(Config& config) const { return *mutable_(config); }

 private:
  const T* (*get_)(const Config&);
  T* (*mutable_)(Config&);
};

// One knob. The knob like_this is the flag --like-this, and the key like_this in the file.
struct Knob {
  const char* name;
  // The heading above the knob in --help.
  const char* group;
  std::variant<Field<std::string>, Field<std::vector<std::string>>, Field<bool>, Field<uint64_t>>
      field;
  Unit unit = Unit::kNone;
  // Bounds of a number, inclusive.
  uint64_t min = 0;
  uint64_t max = 0;
  // For text: the allowed values, separated by '|', or null for any.
  const char* choices = nullptr;
  const char* description;
  // For text: the value of a flag without one, or null if it needs one.
  const char* bare = nullptr;

  // Null if the value is not a number.
  const Field<uint64_t>* number() const { return std::get_if<Field<uint64_t>>(&field); }
};

// All knobs, in the order of --help.
std::span<const Knob> Knobs();

// "mailbox_bytes_max" -> "mailbox-bytes-max".
std::string FlagName(absl::string_view name);

// "ms", "bytes" or "".
absl::string_view UnitName(Unit unit);

// The value as TOML writes it: 30000, true, "text", ["a", "b"].
std::string ValueText(const Knob& knob, const Config& config);

// The values of all numeric knobs, by name.
std::vector<std::pair<std::string, uint64_t>> Numbers(const Config& config);

// The names of the knobs whose values differ, in the order of the table.
std::vector<std::string> Changed(const Config& before, const Config& after);

// Unit, default and bounds as readable text: "ms, default 30000 (30s), 1000 to 600000".
std::string BoundsText(const Knob& knob);

}  // namespace duetime::config
