// SPDX-License-Identifier: Apache-2.0
//
// A bulk operation as it is asked for, and how far a shard is with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/types.h"

namespace duetime::protocol {

// kRedrive: each dead letter goes back to the topic it comes from.
enum class BulkAction : uint8_t { kCancel = 1, kShift = 2, kRelease = 3, kPurge = 4, kRedrive = 5 };
enum class OperationState : uint8_t { kRunning = 1, kDone = 2, kStopped = 3 };

// Which messages of a topic. All conditions hold; an empty one holds for all.
struct MessageFilter {
  std::string key_prefix;
  // All of these, with these values.
  std::vector<std::pair<std::string, std::string>> labels;
  // from <= deliver time < until.
  uint64_t from_ms = 0;
  uint64_t until_ms = storage::MessageId::kDueMax;

  bool Matches(const storage::MessageRecord& record) const;
};

struct OperationSpec {
  storage::TopicId topic{};
  MessageFilter filter;
  BulkAction action{};
  // For kShift. Earlier if negative.
  int64_t shift_ms = 0;
  // For kShift: what would be delivered after now + this is left alone.
  uint64_t horizon_ms = 0;
};

// Kept as an object of each shard (ObjectKind::kOperation, its name): what the operation is, and
// what the shard has done of it.
struct Operation {
  std::string name;
  OperationSpec spec;
  // Tells a repeat of the request from another of the same name.
  storage::Fingerprint content;
  OperationState state = OperationState::kRunning;
  // Messages that were accepted or changed after this are not its business.
  uint64_t create_ms = 0;
  uint64_t end_ms = 0;
  // Everything below is decided.
  storage::MessageKey cursor;
  uint64_t matched = 0;
  uint64_t changed = 0;
  uint64_t unchanged = 0;
};

std::string EncodeOperation(const Operation& operation);
absl::StatusOr<Operation> DecodeOperation(absl::string_view name, absl::string_view bytes);

}  // namespace duetime::protocol
