// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/cell.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <string>
#include <thread>
#include <utility>

#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/cell/leader_search.h"
#include "server/cell/member.h"
#include "server/daemon/fetch.h"
#include "storage/rocksdb/witness.h"

namespace duetime {
namespace {

// The time between two attempts to reach the brokers.
constexpr std::chrono::milliseconds kTryAgain{500};
// How often a new leader looks whether it may serve, and appends so that others see it.
constexpr std::chrono::milliseconds kBeginEvery{50};
// How often a member reports what it has on disk. A leader looks at the time every kTendEvery.
constexpr uint64_t kReportEveryMs = 5'000;
constexpr std::chrono::milliseconds kTendEvery{500};
// A leader whose clock is wrong, or disk low, hands over after so many reports. If another broker
// gives the log its times, the members' last reports compare with different clocks for two reports.
constexpr int kWrongReports = 4;
// How often a leader trims the log. If cell_log_keep_ms is less, a leader trims each
// cell_log_keep_ms, so that no more than twice that time stays.
constexpr uint64_t kTrimEveryMs = 60'000;
// The time between two attempts to fetch a checkpoint.
constexpr std::chrono::milliseconds kFetchAgain{5'000};

uint64_t DrawNumber() {
  const absl::StatusOr<uint64_t> number = storage::RandomNumber();
  DT_CHECK(number.ok());
  return *number;
}

class StoreState final : public cell::AppliedState {
 public:
  explicit StoreState(storage::RocksDbStore* store) : store_(store) {}
  cell::LogPlace place() const override { return store_->log_place(); }
  absl::Status Apply(std::span<const storage::RecordBatch> group,
                     const cell::LogPlace& place) override {
    return store_->ApplyLogged(group, place);
  }

 private:
  storage::RocksDbStore* const store_;
};

// A group is at most group_bytes_max, or one batch of a shard. That is at most twice
// group_bytes_max, one request, and the dead letters of a step. A mailbox must hold the largest
// request.
uint64_t EntryBytesMax(const config::Config& config) {
  return 2 * config.node.group.bytes_max + config.node.mailbox.bytes_max +
         config.server.limits.batch_bytes_max;
}

cell::MemberOptions MemberOptionsOf(const config::Config& config, uint16_t shards) {
  return {.self = {.name = config.cell.cell_member,
                   .address = config.cell.cell_address,
                   .shards = shards},
          .heartbeat_ms = config.cell.cell_heartbeat_ms,
          .suspect_ms = config.cell.cell_suspect_ms};
}

}  // namespace

absl::StatusOr<std::unique_ptr<kafka::KafkaLog>> OpenCellLog(const config::Config& config) {
  return kafka::KafkaLog::Open(
      {.brokers = config.cell.cell_brokers,
       .topic = config.cell.cell_topic,
       .properties_file = config.cell.cell_kafka_file,
       .replicas = static_cast<uint32_t>(config.cell.cell_replicas),
       .entry_bytes_max = EntryBytesMax(config)},
      [](absl::string_view line) { spdlog::warn("kafka: {}", std::string(line)); });
}

class Membership::Impl {
 public:
  Impl(const config::Config& config, std::unique_ptr<kafka::KafkaLog> log,
       storage::RocksDbStore* store, base::Clock* clock, cell::Roster* roster)
      : config_(config),
        log_(std::move(log)),
        clock_(clock),
        store_(store),
        roster_(roster),
        state_(store),
        member_(MemberOptionsOf(config, store->shard_count()), log_.get(), &state_, store, clock,
                &DrawNumber, roster),
        thread_([this] { Run(); }) {}

  ~Impl() {
    member_.journal()->Stop();
    EndTending();
  }

  void EndTending() {
    {
      base::MutexLock lock(&mutex_);
      stopping_.store(true);
    }
    wake_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }
  void Ask(std::function<bool()> keeps_log, std::function<bool()> disk_low) {
    base::MutexLock lock(&mutex_);
    keeps_log_ = std::move(keeps_log);
    disk_low_ = std::move(disk_low);
  }

  bool Decided(api::Server* server) {
    const base::MutexLock lock(&mutex_);
    if (std::exchange(told_, leader_) != leader_ || !shown_) server->ShowStandby(leader_);
    shown_ = true;
    return decided_;
  }
  absl::Status status() {
    base::MutexLock lock(&mutex_);
    return status_;
  }

  cell::Member* member() { return &member_; }
  bool hands_over() const { return hands_over_.load(); }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "dt-member");
    const absl::Status status = Follow();
    {
      base::MutexLock lock(&mutex_);
      status_ = status;
      decided_ = true;
    }
    if (status.ok()) Tend();
  }

  // False once the thread must end.
  bool Wait(std::chrono::milliseconds time) {
    base::MutexLock lock(&mutex_);
    if (!stopping_.load()) wake_.WaitFor(&mutex_, time);
    return !stopping_.load();
  }

  absl::Status Follow() {
    absl::Status reached = log_->CheckTopic();
    for (bool told = false; cell::MayTryAgain(reached); reached = log_->CheckTopic()) {
      if (!std::exchange(told, true)) {
        spdlog::warn("cell: waiting for the brokers: {}", reached.ToString());
      }
      if (!Wait(kTryAgain)) return absl::CancelledError("stopped");
    }
    if (!reached.ok()) return reached;
    while (!stopping_.load()) {
      const absl::StatusOr<bool> leads = member_.Step();
      if (absl::IsOutOfRange(leads.status())) return Fetch(leads.status());
      if (!leads.ok()) return leads.status();
      if (!*leads) {
        Show(HearsTheLeader() ? member_.leader().address : "");
        Report();
        continue;
      }
      spdlog::info("cell: {} leads epoch {}", member_.self().name, member_.place().epoch);
      return Begin();
    }
    return absl::CancelledError("stopped");
  }

  // Until the former leader answers nothing more, this one answers nothing, either.
  absl::Status Begin() {
    storage::AppendOutcome outcome = member_.Announce();
    while (outcome == storage::AppendOutcome::kAccepted) {
      Show(member_.leader().address);
      if (member_.journal()->MayServe(clock_->Read().mono_ms)) return absl::OkStatus();
      if (!Wait(kBeginEvery)) return absl::CancelledError("stopped");
      outcome = member_.journal()->Append({}, storage::Durability::kBuffered);
    }
    return absl::AbortedError("another member began to lead");
  }

  // False if nothing new has come for so long that this member cannot read the log: a leader writes
  // all the time, and a silent one is replaced.
  bool HearsTheLeader() {
    constexpr uint64_t kSuspectsMax = 10;
    const uint64_t now_ms = clock_->Read().mono_ms;
    if (std::exchange(heard_offset_, member_.place().offset) != member_.place().offset ||
        heard_ms_ == 0) {
      heard_ms_ = now_ms;
    }
    return now_ms - heard_ms_ < kSuspectsMax * config_.cell.cell_suspect_ms;
  }

  // The log begins after this member's place. Returns ABORTED once a checkpoint is there.
  absl::Status Fetch(const absl::Status& why) {
    const auto stopped = [this] { return stopping_.load(); };
    spdlog::warn("cell: {}; this member fetches a checkpoint from the leader", why.ToString());
    do {
      const absl::StatusOr<std::string> leader =
          cell::FindLeader(log_.get(), state_.place(), stopped);
      if (!leader.ok()) return leader.status();
      // It is not shown, because this member does not follow it yet.
      const absl::Status fetched =
          FetchCheckpoint(config_, {.address = *leader, .before = state_.place()}, stopped);
      if (fetched.ok()) return absl::AbortedError("a checkpoint was fetched");
      if (!stopped()) spdlog::warn("cell: no checkpoint yet: {}", fetched.ToString());
    } while (Wait(kFetchAgain));
    return absl::CancelledError("stopped");
  }

  // Tells the members from time to time what this one has.
  void Report() {
    const uint64_t now_ms = clock_->Read().mono_ms;
    if (now_ms < report_ms_) return;
    report_ms_ = now_ms + kReportEveryMs;
    JudgeSelf();
    const absl::StatusOr<uint64_t> durable = store_->SyncApplied();
    if (!durable.ok()) {
      spdlog::error("cell: {}", durable.status().ToString());
      return;
    }
    member_.journal()->Report({.name = config_.cell.cell_member,
                               .address = config_.cell.cell_address,
                               // A start looks for the last entry that it has applied.
                               .durable_offset = *durable - std::min<uint64_t>(*durable, 1),
                               .ahead_most_ms = roster_->TakeAheadMost(),
                               .disk_low = DiskLow()});
  }

  void JudgeSelf() {
    const cell::LeadVerdict verdict = roster_->JudgeLead(config_.cell.cell_member);
    if (std::exchange(apart_, verdict.apart) != verdict.apart) {
      spdlog::log(
          verdict.apart > 0 ? spdlog::level::warn : spdlog::level::info,
          "cell: this member's clock differs by more than {} ms from those of {} other members",
          config_.cell.cell_clock_difference_max_ms, verdict.apart);
    }
    wrong_reports_ = verdict.hands_over ? wrong_reports_ + 1 : 0;
    if (wrong_reports_ == kWrongReports) {
      spdlog::warn("cell: {}: this member hands over",
                   DiskLow() ? "another member has more room on its disk"
                             : "another member's clock agrees with more of them");
      hands_over_.store(true);
    }
  }

  // What a leader does beside the node.
  void Tend() {
    uint64_t trim_ms = 0;
    uint64_t trimmed = 0;
    // The last report says that this member follows.
    report_ms_ = 0;
    do {
      Report();
      const uint64_t now_ms = clock_->Read().mono_ms;
      if (now_ms < trim_ms || !member_.journal()->MayServe(now_ms)) continue;
      trim_ms = now_ms + std::min<uint64_t>(kTrimEveryMs, config_.cell.cell_log_keep_ms);
      if (KeepsLog()) {
        roster_->ForgetMarks();
        continue;
      }
      const std::optional<uint64_t> to = roster_->TrimTo(config_.cell.cell_log_keep_ms);
      if (!to.has_value() || *to <= trimmed) continue;
      const absl::Status status = log_->Trim(*to);
      roster_->set_trim_fails(!status.ok());
      if (status.ok()) trimmed = *to;
      if (!status.ok()) spdlog::warn("cell: {}", status.ToString());
    } while (Wait(kTendEvery));
  }
  bool KeepsLog() {
    base::MutexLock lock(&mutex_);
    return keeps_log_ != nullptr && keeps_log_();
  }
  bool DiskLow() {
    base::MutexLock lock(&mutex_);
    return disk_low_ != nullptr && disk_low_();
  }

  void Show(const std::string& leader) {
    base::MutexLock lock(&mutex_);
    if (leader == leader_) return;
    leader_ = leader;
    spdlog::info("cell: {}", leader.empty() ? "nobody leads" : "the leader is " + leader);
  }

  const config::Config& config_;
  const std::unique_ptr<kafka::KafkaLog> log_;
  base::Clock* const clock_;
  storage::RocksDbStore* const store_;
  cell::Roster* const roster_;
  StoreState state_;
  cell::Member member_;
  std::atomic<bool> stopping_{false};
  // Confined to the thread: when the next report is due, and where and when it read last.
  uint64_t report_ms_ = 0;
  uint64_t heard_offset_ = 0;
  uint64_t heard_ms_ = 0;
  // Of this member's clock at its last report.
  uint64_t apart_ = 0;
  int wrong_reports_ = 0;
  std::atomic<bool> hands_over_{false};

  base::Mutex mutex_;
  base::CondVar wake_;
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  std::string told_ ABSL_GUARDED_BY(mutex_);
  bool shown_ ABSL_GUARDED_BY(mutex_) = false;
  bool decided_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<bool()> keeps_log_ ABSL_GUARDED_BY(mutex_);
  std::function<bool()> disk_low_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  // Last, because it uses all of the above.
  std::thread thread_;
};

Membership::Membership(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Membership::~Membership() = default;

absl::StatusOr<std::unique_ptr<Membership>> Membership::Begin(const config::Config& config,
                                                              storage::RocksDbStore* store,
                                                              base::Clock* clock,
                                                              cell::Roster* roster) {
  if (absl::Status status = CheckFetch(config); !status.ok()) return status;
  auto log = OpenCellLog(config);
  if (!log.ok()) return log.status();
  return std::unique_ptr<Membership>(
      new Membership(std::make_unique<Impl>(config, *std::move(log), store, clock, roster)));
}

bool Membership::Decided(api::Server* server) { return impl_->Decided(server); }
absl::Status Membership::status() const { return impl_->status(); }
void Membership::Ask(std::function<bool()> keeps_log, std::function<bool()> disk_low) {
  impl_->Ask(std::move(keeps_log), std::move(disk_low));
}
void Membership::EndTending() { impl_->EndTending(); }
bool Membership::hands_over() const { return impl_->hands_over(); }
bool Membership::leads() const { return impl_->member()->journal()->leads().has_value(); }
void Membership::EndWithin(uint64_t ms) { impl_->member()->journal()->StopWithin(ms); }
storage::Journal* Membership::journal() { return impl_->member()->journal(); }

void Membership::Resign() {
  if (impl_->member()->Resign() == storage::AppendOutcome::kAccepted) {
    spdlog::info("cell: this member leads no more");
  }
}

}  // namespace duetime
