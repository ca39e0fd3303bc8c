// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/retries.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/retry_backoff.h"
#include "server/delivery/last_attempts.h"
#include "server/delivery/leases.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/streams.h"

namespace duetime::delivery {

using storage::Progress;

namespace {

// A run continues delays of earlier runs in memory up to this length.
constexpr uint64_t kResumedInMemoryMs = 60'000;

// The shortest delay of a message that has no attempts left, while no dead letter can be made of
// it. Without a floor it would come as fast as its subscriber nacks it.
constexpr uint64_t kRefusedLetterDelayMs = 1'000;

}  // namespace

Retries::Retries(const Core& core, Pacing* pacing, DeadLetters* dead_letters)
    : core_(core), pacing_(pacing), dead_letters_(dead_letters) {}

void Retries::Fail(base::Now now, EntryIndex index, Failure why, std::optional<uint64_t> delay_ms,
                   absl::string_view text) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kInFlight);
  if (entry.subscription->state.deleting) {
    core_.leases.End(index);
    return core_.states.MakeReady(index);  // SubscriptionRelease takes it from there
  }
  storage::Attempt attempt = AttemptOf(now, entry, why, text);
  if (HalfFailuresOf(why) == 0) {
    attempt.delay_ms = delay_ms.value_or(0);
    return Retry(now, index, attempt);
  }
  entry.half_failures += HalfFailuresOf(why);
  ++entry.subscription->failed;
  // The end of a stream does not count as a failure here, because LeaseEnds counts it. A dismissed
  // stream does not count either, because its failures are those of the former subscriber.
  if (why != Failure::kStreamEnded && why != Failure::kBegunStreamEnded &&
      !core_.streams.Get(entry.stream)->dismissed) {
    pacing_->OnFailure(now, entry.subscription);
  }
  // Without a topic for dead letters one more attempt is better than a lost message.
  if (OutOfAttempts(entry) &&
      dead_letters_->Make(now, index, storage::DeadLetterReason::kMaxAttempts, text, &attempt) ==
          DeadLetters::Made::kYes) {
    return;
  }
  const protocol::RetryPolicy& policy = entry.subscription->state.settings.retry();
  const uint32_t failures = (entry.half_failures + 1) / 2;
  const uint64_t backoff_ms = delay_ms.value_or(BackoffMs(policy, failures, entry.id.low));
  const uint64_t floor_ms = OutOfAttempts(entry) ? kRefusedLetterDelayMs : 0;
  attempt.delay_ms = std::max(backoff_ms, floor_ms);
  Retry(now, index, attempt);
}

storage::Attempt Retries::AttemptOf(base::Now now, const PendingDelivery& entry, Failure why,
                                    absl::string_view text) const {
  const uint64_t begin_ms = entry.last_dispatch_ms;
  return {.number = entry.attempts,
          .end = why,
          .end_ms = now.wall_ms,
          .held_ms = now.wall_ms > begin_ms ? now.wall_ms - begin_ms : 0,
          .client_id = core_.streams.Get(entry.stream)->client_id,
          .reason = text};
}

void Retries::Retry(base::Now now, EntryIndex index, const storage::Attempt& attempt) {
  PendingDelivery& entry = core_.table[index];
  const Failure why = attempt.end;
  const uint64_t delay_ms = attempt.delay_ms;
  DT_CHECK_GT(entry.attempts, 0u);
  DT_CHECK_LE(entry.half_failures, 2 * uint64_t{entry.attempts});
  // Before the lease ends, and perhaps the stream with it.
  std::string last_attempts = storage::AddAttempt(LastAttemptsOf(core_, entry), attempt);
  core_.leases.End(index);
  const protocol::StreamId stream = entry.stream;
  ++core_.stats.retried;
  const bool to_disk = delay_ms > 0 && core_.memory.full();
  // A listing that is not at the due time must move to the next attempt's time, where the reader
  // will look for it.
  const bool moves = to_disk || (entry.spilled && entry.listed_ms != entry.due_ms);
  uint64_t retry_ms = moves ? now.wall_ms : 0;
  if (delay_ms > 0) retry_ms = now.wall_up_ms() + delay_ms;
  entry.progress = true;
  core_.records.PutProgress(entry.key(), entry.subscription->state.id,
                            {.state = Progress::State::kFailed,
                             .listed = moves,
                             .attempts = entry.attempts,
                             .spared = 2 * entry.attempts - entry.half_failures,
                             .retry_ms = retry_ms,
                             .reason = ReasonOf(entry, why),
                             .last_attempts = std::move(last_attempts)});
  if (to_disk) {
    core_.backlog.MoveToDiskAt(index, retry_ms);
  } else {
    if (moves) core_.backlog.ListAt(index, retry_ms);
    if (delay_ms > 0) {
      core_.states.MakeDelayed(now, index, delay_ms);
    } else {
      core_.states.MakeReady(index);
    }
  }
  DT_CHECK(entry.state != EntryState::kTaken);
  core_.streams.ReturnCredit(stream, 1, entry.bytes);
}

void Retries::ResumeDelay(base::Now now, EntryIndex index, const Progress& row) {
  DT_CHECK(core_.table[index].state == EntryState::kTaken);
  DT_CHECK(row.state != Progress::State::kSettled);
  DT_CHECK_GT(row.retry_ms, now.wall_ms);
  const uint64_t delay_ms = row.retry_ms - now.wall_ms;
  // The clock may have been set back since the delay began. If it returns, a long delay must end at
  // its time: on disk it follows the wall clock.
  if (!core_.memory.full() && delay_ms <= kResumedInMemoryMs) {
    return core_.states.MakeDelayed(now, index, delay_ms);
  }
  const PendingDelivery& entry = core_.table[index];
  Progress listed = row;
  listed.listed = true;
  core_.records.PutProgress(entry.key(), entry.subscription->state.id, listed);
  core_.backlog.MoveToDiskAt(index, row.retry_ms);
}

}  // namespace duetime::delivery
