// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/mailbox.h"

#include <utility>
#include <variant>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/activity.h"
#include "server/protocol/commands.h"

namespace duetime::runtime {
namespace {

using protocol::CancelCommand;
using protocol::Command;
using protocol::ScheduleCommand;
using protocol::SettleCommand;

struct ByteCounter {
  size_t operator()(const ScheduleCommand& command) const {
    size_t bytes = command.messages.size() * sizeof(protocol::NewMessage);
    for (const protocol::NewMessage& message : command.messages) bytes += message.record.size();
    return bytes;
  }
  size_t operator()(const SettleCommand& command) const {
    size_t bytes = command.begun.size() * sizeof(protocol::LeaseToken) +
                   command.settlements.size() * sizeof(protocol::Settlement);
    for (const protocol::Settlement& one : command.settlements) bytes += one.reason.size();
    return bytes;
  }
  size_t operator()(const protocol::CancelBatchCommand& command) const {
    size_t bytes = command.items.size() * sizeof(CancelCommand);
    for (const CancelCommand& item : command.items) bytes += item.target.key.size();
    return bytes;
  }
  size_t operator()(const protocol::InspectCommand& command) const {
    return command.keys.size() * sizeof(storage::MessageKey);
  }
  size_t operator()(const protocol::RecurrenceCommand& command) const {
    return command.name.size() + command.spec.message.size();
  }
  template <typename Other>
  size_t operator()(const Other&) const {
    return 0;
  }
};

struct WeightCounter {
  size_t operator()(const ScheduleCommand& command) const { return command.messages.size(); }
  size_t operator()(const SettleCommand& command) const {
    return command.begun.size() + command.settlements.size();
  }
  size_t operator()(const protocol::CancelBatchCommand& command) const {
    return command.items.size();
  }
  size_t operator()(const protocol::InspectCommand& command) const { return command.keys.size(); }
  size_t operator()(const protocol::ActivityCommand& command) const {
    return command.list->topics.size() + command.list->subscriptions.size();
  }
  template <typename Other>
  size_t operator()(const Other&) const {
    return 0;
  }
};

template <typename Any>
bool IsAlwaysTaken(const Any& command) {
  return std::visit([]<typename Of>(const Of&) { return kAlwaysTaken<Of>; }, command);
}

}  // namespace

size_t CommandBytes(const Command& command) {
  return sizeof(Command) + std::visit(ByteCounter{}, command);
}

size_t CommandBytes(const catalog::Command& command) {
  // One estimate serves all commands, because names and settings are short.
  constexpr size_t kNamesBytes = 512;
  static_cast<void>(command);
  return sizeof(command) + kNamesBytes;
}

size_t CommandWeight(const Command& command) { return 1 + std::visit(WeightCounter{}, command); }

template <typename Command>
absl::Status Mailbox<Command>::Post(Command command) {
  const size_t bytes = CommandBytes(command);
  bool wake = false;
  {
    base::MutexLock lock(&mutex_);
    if (stopping_) return base::DrainingError();
    const bool full = counted_commands_ >= limits_.commands_max ||
                      (counted_commands_ > 0 && counted_bytes_ + bytes > limits_.bytes_max);
    if (full && !IsAlwaysTaken(command)) {
      ++refused_;
      return counted_commands_ >= limits_.commands_max
                 ? base::OverloadedError("mailbox in commands", limits_.commands_max)
                 : base::OverloadedError("mailbox in bytes", limits_.bytes_max);
    }
    commands_.push_back(std::move(command));
    ++counted_commands_;
    counted_bytes_ += bytes;
    wake = TakeWakeLocked();
  }
  if (wake) wake_.NotifyOne();
  return absl::OkStatus();
}

template <typename Command>
void Mailbox<Command>::Complete(std::span<const Completion> completions) {
  bool wake = false;
  {
    base::MutexLock lock(&mutex_);
    completions_.insert(completions_.end(), completions.begin(), completions.end());
    wake = TakeWakeLocked();
  }
  if (wake) wake_.NotifyOne();
}

template <typename Command>
void Mailbox<Command>::Begin() {
  Tell(&Mailbox::begun_);
}

template <typename Command>
void Mailbox<Command>::StopDispatch() {
  Tell(&Mailbox::stop_dispatch_);
}

template <typename Command>
void Mailbox<Command>::Stop() {
  Tell(&Mailbox::stopping_);
}

template <typename Command>
void Mailbox<Command>::Wake() {
  Tell(&Mailbox::news_);
}

template <typename Command>
void Mailbox<Command>::Tell(bool Mailbox::*flag) {
  bool wake = false;
  {
    base::MutexLock lock(&mutex_);
    this->*flag = true;
    news_ = true;
    wake = TakeWakeLocked();
  }
  if (wake) wake_.NotifyOne();
}

template <typename Command>
void Mailbox<Command>::Take(bool take_commands, const Handled& handled, Taken* taken) {
  taken->commands.clear();
  taken->completions.clear();
  base::MutexLock lock(&mutex_);
  ReleaseLocked(handled);
  if (take_commands) taken->commands.swap(commands_);
  taken->completions.swap(completions_);
  taken->begun = begun_;
  taken->stop_dispatch = stop_dispatch_;
  taken->stopping = stopping_ && commands_.empty();
  news_ = false;
}

template <typename Command>
void Mailbox<Command>::Wait(std::chrono::microseconds timeout, size_t wake_commands,
                            const Handled& handled) {
  DT_CHECK_GT(wake_commands, 0u);
  base::MutexLock lock(&mutex_);
  ReleaseLocked(handled);
  if (ReadyLocked(wake_commands)) return;
  wake_commands_ = wake_commands;
  wake_.WaitFor(&mutex_, timeout);
  wake_commands_ = 0;
}

template <typename Command>
MailboxStats Mailbox<Command>::stats() const {
  base::MutexLock lock(&mutex_);
  return MailboxStats{.commands = counted_commands_, .bytes = counted_bytes_, .refused = refused_};
}

template <typename Command>
void Mailbox<Command>::ReleaseLocked(const Handled& handled) {
  DT_CHECK_GE(counted_commands_, handled.commands);
  DT_CHECK_GE(counted_bytes_, handled.bytes);
  counted_commands_ -= handled.commands;
  counted_bytes_ -= handled.bytes;
}

template <typename Command>
bool Mailbox<Command>::ReadyLocked(size_t wake_commands) const {
  return commands_.size() >= wake_commands || !completions_.empty() || news_;
}

template <typename Command>
bool Mailbox<Command>::TakeWakeLocked() {
  if (wake_commands_ == 0 || !ReadyLocked(wake_commands_)) return false;
  // Wakes the engine only once.
  wake_commands_ = 0;
  return true;
}

template class Mailbox<protocol::Command>;
template class Mailbox<catalog::Command>;

}  // namespace duetime::runtime
