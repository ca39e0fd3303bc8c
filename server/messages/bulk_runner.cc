// SPDX-License-Identifier: Apache-2.0
#include "server/messages/bulk_runner.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/minute_range.h"
#include "server/protocol/reply_to.h"
#include "storage/time_units.h"

namespace duetime::messages {

using storage::Durability;
using storage::MessageHeadRef;
using storage::MessageId;
using storage::MessageKey;
using storage::ObjectKind;

namespace {

constexpr size_t kRecoverPage = 100;
// The messages that one page decides, and the messages that it scans: about a millisecond.
constexpr storage::ScanLimit kPage{.entries = 200, .bytes = 1 << 20};
constexpr size_t kScanMax = 2'000;
// The whole records that one page may write again: one append must hold them.
constexpr uint64_t kPageWriteBytesMax = uint64_t{4} << 20;
// How long an operation is kept after its end.
constexpr uint64_t kKeepMs = storage::kDayMs;
// How often shard 0 looks whether a start of an earlier run has reached the other shards.
constexpr uint64_t kLookMs = 200;

absl::Status OperationNotFoundError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kNotFound, "there is no operation of this name",
                         {.reason = "OPERATION_NOT_FOUND",
                          .field = "name",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
}

absl::Status OperationExistsError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kAlreadyExists,
                         "there is an operation of this name that does something else",
                         {.reason = "OPERATION_EXISTS",
                          .field = "name",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
}

absl::Status OperationLimitError(size_t limit) {
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("the limit of operations that run, or ended within "
                                      "request_retention, is reached: ",
                                      limit),
                         {.reason = "OPERATION_LIMIT",
                          .field = "",
                          .metadata = {{"limit", absl::StrCat(limit)}},
                          .retry_after_ms = 60'000});
}

// Whether the operation is to decide this message.
bool Selects(const protocol::Operation& operation, const MessageId& id,
             const storage::MessageRecord& head) {
  const bool accepted_later = operation.start == MessageId{}
                                  ? head.header.accept_ms > operation.create_ms
                                  : id >= operation.start;
  return head.header.topic == operation.spec.topic && !accepted_later &&
         head.update_ms <= operation.create_ms && operation.spec.filter.Matches(id, head);
}

}  // namespace

BulkRunner::BulkRunner(const delivery::Core& core, BulkChanges* changes, const MessageLocks* locks)
    : core_(core),
      operations_max_(core.limits.operations_max),
      repeats_ms_(core.limits.request_retention_ms),
      changes_(changes),
      locks_(locks) {}

absl::Status BulkRunner::Recover(base::Now now) {
  DT_CHECK(operations_.empty());
  absl::Status status = ReadOperations(core_.shard, [this](protocol::Operation operation) {
    if (operation.state == protocol::OperationState::kRunning) ++running_;
    last_create_ms_ = std::max(last_create_ms_, operation.create_ms);
    // Older programs set it in every shard.
    if (core_.shard != 0) operation.starting = false;
    operations_[operation.name] = std::move(operation);
  });
  if (status.ok() && core_.shard != 0) status = CompleteStarts(now);
  if (status.ok()) status = CompleteStops(now);
  for (const auto& [name, operation] : operations_) {
    if (operation.starting && !operation.elsewhere) starts_.push_back(name);
  }
  if (status.ok()) status = EndStarts(now);
  if (status.ok()) Forget(now);
  return status;
}

absl::Status BulkRunner::ReadOperations(
    uint16_t shard, const std::function<void(protocol::Operation)>& visit) const {
  std::string after;
  for (;;) {
    std::vector<storage::ObjectRef> objects;
    if (absl::Status status =
            core_.store.ScanObjects(ObjectKind::kOperation, shard, after, kRecoverPage, &objects);
        !status.ok()) {
      return status;
    }
    for (const storage::ObjectRef& object : objects) {
      auto operation = protocol::DecodeOperation(object.name, object.value);
      if (!operation.ok()) return operation.status();
      visit(*std::move(operation));
    }
    if (objects.size() < kRecoverPage) return absl::OkStatus();
    after = objects.back().name;
  }
}

absl::Status BulkRunner::CompleteStarts(base::Now now) {
  return ReadOperations(0, [this, now](const protocol::Operation& first) {
    // Later, this shard may have had the operation, and dropped it.
    const bool recent = first.first_ms + std::min(repeats_ms_, kKeepMs) > now.wall_ms;
    if (!first.starting || !recent) return;
    protocol::OperationCommand command;
    command.name = first.name;
    command.spec = first.spec;
    command.content = first.content;
    command.first_ms = first.first_ms;
    protocol::Operation part;
    // An error means that there is no room, or that another operation of this name runs here. The
    // whole then stays STARTING.
    Start(now, command, &part).IgnoreError();
  });
}

absl::Status BulkRunner::CompleteStops(base::Now now) {
  for (auto& [name, operation] : operations_) {
    if (operation.state != protocol::OperationState::kRunning && !operation.starting) continue;
    bool everywhere = true;
    bool stopped = false;
    if (absl::Status status = LookAtOthers(operation, &everywhere, &stopped); !status.ok()) {
      return status;
    }
    if (!stopped) continue;
    operation.starting = operation.elsewhere = false;
    End(now, protocol::OperationState::kStopped, &operation);
  }
  return absl::OkStatus();
}

absl::Status BulkRunner::EndStarts(base::Now now) {
  std::vector<std::string> open;
  for (const std::string& name : starts_) {
    const auto it = operations_.find(name);
    if (it == operations_.end() || !it->second.starting) continue;
    bool everywhere = true;
    bool stopped = false;
    absl::Status status = LookAtOthers(it->second, &everywhere, &stopped);
    if (!status.ok()) return status;
    if (everywhere) {
      it->second.starting = false;
      Save(it->second);
    } else {
      open.push_back(name);
    }
  }
  starts_ = std::move(open);
  look_mono_ms_ = starts_.empty() ? UINT64_MAX : now.mono_ms + kLookMs;
  return absl::OkStatus();
}

absl::Status BulkRunner::LookAtOthers(const protocol::Operation& operation, bool* everywhere,
                                      bool* stopped) const {
  for (uint16_t shard = 0; shard < core_.store.shard_count(); ++shard) {
    if (shard == core_.shard) continue;
    const auto object = core_.store.GetObject(ObjectKind::kOperation, shard, operation.name);
    if (!object.ok()) return object.status();
    bool has_part = false;
    if (object->has_value()) {
      const auto part = protocol::DecodeOperation(operation.name, **object);
      if (!part.ok()) return part.status();
      // Operations of older programs have no first_ms, so their parts cannot be matched.
      has_part = operation.first_ms != 0 && part->first_ms == operation.first_ms;
      if (has_part && part->state == protocol::OperationState::kStopped) *stopped = true;
    }
    if (!has_part) *everywhere = false;
  }
  return absl::OkStatus();
}

void BulkRunner::Forget(base::Now now) {
  forget_ms_ = std::numeric_limits<uint64_t>::max();
  std::erase_if(operations_, [&](const auto& item) {
    const protocol::Operation& operation = item.second;
    if (operation.state == protocol::OperationState::kRunning) return false;
    if (operation.end_ms + kKeepMs > now.wall_ms) {
      forget_ms_ = std::min(forget_ms_, operation.end_ms + kKeepMs);
      return false;
    }
    core_.writer.RemoveObject(ObjectKind::kOperation, item.first, Durability::kBuffered);
    return true;
  });
}

bool BulkRunner::ForgetOldest(base::Now now, bool check_only) {
  auto oldest = operations_.end();
  const auto started = [](const protocol::Operation& operation) {
    return operation.first_ms != 0 ? operation.first_ms : operation.create_ms;
  };
  for (auto it = operations_.begin(); it != operations_.end(); ++it) {
    const protocol::Operation& operation = it->second;
    const bool ended = operation.state != protocol::OperationState::kRunning && !operation.starting;
    if (!ended || operation.end_ms + repeats_ms_ > now.wall_ms) continue;
    if (oldest == operations_.end() || started(operation) < started(oldest->second)) oldest = it;
  }
  if (oldest == operations_.end()) return false;
  if (check_only) return true;
  core_.writer.RemoveObject(ObjectKind::kOperation, oldest->first, Durability::kBuffered);
  operations_.erase(oldest);
  return true;
}

void BulkRunner::Save(const protocol::Operation& operation) {
  core_.writer.PutObject(ObjectKind::kOperation, operation.name,
                         protocol::EncodeOperation(operation), Durability::kSynced);
}

void BulkRunner::End(base::Now now, protocol::OperationState state,
                     protocol::Operation* operation) {
  DT_CHECK(state != protocol::OperationState::kRunning);
  if (operation->state == protocol::OperationState::kRunning) {
    DT_CHECK_GT(running_, 0u);
    --running_;
    // A later cancel of its start must not keep the operation for longer.
    operation->end_ms = now.wall_ms;
  }
  operation->state = state;
  forget_ms_ = std::min(forget_ms_, operation->end_ms + kKeepMs);
  Save(*operation);
}

void BulkRunner::Handle(base::Now now, const protocol::OperationCommand& command) {
  protocol::OperationReply reply = protocol::ReplyTo(command);
  if (command.spec.has_value()) {
    reply.status = Start(now, command, &reply.operation);
  } else if (const auto it = operations_.find(command.name); it == operations_.end()) {
    reply.status = OperationNotFoundError(command.name);
  } else {
    protocol::Operation& operation = it->second;
    if (operation.state == protocol::OperationState::kRunning || operation.starting) {
      operation.starting = operation.elsewhere = false;
      End(now, protocol::OperationState::kStopped, &operation);
    }
    reply.operation = operation;
  }
  core_.AnswerAfterCommit(std::move(reply));
}

absl::Status BulkRunner::Start(base::Now now, const protocol::OperationCommand& command,
                               protocol::Operation* result) {
  DT_CHECK(command.spec.has_value());
  const auto known = operations_.find(command.name);
  if (known != operations_.end()) {
    if (known->second.content != command.content) return OperationExistsError(command.name);
    const bool earlier = command.first_ms != 0 && known->second.first_ms != command.first_ms;
    if (!earlier) {
      protocol::Operation& operation = known->second;
      const bool differs = !command.starting || operation.elsewhere != command.elsewhere;
      // A start that has ended stays ended.
      if (operation.starting && differs && !command.validate_only) {
        operation.starting = command.starting;
        operation.elsewhere = command.elsewhere;
        Save(operation);
      }
      *result = operation;
      return absl::OkStatus();
    }
    // Shard 0 has dropped the earlier operation of this name.
    if (known->second.state == protocol::OperationState::kRunning) {
      return OperationExistsError(command.name);
    }
    operations_.erase(known);
  }
  Forget(now);
  // What has ended gives way to what is to run.
  while (operations_.size() >= operations_max_) {
    if (!ForgetOldest(now, command.validate_only)) return OperationLimitError(operations_max_);
    if (command.validate_only) break;
  }
  protocol::Operation operation;
  operation.name = command.name;
  operation.spec = *command.spec;
  operation.content = command.content;
  // The next operation starts at least 2 ms later. So a change by this one, at create_ms + 1,
  // counts as after its own start and before the start of the next one.
  operation.create_ms = std::max(now.wall_ms, last_create_ms_ + 2);
  operation.start = core_.scheduler.NextId();
  // Only shard 0 hears the end of the start.
  operation.starting = command.starting && core_.shard == 0;
  operation.elsewhere = operation.starting && command.elsewhere;
  operation.first_ms = command.first_ms != 0 ? command.first_ms : operation.create_ms;
  operation.cursor = MessageKey::FirstAt(operation.spec.filter.from_ms);
  if (command.validate_only) {
    *result = std::move(operation);
    return absl::OkStatus();
  }
  DT_CHECK_LT(operations_.size(), operations_max_);
  last_create_ms_ = operation.create_ms;
  ++running_;
  Save(operation);
  *result = operation;
  operations_[command.name] = std::move(operation);
  return absl::OkStatus();
}

absl::Status BulkRunner::Step(base::Now now) {
  // An operation names its topic's number, which can get another name later.
  if (now.wall_ms >= forget_ms_) Forget(now);
  if (now.mono_ms >= look_mono_ms_) {
    if (absl::Status status = EndStarts(now); !status.ok()) return status;
  }
  if (running_ == 0 || page_under_way_) return absl::OkStatus();
  // Finds the next running operation, in turn.
  auto it = operations_.upper_bound(last_);
  for (size_t i = 0; i <= operations_.size(); ++i) {
    if (it == operations_.end()) it = operations_.begin();
    if (it->second.state == protocol::OperationState::kRunning) break;
    ++it;
  }
  DT_CHECK(it != operations_.end() && it->second.state == protocol::OperationState::kRunning);
  last_ = it->first;
  if (absl::Status status = RunPage(now, &it->second); !status.ok()) return status;
  // The next page waits for the commit of this one.
  page_under_way_ = true;
  core_.writes.Then([this](base::Now, bool) { page_under_way_ = false; });
  return absl::OkStatus();
}

absl::Status BulkRunner::RunPage(base::Now now, protocol::Operation* operation) {
  DT_CHECK(operation->state == protocol::OperationState::kRunning);
  DT_CHECK(!page_under_way_);
  if (operation->spec.filter.id != MessageId{}) return RunOne(now, operation);
  // A message that was late when it was accepted lies at its acceptance time, which is after its
  // deliver time.
  const uint64_t last_ms =
      std::max(operation->spec.filter.until_ms, std::max(now.wall_ms, operation->create_ms) + 1);
  std::optional<storage::KeyRange> range;
  if (absl::Status status =
          delivery::NextMinute(&core_.store, core_.shard, operation->spec.topic, operation->cursor,
                               std::min(last_ms, MessageId::kDueMax), &range);
      !status.ok()) {
    return status;
  }
  if (!range.has_value()) {
    End(now, protocol::OperationState::kDone, operation);
    return absl::OkStatus();
  }
  storage::Page<MessageHeadRef> page;
  if (absl::Status status =
          core_.store.ScanHeads(core_.shard, operation->spec.topic, *range, kPage, kScanMax, &page);
      !status.ok()) {
    return status;
  }
  operation->cursor = page.next.value_or(range->until);
  uint64_t write_bytes = 0;
  for (const MessageHeadRef& item : page.items) {
    // A damaged message is left alone, as in a list, because it must not stop the shard.
    if (!storage::DecodeMessageHead(item.head, &decoded_).ok()) continue;
    if (!Selects(*operation, item.key.id, decoded_)) continue;
    const bool full = write_bytes > 0 && write_bytes + item.bytes > kPageWriteBytesMax;
    const absl::StatusOr<bool> decided =
        full ? false : Decide(now, decoded_, item.key.id, operation);
    if (!decided.ok()) return decided.status();
    if (!*decided) {
      // The next page begins with this message.
      operation->cursor = item.key;
      break;
    }
    write_bytes += item.bytes;
  }
  Save(*operation);
  return absl::OkStatus();
}

absl::Status BulkRunner::RunOne(base::Now now, protocol::Operation* operation) {
  const MessageId id = operation->spec.filter.id;
  DT_CHECK(id != MessageId{});
  absl::StatusOr<bool> decided = !locks_->ChangeInFlight(id);
  if (*decided) {
    FoundMessage found;
    const absl::StatusOr<bool> pending = changes_->FindPending(now, id, &found);
    if (!pending.ok()) return pending.status();
    // Other shards do not find the message.
    if (*pending && Selects(*operation, id, found.record)) {
      decided = Decide(now, found.record, id, operation);
    }
  }
  if (!decided.ok()) return decided.status();
  if (*decided) {
    End(now, protocol::OperationState::kDone, operation);
  } else {
    Save(*operation);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BulkRunner::Decide(base::Now now, const storage::MessageRecord& head,
                                        const MessageId& id, protocol::Operation* operation) {
  if (locks_->ChangeInFlight(id)) return false;
  const protocol::OperationSpec& spec = operation->spec;
  DT_CHECK(head.header.topic == spec.topic);
  absl::StatusOr<bool> changed = false;
  switch (spec.action) {
    case protocol::BulkAction::kCancel:
      changed = changes_->Cancel(now, id, /*stop_redelivery=*/false);
      break;
    case protocol::BulkAction::kPurge:
      changed = changes_->Cancel(now, id, /*stop_redelivery=*/true);
      break;
    case protocol::BulkAction::kRelease:
      changed = changes_->Move(now, id, now.wall_ms, operation->create_ms + 1);
      break;
    case protocol::BulkAction::kRedrive: {
      const auto redriven = changes_->Redrive(now, id);
      if (!redriven.ok()) return redriven.status();
      if (*redriven == BulkChanges::Redriven::kLater) return false;
      changed = *redriven == BulkChanges::Redriven::kYes;
      break;
    }
    case protocol::BulkAction::kShift: {
      const int64_t shifted = static_cast<int64_t>(head.header.deliver_ms) + spec.shift_ms;
      const auto deliver_ms = static_cast<uint64_t>(std::max<int64_t>(shifted, 0));
      if (deliver_ms > now.wall_ms + spec.horizon_ms) break;
      changed = changes_->Move(now, id, deliver_ms, operation->create_ms + 1);
      break;
    }
  }
  if (!changed.ok()) return changed.status();
  ++operation->matched;
  ++(*changed ? operation->changed : operation->unchanged);
  return true;
}

void BulkRunner::CheckInvariants() const {
  size_t running = 0;
  for (const auto& [name, operation] : operations_) {
    DT_CHECK(name == operation.name);
    if (operation.state == protocol::OperationState::kRunning) ++running;
  }
  DT_CHECK_EQ(running, running_);
}

}  // namespace duetime::messages
