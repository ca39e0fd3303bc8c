// SPDX-License-Identifier: Apache-2.0
//
// Engine: the thread that runs one shard.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/delivery/shard.h"
#include "server/runtime/committer.h"
#include "server/runtime/effect_sink.h"
#include "server/runtime/mailbox.h"
#include "server/wheel/slab_memory.h"
#include "storage/message_store.h"

namespace duetime::runtime {

// What all engines share. REQUIRES: everything outlives the engines.
struct EngineContext {
  storage::MessageStore* store = nullptr;
  base::Clock* clock = nullptr;
  Committer* committer = nullptr;
  EffectSink* sink = nullptr;
  wheel::SlabMemory* slabs = nullptr;
};

struct EngineOptions {
  delivery::ShardLimits shard_limits;
  MailboxLimits mailbox_limits;
  // What one engine may have submitted and not completed before it takes no more commands: it stops
  // answering rather than grow, and then its mailbox fills up and refuses (P6).
  size_t uncommitted_records_max = 0;
  size_t uncommitted_bytes_max = 0;
};

// Runs one shard's state machine in turns: take what waits, decide it, let time act, submit the
// records, carry out the effects, then sleep until there is a reason not to.
//
// Guarantees: (1) a turn handles a bounded amount of commands, so a long mailbox delays due
// messages by a millisecond or so; (2) it sleeps when nothing is to do, and wakes at least once a
// second to notice steps of the clock; (3) after Stop every command that was accepted is answered
// before the thread ends. Thread safety: Recover and Start by the owner, once, in this order; the
// mailbox and stats from any thread.
class Engine {
 public:
  Engine(uint16_t shard, const EngineOptions& options, const EngineContext& context);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  absl::Status Recover();
  void Start();
  // Waits for the thread to end. REQUIRES: mailbox().Stop() was called.
  void Join();

  Mailbox& mailbox() { return mailbox_; }
  const Mailbox& mailbox() const { return mailbox_; }
  // As of the last time that the engine went to sleep, or a tenth of a second ago.
  delivery::ShardStats stats() const;

 private:
  // What one batch under way adds to the sums below.
  struct Uncommitted {
    size_t records = 0;
    size_t bytes = 0;
  };

  void Run();
  void HandleCompletions();
  void HandleCommands();
  // True if it submitted something.
  bool SubmitBatch();
  void DeliverEffects();
  void Sleep(const delivery::StepResult& result);
  void PublishStats();

  // True while so much is under way that commands have to wait.
  bool Held() const {
    return uncommitted_sum_.records >= options_.uncommitted_records_max ||
           uncommitted_sum_.bytes >= options_.uncommitted_bytes_max;
  }
  bool CommandsLeft() const { return next_command_ < intake_commands_.size(); }

  const uint16_t shard_index_;
  const EngineOptions options_;
  const EngineContext context_;
  Mailbox mailbox_;
  std::thread thread_;

  // The engine's thread only, after Start.
  delivery::Shard shard_;
  base::Now now_;
  Mailbox::Intake intake_;
  // Taken commands; from next_command_ on they are not handled yet.
  std::vector<delivery::Command> intake_commands_;
  size_t next_command_ = 0;
  // Handled, and not yet reported to the mailbox.
  Mailbox::Handled handled_;
  std::deque<Uncommitted> uncommitted_;
  Uncommitted uncommitted_sum_;
  bool dispatch_stopped_ = false;
  uint64_t published_mono_ms_ = 0;

  mutable base::Mutex stats_mutex_;
  delivery::ShardStats stats_ ABSL_GUARDED_BY(stats_mutex_);
};

}  // namespace duetime::runtime
