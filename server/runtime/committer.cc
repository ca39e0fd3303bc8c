// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/committer.h"

#include <chrono>
#include <iterator>
#include <pthread.h>
#include <span>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/base/check.h"
#include "server/base/clock.h"

namespace duetime::runtime {
namespace {

size_t BucketOf(uint64_t micros) {
  size_t bucket = 0;
  while (bucket < kAppendBoundsMicros.size() && micros > kAppendBoundsMicros[bucket]) ++bucket;
  return bucket;
}

// The approximate size of a record without its name and value.
constexpr size_t kRecordOverheadBytes = 48;

}  // namespace

size_t BytesOf(const storage::RecordBatch& records) {
  size_t bytes = 0;
  for (const storage::Record& record : records) {
    bytes += record.name.size() + record.value.size() + kRecordOverheadBytes;
  }
  return bytes;
}

Committer::Committer(const GroupLimits& limits, storage::Journal* journal)
    : limits_(limits), journal_(journal), shared_(journal->idle_append_ms() > 0) {
  DT_CHECK_GT(limits_.records_max, 0u);
  DT_CHECK_GT(limits_.bytes_max, 0u);
}

Committer::~Committer() { Stop(); }

void Committer::Start() {
  DT_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void Committer::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void Committer::Submit(Submission submission) {
  DT_CHECK_LT(submission.participant, kParticipantsMax);
  bool wake = false;
  {
    base::MutexLock lock(&mutex_);
    queue_.push_back(std::move(submission));
    wake = std::exchange(waiting_, false);
  }
  if (wake) wake_.NotifyOne();
}

CommitStats Committer::stats() const {
  base::MutexLock lock(&mutex_);
  CommitStats stats = stats_;
  stats.queue_batches += queue_.size();
  stats.failed = failed();
  return stats;
}

void Committer::Run() {
  pthread_setname_np(pthread_self(), "dt-committer");
  while (Gather()) {
    FormGroup();
    Append();
  }
}

bool Committer::Gather() {
  base::MutexLock lock(&mutex_);
  while (queue_.empty() && next_ == pending_.size()) {
    if (stopping_) return false;
    waiting_ = true;
    const bool in_time = WaitForWork();
    waiting_ = false;
    if (!in_time && queue_.empty()) return true;
  }
  if (next_ == pending_.size()) {
    pending_.clear();
    next_ = 0;
    pending_.swap(queue_);
  } else if (!queue_.empty()) {
    // The last group was full, so the remaining batches share the next group with new ones.
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
    pending_.insert(pending_.end(), std::make_move_iterator(queue_.begin()),
                    std::make_move_iterator(queue_.end()));
    queue_.clear();
  }
  return true;
}

bool Committer::WaitForWork() {
  const uint64_t period_micros = journal_->idle_append_ms() * 1'000;
  if (period_micros == 0 || failed()) {
    wake_.Wait(&mutex_);
    return true;
  }
  const uint64_t idle_micros = base::ReadMicros() - last_append_micros_;
  if (idle_micros >= period_micros) return false;
  return wake_.WaitFor(&mutex_, std::chrono::microseconds(period_micros - idle_micros));
}

void Committer::FormGroup() {
  group_.clear();
  group_begin_ = next_;
  group_records_ = 0;
  group_durability_ = storage::Durability::kBuffered;
  group_bytes_ = 0;
  while (next_ < pending_.size()) {
    Submission& item = pending_[next_];
    const bool fits = group_records_ + item.records.size() <= limits_.records_max &&
                      group_bytes_ + item.bytes <= limits_.bytes_max;
    if (!group_.empty() && !fits) break;
    group_records_ += item.records.size();
    group_bytes_ += item.bytes;
    if (item.durability == storage::Durability::kSynced) {
      group_durability_ = storage::Durability::kSynced;
    }
    group_.push_back(std::move(item.records));
    ++next_;
  }
}

void Committer::Append() {
  if (failed()) {
    Report(storage::AppendOutcome::kFenced);
    return;
  }
  const uint64_t start = base::ReadMicros();
  const storage::AppendOutcome outcome = journal_->Append(group_, group_durability_);
  const uint64_t micros = base::ReadMicros() - start;
  // Set before completions are sent: a reader of the completion must find failed() true.
  if (outcome != storage::AppendOutcome::kAccepted) {
    Fence();
    // What follows from it, the server says: a member of a cell goes on without a restart.
    spdlog::warn("the journal takes no more records{}",
                 outcome == storage::AppendOutcome::kUnknown
                     ? "; the last ones may have been written or not"
                     : "");
  }
  {
    base::MutexLock lock(&mutex_);
    last_append_micros_ = start + micros;
    ++stats_.groups;
    if (group_durability_ == storage::Durability::kSynced) ++stats_.syncs;
    stats_.batches += group_.size();
    stats_.records += group_records_;
    stats_.bytes += group_bytes_;
    stats_.queue_batches = pending_.size() - next_;
    stats_.append_micros += micros;
    ++stats_.append_latency[BucketOf(micros)];
  }
  Report(outcome);
}

void Committer::Report(storage::AppendOutcome outcome) {
  std::array<CompletionSink*, kParticipantsMax> mailboxes{};
  for (size_t i = group_begin_; i < next_; ++i) {
    const Submission& item = pending_[i];
    completions_[item.participant].push_back(
        Completion{.sequence = item.sequence, .outcome = outcome});
    mailboxes[item.participant] = item.reply_to;
  }
  for (size_t i = 0; i < mailboxes.size(); ++i) {
    if (mailboxes[i] == nullptr) continue;
    mailboxes[i]->Complete(completions_[i]);
    completions_[i].clear();
  }
}

}  // namespace duetime::runtime
