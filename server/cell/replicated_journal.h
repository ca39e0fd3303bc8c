// SPDX-License-Identifier: Apache-2.0
//
// ReplicatedJournal: the journal of a cell's leader.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/cell/log.h"
#include "server/cell/member_report.h"
#include "server/cell/replica.h"
#include "storage/journal.h"
#include "storage/journal_record.h"

namespace duetime::cell {

// A leader's time.
struct Pulse {
  // Null: MayServe is always true.
  base::Clock* clock = nullptr;
  // Journal::idle_append_ms.
  uint64_t idle_append_ms = 0;
  uint64_t serve_for_ms = 0;
};

// Appends groups to the log that a cell shares. A group is accepted when its entry has come back
// from the log and counts (Replica), and an append of it has succeeded: then every later leader has
// it. An append whose outcome is unknown is repeated with the same bytes: only one of them counts.
// So an outage of the log is a pause and not a restart; each repetition may take space in the log.
//
// At most one group is in flight, on which the repetition depends. The committer puts what arrives
// meanwhile into the next one.
//
// A journal leads once: a group that a node made for one epoch must not count in another.
//
// Two leaders never serve at the same time, as long as the steady clocks of two machines run at
// nearly the same pace. A leader may serve for Pulse::serve_for_ms from the beginning of an
// append that counted. Members that follow try to lead later than that after the last entry, and if
// the former leader still appended while they did, they wait for that time. So a leader that was
// cut off or stopped, and goes on, hands out nothing that another one may have delivered or
// cancelled, and answers nothing that another one has changed.
//
// Thread safety: one thread at a time, but Report, Stop, StopWithin and MayServe may run on any
// thread.
class ReplicatedJournal final : public storage::Journal {
 public:
  // `random` gives numbers that no other member or run gives. REQUIRES: log and replica outlive
  // the journal, and no other caller uses the replica.
  ReplicatedJournal(Log* log, Replica* replica, std::function<uint64_t()> random,
                    const Pulse& pulse = {})
      : log_(log), replica_(replica), random_(std::move(random)), pulse_(pulse) {}

  // Begins an epoch, as its leader. On OK, all that earlier leaders have accepted is applied.
  // Blocks while the log is not available. `from`: begins only if no epoch and no group counts
  // after this place. Else a member that waited for the log would end the epoch of another one that
  // waited, too.
  //   ABORTED               another epoch began meanwhile, or a group counts after `from`
  //   CANCELLED             Stop
  //   FAILED_PRECONDITION   the journal has led before
  //   other errors          those of the log and of Replica::Step; later calls may return the same
  absl::Status Lead(const std::optional<LogPlace>& from = std::nullopt);

  // kFenced: this journal does not lead, or another epoch began before the group counted. kUnknown:
  // Stop, or an error of the log or of Replica::Step. After both, this journal leads no more. Each
  // accepted group is safe in the log, whatever `durability` is.
  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override;
  uint64_t idle_append_ms() const override { return pulse_.idle_append_ms; }
  bool MayServe(uint64_t mono_ms) const override;

  // Reads and applies what the log has by now: for a leader without work, which so notices that it
  // leads no more, and for members that follow. Blocks while the log has entries and cannot be
  // read. CANCELLED: Stop. Other errors are those of Log::End and Replica::Step.
  absl::Status Follow();

  // False while the former leader may still serve.
  bool former_is_gone(uint64_t mono_ms) const { return mono_ms >= serve_from_ms_.load(); }
  // From now on MayServe is false: the last group will say that nobody leads.
  void StopServing() { serve_from_ms_.store(std::numeric_limits<uint64_t>::max()); }

  // The epoch that this member leads; nullopt if it does not lead.
  std::optional<uint64_t> leads() const { return leads_; }

  // Puts a report of this member into the log with a later append or PostReport, unless another
  // one replaces it before. Any thread. `leads` and `wall_ms` are set then.
  void Report(MemberReport report);
  void PostReport();

  // Makes calls return soon, now and later: after the call of the log that runs.
  void Stop() { stopped_.store(true); }
  // The same after this time. REQUIRES: Pulse::clock is set.
  void StopWithin(uint64_t ms) { stop_at_ms_.store(MonoMs() + ms); }

 private:
  // Whether an entry of this member counts.
  enum class Outcome : uint8_t {
    kOpen,
    kCounts,
    // Another epoch began before, so the entry will never count.
    kRefused,
  };

  // Appends the entry until that succeeds and the entry counts, or the entry is refused.
  absl::StatusOr<Outcome> Write(const storage::JournalRecordHead& head,
                                std::span<const storage::RecordBatch> group);
  void StopLeading();
  bool Stopped() const { return stopped_.load() || MonoMs() >= stop_at_ms_.load(); }
  uint64_t MonoMs() const { return pulse_.clock == nullptr ? 0 : pulse_.clock->Read().mono_ms; }
  // Reads and applies the entries before `end`, at least until `head` is refused, and follows the
  // outcome of `head`.
  absl::Status ReadTo(uint64_t end, const storage::JournalRecordHead& head, Outcome* outcome);

  Log* const log_;
  Replica* const replica_;
  const std::function<uint64_t()> random_;
  const Pulse pulse_;
  std::optional<uint64_t> leads_;
  bool has_led_ = false;
  base::Mutex mutex_;
  std::optional<MemberReport> report_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_report_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> stop_at_ms_{std::numeric_limits<uint64_t>::max()};
  // When the last entry was first appended.
  uint64_t last_begun_ms_ = 0;
  // In between, messages may be handed out.
  std::atomic<uint64_t> serve_from_ms_{0};
  std::atomic<uint64_t> serve_until_ms_{0};
};

}  // namespace duetime::cell
