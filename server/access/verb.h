// SPDX-License-Identifier: Apache-2.0
//
// The verbs of rights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace duetime::access {

// The kinds of actions that a rule allows, each on some topics.
enum class Verb : uint8_t {
  // Schedule and reschedule messages; recurrences.
  kSchedule,
  kCancel,
  // See messages, topics and counts, without payloads and attributes.
  kRead,
  // See payloads and attributes of messages, and all that kRead allows.
  kReadPayloads,
  // Receive messages, with their payloads, and settle them.
  kSubscribe,
  // Create, change and delete topics and subscriptions; bulk operations.
  kAdmin,
  // What concerns the whole server. Needs no topic.
  kOperate,
};

inline constexpr size_t kVerbCount = 7;
inline constexpr std::array<const char*, kVerbCount> kVerbNames = {
    "schedule", "cancel", "read", "read_payloads", "subscribe", "admin", "operate"};

inline const char* NameOf(Verb verb) { return kVerbNames[static_cast<size_t>(verb)]; }

inline std::optional<Verb> ParseVerb(absl::string_view name) {
  for (size_t i = 0; i < kVerbCount; ++i) {
    if (name == kVerbNames[i]) return static_cast<Verb>(i);
  }
  return std::nullopt;
}

// A set of verbs, one bit each.
class VerbSet {
 public:
  void Add(Verb verb) { bits_ |= BitOf(verb); }
  bool Has(Verb verb) const { return (bits_ & BitOf(verb)) != 0; }

 private:
  static uint8_t BitOf(Verb verb) { return static_cast<uint8_t>(1U << static_cast<size_t>(verb)); }

  uint8_t bits_ = 0;
};

}  // namespace duetime::access
