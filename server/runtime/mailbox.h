// SPDX-License-Identifier: Apache-2.0
//
// Mailbox: the queue of one engine, for a shard or for the catalog.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "server/base/mutex.h"
#include "server/catalog/commands.h"
#include "server/protocol/commands.h"
#include "server/runtime/runtime_options.h"
#include "storage/journal.h"

namespace duetime::runtime {

// The outcome of one batch.
struct Completion {
  uint64_t sequence = 0;
  storage::AppendOutcome outcome{};
};

// Gets the outcomes of the batches that a participant submitted.
class CompletionSink {
 public:
  // REQUIRES: `completions` are in the order of their sequences.
  virtual void Complete(std::span<const Completion> completions) = 0;

 protected:
  ~CompletionSink() = default;
};

// A snapshot of one mailbox.
struct MailboxStats {
  size_t commands = 0;
  size_t bytes = 0;
  // Commands refused since the start because the mailbox was full.
  uint64_t refused = 0;
};

// The size of a command's records and lists in bytes, which counts against bytes_max.
size_t CommandBytes(const protocol::Command& command);
size_t CommandBytes(const catalog::Command& command);
// The number of messages or leases in a command, which measures its work.
size_t CommandWeight(const protocol::Command& command);

template <typename Command, typename... Kinds>
inline constexpr bool kIsOneOf = (std::is_same_v<Command, Kinds> || ...);
// True for the kinds of commands that a full mailbox takes too, because another limit bounds how
// many of them wait.
template <typename Command>
inline constexpr bool kAlwaysTaken = kIsOneOf<  //
    Command,
    // The catalog makes one change of a topic at a time.
    protocol::TopicCommand, protocol::SubscriptionCommand,
    // A subscriber's stream, or a Pull, is one of streams_max, and has a credit.
    protocol::AttachCommand, protocol::DetachCommand, protocol::PullCommand,
    protocol::EndPullCommand, protocol::CreditCommand,
    // The API bounds the settlements of a stream, and the calls of Settle and for operations.
    protocol::SettleCommand, protocol::OperationCommand,
    // To the catalog: one for each of its own commands, and one for a topic that a client uses.
    protocol::TopicReply, protocol::SubscriptionReply, catalog::TopicUsed,
    // The start of a node posts one.
    catalog::AwaitRecovery>;

// A queue of commands and completions for one engine. Many threads post. The engine takes
// everything at once by swapping vectors: one lock per batch, and no allocation once the vectors
// have grown.
//
// Guarantees: (1) commands come out in the order of Post; (2) a command counts against the limits
// until the engine reports it as handled; (3) the mailbox never refuses completions, and never
// refuses a command of a kind in kAlwaysTaken; (4) only a waiting engine is woken.
//
// Thread safety: Post, PostAlways, Complete, Begin, StopDispatch, Stop and stats from any thread;
// Take and Wait from the engine's thread only.
template <typename Command>
class Mailbox final : public CompletionSink {
 public:
  // With this value as `wake_commands`, commands do not end a Wait.
  static constexpr size_t kNoCommands = std::numeric_limits<size_t>::max();

  // The result of Take.
  struct Taken {
    std::vector<Command> commands;
    std::vector<Completion> completions;
    bool begun = false;
    bool stop_dispatch = false;
    // True if only completions can follow.
    bool stopping = false;
  };

  // Commands handled since the engine last reported.
  struct Handled {
    size_t commands = 0;
    size_t bytes = 0;
  };

  explicit Mailbox(const MailboxLimits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED OVERLOADED if the mailbox is full and kAlwaysTaken does not name the
  // command. A single command larger than the limit enters an empty mailbox. UNAVAILABLE DRAINING
  // after Stop.
  absl::Status Post(Command command);
  // Posts a command that a full mailbox takes. After Stop, drops the command.
  template <typename Always>
  requires kAlwaysTaken<Always>
  void PostAlways(Always command) { Post(std::move(command)).IgnoreError(); }

  void Complete(std::span<const Completion> completions) override;

  // Resumes the shard (Shard::Suspend).
  void Begin();
  // Asks the engine to stop deliveries.
  void StopDispatch();
  // Refuses every further command, and asks the engine to finish.
  void Stop();

  // Lets the engine take a turn, because its clock has moved.
  void Wake();

  // Takes everything that waits; commands only if `take_commands`. Clears the taken's vectors
  // first and reuses their memory. Commands of `handled` no longer count against the limits.
  void Take(bool take_commands, const Handled& handled, Taken* taken);

  // Waits until there are `wake_commands` new commands, a new completion, or a new Begin,
  // StopDispatch, Stop or Wake, or until `timeout`. May return early without a reason. Commands of
  // `handled` stop counting against the limits at the beginning of the call.
  void Wait(std::chrono::microseconds timeout, size_t wake_commands, const Handled& handled);

  MailboxStats stats() const;

 private:
  // Sets the flag, and wakes the engine.
  void Tell(bool Mailbox::*flag) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseLocked(const Handled& handled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadyLocked(size_t wake_commands) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true if the engine waits and its condition is met. The caller then notifies it after
  // unlocking.
  bool TakeWakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MailboxLimits limits_;
  base::CondVar wake_;

  mutable base::Mutex mutex_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  std::vector<Completion> completions_ ABSL_GUARDED_BY(mutex_);
  // Commands that are not handled, including those that the engine has taken.
  size_t counted_commands_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t counted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_dispatch_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the engine has not yet seen a Begin, StopDispatch, Stop or Wake.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of commands that the engine waits for; 0 while it does not wait.
  size_t wake_commands_ ABSL_GUARDED_BY(mutex_) = 0;
};

using ShardMailbox = Mailbox<protocol::Command>;
using CatalogMailbox = Mailbox<catalog::Command>;

}  // namespace duetime::runtime
