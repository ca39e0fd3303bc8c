// SPDX-License-Identifier: Apache-2.0
//
// Engine: the thread that runs one shard.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <thread>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/runtime/committer.h"
#include "server/runtime/effect_sink.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/rest.h"
#include "server/shard/shard.h"
#include "server/wheel/slab_memory.h"

namespace duetime::storage {
class MessageStore;
}

namespace duetime::runtime {

// Shared by all engines. REQUIRES: all members outlive the engines.
struct EngineContext {
  storage::MessageStore* store = nullptr;
  base::Clock* clock = nullptr;
  Committer* committer = nullptr;
  EffectSink* sink = nullptr;
  wheel::SlabMemory* slabs = nullptr;
  delivery::TopicNames* names = nullptr;
  // With a test clock: whom each engine tells that it is at rest. Null otherwise.
  RestWatch* rests = nullptr;
};

struct EngineOptions {
  delivery::ShardLimits shard_limits;
  MailboxLimits mailbox_limits;
  // Limits for the submitted but uncommitted records of one engine. At a limit the engine takes no
  // commands, so its mailbox fills up and refuses (P6).
  size_t uncommitted_records_max = 0;
  size_t uncommitted_bytes_max = 0;
  // Asks the system for a priority above that of other threads (nice -10). If it refuses, the
  // engine keeps the default priority.
  bool engine_priority = false;
};

// Runs one shard's state machine in turns. A turn takes the waiting commands, decides them,
// advances time, submits the records, and delivers the effects. Then the engine sleeps until there
// is work.
//
// Guarantees: (1) a turn decides a bounded number of commands, so a long mailbox delays due
// messages by about a millisecond; (2) an idle engine sleeps, and wakes at least once a second to
// detect steps of the clock; (3) after Stop, the engine answers every accepted command before its
// thread ends; (4) the last records of the thread are those of a clean stop (Shard::Close); (5) the
// shard is suspended (Shard::Suspend) until mailbox().Begin(), and while the journal does not allow
// deliveries.
//
// Thread safety: the owner calls Recover and Start, once, in this order. The mailbox and stats may
// be used from any thread.
class Engine {
 public:
  Engine(uint16_t shard, const EngineOptions& options, const EngineContext& context);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  absl::Status Recover();
  void Start();
  // Waits for the thread to end. REQUIRES: mailbox().Stop() was called.
  void Join();

  ShardMailbox& mailbox() { return mailbox_; }
  const ShardMailbox& mailbox() const { return mailbox_; }
  // Returns a copy of the counters. An idle engine makes the copy before it sleeps, a busy engine
  // about every 100 ms.
  protocol::ShardStats stats() const;
  // The state after the last turn that ended at rest. REQUIRES: EngineContext::rests is set.
  Rest rest() const;
  // The turns that the thread has begun.
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  // The share of one submitted batch in uncommitted_sum_.
  struct Uncommitted {
    size_t records = 0;
    size_t bytes = 0;
  };

  void Run();
  // Suspends the shard while the journal says so (Journal::MayServe).
  void FollowJournal();
  void HandleCompletions();
  void HandleCommands();
  // Returns true if the next batch waits for more records, because it has only those of acks.
  bool HoldsBatch(const shard::StepResult& result);
  // Returns true if there was a batch to submit.
  bool SubmitBatch();
  void DeliverEffects();
  void Sleep(const shard::StepResult& result);
  void PublishStats();
  void PublishRest(const shard::StepResult& result);

  // True while the limits of uncommitted records hold back commands.
  bool AtLimit() const {
    return uncommitted_sum_.records >= options_.uncommitted_records_max ||
           uncommitted_sum_.bytes >= options_.uncommitted_bytes_max;
  }
  bool CommandsLeft() const { return next_command_ < taken_commands_.size(); }

  const uint16_t shard_index_;
  const EngineOptions options_;
  const EngineContext context_;
  ShardMailbox mailbox_;
  std::thread thread_;
  std::atomic<uint64_t> turns_{0};

  // Confined to the engine's thread after Start.
  shard::Shard shard_;
  base::Now now_;
  ShardMailbox::Taken taken_;
  // Commands from the mailbox. Commands from next_command_ on are not decided yet.
  std::vector<protocol::Command> taken_commands_;
  size_t next_command_ = 0;
  // Decided commands that are not yet reported to the mailbox.
  ShardMailbox::Handled handled_;
  std::deque<Uncommitted> uncommitted_;
  Uncommitted uncommitted_sum_;
  bool begun_ = false;
  bool dispatches_ = false;
  bool dispatch_stopped_ = false;
  uint64_t published_mono_ms_ = 0;
  static constexpr uint64_t kNotHeld = std::numeric_limits<uint64_t>::max();
  // Until then the next batch waits.
  uint64_t hold_until_mono_ms_ = kNotHeld;

  mutable base::Mutex stats_mutex_;
  protocol::ShardStats stats_ ABSL_GUARDED_BY(stats_mutex_);
  Rest rest_ ABSL_GUARDED_BY(stats_mutex_);
};

}  // namespace duetime::runtime
