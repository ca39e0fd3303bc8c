// SPDX-License-Identifier: Apache-2.0
//
// A bulk operation: its request, and its progress in a shard.
#pragma once

#include <cstdint>
#include <map>
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

// kRedrive sends each dead letter back to its original topic.
enum class BulkAction : uint8_t { kCancel = 1, kShift = 2, kRelease = 3, kPurge = 4, kRedrive = 5 };
enum class OperationState : uint8_t { kRunning = 1, kDone = 2, kStopped = 3 };

// Selects messages of a topic. A message must meet all conditions. An empty condition matches every
// message.
struct MessageFilter {
  std::string key_prefix;
  // The message has all these labels with these values.
  std::vector<std::pair<std::string, std::string>> labels;
  // from <= deliver time < until.
  uint64_t from_ms = 0;
  uint64_t until_ms = storage::MessageId::kDueMax;
  // The message has this id. Empty: any.
  storage::MessageId id = {};

  bool Matches(const storage::MessageId& message, const storage::MessageRecord& record) const;
};

struct OperationSpec {
  storage::TopicId topic{};
  MessageFilter filter;
  BulkAction action{};
  // For kShift. Negative: earlier.
  int64_t shift_ms = 0;
  // For kShift: a message that would move beyond now + horizon_ms stays unchanged.
  uint64_t horizon_ms = 0;
};

// The request and the progress of an operation in a shard. Each shard keeps one as an object
// (ObjectKind::kOperation, under its name).
struct Operation {
  std::string name;
  OperationSpec spec;
  // Distinguishes a repeat of the request from another request with the same name.
  storage::Fingerprint content;
  OperationState state = OperationState::kRunning;
  // The operation skips messages that were changed after this time.
  uint64_t create_ms = 0;
  // The operation skips messages with this id or a later one, because they were accepted after its
  // start, whatever the clock said. Empty in an operation that an older program started: create_ms
  // then decides for accepted messages, too.
  storage::MessageId start = {};
  uint64_t end_ms = 0;
  // In shard 0: the start of the operation is not known to have reached all shards or, with
  // `elsewhere`, all cells.
  bool starting = false;
  // Other cells start the operation as well. Only a repeat of the request, or a stop,
  // ends such a start.
  bool elsewhere = false;
  // The create_ms in shard 0, which all parts of an operation have in common. It distinguishes them
  // from parts of an earlier operation with the same name. 0 in operations of older programs.
  uint64_t first_ms = 0;
  // The operation has decided every message before this place.
  storage::MessageKey cursor;
  uint64_t matched = 0;
  uint64_t changed = 0;
  uint64_t unchanged = 0;
};

// The parts of one operation, by shard.
using OperationParts = std::map<uint16_t, Operation>;

std::string EncodeOperation(const Operation& operation);
absl::StatusOr<Operation> DecodeOperation(absl::string_view name, absl::string_view bytes);

}  // namespace duetime::protocol
