// SPDX-License-Identifier: Apache-2.0
//
// CatalogEngine: the thread that runs the catalog.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/catalog/catalog.h"
#include "server/runtime/committer.h"
#include "server/runtime/mailbox.h"
#include "storage/message_store.h"
#include "storage/types.h"

namespace duetime::runtime {

// Runs the catalog's state machine in turns, as Engine runs a shard's. A turn takes the waiting
// commands, decides them, submits the records, and hands out the effects. The catalog has no
// timers, so the thread sleeps until a command or a completion arrives.
//
// Guarantee: after Stop, the catalog answers every accepted command before the thread ends.
// Commands whose changes are still open get DRAINING.
//
// Thread safety: the owner calls Recover and Start, once, in this order. The mailbox may be used
// from any thread.
class CatalogEngine {
 public:
  // Carries out effects on the engine's thread. Must not block.
  using Deliver = std::function<void(catalog::Effects)>;

  // REQUIRES: store, clock and committer outlive the engine.
  CatalogEngine(const catalog::CatalogOptions& options, const MailboxLimits& limits,
                storage::MessageStore* store, base::Clock* clock, Committer* committer,
                Deliver deliver);
  CatalogEngine(const CatalogEngine&) = delete;
  CatalogEngine& operator=(const CatalogEngine&) = delete;

  absl::Status Recover() { return catalog_.Recover(clock_->Read()); }
  void Start();
  // Waits for the thread to end. REQUIRES: mailbox().Stop() was called.
  void Join();

  CatalogMailbox& mailbox() { return mailbox_; }
  // True if every command is answered and every change is committed.
  bool at_rest() const { return mailbox_.stats().commands == 0 && uncommitted_.load() == 0; }

 private:
  // One batch may be in fsync while another one gathers. At this limit the engine takes no
  // commands, so its mailbox fills up and refuses (P6).
  static constexpr size_t kUncommittedMax = 2;

  void Run();
  void Turn();
  void SubmitBatch();
  bool AtLimit() const { return uncommitted_ >= kUncommittedMax; }

  base::Clock* const clock_;
  Committer* const committer_;
  const Deliver deliver_;
  CatalogMailbox mailbox_;
  std::thread thread_;

  // Confined to the engine's thread after Start.
  catalog::Catalog catalog_;
  CatalogMailbox::Taken taken_;
  // Handled commands that are not yet reported to the mailbox. A request counts against the
  // mailbox's limit until its answer, because a change may wait for other changes of its topic.
  CatalogMailbox::Handled handled_;
  size_t open_requests_ = 0;
  // Another thread may read it.
  std::atomic<size_t> uncommitted_{0};
};

// The topics that an object of the store names by their numbers. For a repair.
std::vector<storage::TopicId> TopicsOfObject(storage::ObjectKind kind, uint16_t partition,
                                             absl::string_view name, absl::string_view value);

}  // namespace duetime::runtime
