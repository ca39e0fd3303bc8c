// SPDX-License-Identifier: Apache-2.0
//
// Mailbox: what waits for one shard's engine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "server/base/mutex.h"
#include "server/delivery/commands.h"
#include "storage/journal.h"

namespace duetime::runtime {

// The fate of one batch.
struct Completion {
  uint64_t sequence = 0;
  storage::AppendOutcome outcome{};
};

struct MailboxLimits {
  size_t commands_max = 0;
  size_t bytes_max = 0;
};

// A moment's view of one mailbox.
struct MailboxStats {
  size_t commands = 0;
  size_t bytes = 0;
  // Commands refused since start because it was full.
  uint64_t refused = 0;
};

// What a command weighs against the bound, in bytes: the records and lists it carries.
size_t CommandBytes(const delivery::Command& command);
// How many messages or leases a command is about; the measure of the work in it.
size_t CommandWeight(const delivery::Command& command);

// Commands and completions on their way to one engine. Many threads put in, the engine takes
// everything out at once by swapping vectors: one lock for a batch, and no allocation once the
// vectors have grown.
//
// Guarantees: (1) commands come out in the order in which they went in; (2) a command counts
// against the bound until the engine reports it as handled, wherever it waits; (3) what credit or
// the number of streams bounds already (attach, detach, settle, credit) and completions are never
// refused for want of room; (4) nobody is woken who is not waiting. Thread safety: Post, Complete,
// StopDispatch, Stop and stats from any thread; Take and Wait from the engine's only.
class Mailbox {
 public:
  // For Wait: commands alone do not end it.
  static constexpr size_t kNoCommands = std::numeric_limits<size_t>::max();

  // What Take hands over.
  struct Intake {
    std::vector<delivery::Command> commands;
    std::vector<Completion> completions;
    bool stop_dispatch = false;
    // Nothing will be posted after this intake, except completions.
    bool stopping = false;
  };

  // Commands that were taken and are handled since the engine last said so.
  struct Handled {
    size_t commands = 0;
    size_t bytes = 0;
  };

  explicit Mailbox(const MailboxLimits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED OVERLOADED if it is full; a single command larger than the whole bound gets
  // in when nothing else waits. UNAVAILABLE DRAINING after Stop.
  absl::Status Post(delivery::Command command);

  // Tells the fates of batches, in the order of their sequences.
  void Complete(std::span<const Completion> completions);

  // Asks the engine to hand out nothing more.
  void StopDispatch();
  // Refuses every further command, and asks the engine to finish.
  void Stop();

  // Takes out everything that waits; commands only if `take_commands` (else they stay). The
  // intake's vectors are emptied first and their memory is used again. `handled` stops counting.
  void Take(bool take_commands, const Handled& handled, Intake* intake);

  // Returns when `wake_commands` commands wait that were not taken, when a completion or a request
  // to stop arrives that was not taken, when the time is up, or now and then for no reason.
  // `handled` stops counting at once.
  void Wait(std::chrono::microseconds timeout, size_t wake_commands, const Handled& handled);

  MailboxStats stats() const;

 private:
  void ReleaseLocked(const Handled& handled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadyLocked(size_t wake_commands) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the engine waits for what is there now; then the caller notifies it after unlocking.
  bool TakeWakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MailboxLimits limits_;
  base::CondVar wake_;

  mutable base::Mutex mutex_;
  std::vector<delivery::Command> commands_ ABSL_GUARDED_BY(mutex_);
  std::vector<Completion> completions_ ABSL_GUARDED_BY(mutex_);
  // Not handled yet, including those that the engine has taken.
  size_t counted_commands_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t counted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_dispatch_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // A request to stop that the engine has not seen yet.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  // What the waiting engine waits for, in commands; 0 while it does not wait.
  size_t wake_commands_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::runtime
