// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/cell_host.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/cell/member.h"

namespace duetime::simulation {

using storage::AppendOutcome;
using storage::Durability;
using storage::LogPlace;
using storage::RecordBatch;

namespace {

constexpr uint64_t kHeartbeatMs = 300;
constexpr uint64_t kSuspectMs = 1'500;
// As kBeginEvery in server/daemon/cell.cc.
constexpr uint64_t kBeginEveryMs = 50;
// Much shorter than in a daemon, so that a run sees many trims.
constexpr uint64_t kTrimEveryMs = 250;
constexpr uint64_t kLogKeepMs = 1'000;
// Longer than all faults together.
constexpr uint64_t kElectionMaxMs = 120'000;
constexpr int kDepthMax = 3;
// A member seldom steps, because it suspects nobody while reads of the log fail.
constexpr uint64_t kStepOneIn = 8;

// Marks that a member's thread is in a call.
class Busy {
 public:
  explicit Busy(bool* busy) : busy_(busy) { *busy_ = true; }
  ~Busy() { *busy_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  bool* const busy_;
};

}  // namespace

// A machine's way to the log.
class CellHost::Link final : public cell::Log {
 public:
  explicit Link(CellHost* host) : host_(host) {}

  // Until then, no answer arrives; with `writes_arrive`, only the answers are lost.
  uint64_t cut_until_ms = 0;
  bool writes_arrive = false;
  // The next append fails for good.
  bool refuses = false;

  absl::StatusOr<uint64_t> Append(absl::string_view bytes) override {
    if (std::exchange(refuses, false)) return absl::InvalidArgumentError("too large");
    if (!IsCut()) return host_->log_.Append(bytes);
    if (writes_arrive && host_->dice_.OneIn(2)) host_->log_.Append(bytes).IgnoreError();
    return NoAnswer();
  }
  absl::StatusOr<std::optional<cell::LogEntry>> Read(uint64_t offset) override {
    if (IsCut()) return NoAnswer();
    return host_->log_.Read(offset);
  }
  void Post(absl::string_view bytes) override {
    if (!IsCut()) host_->log_.Post(bytes);
  }
  absl::Status Trim(uint64_t offset) override {
    if (IsCut()) return NoAnswer();
    return host_->log_.Trim(offset);
  }
  absl::StatusOr<uint64_t> End() override {
    if (IsCut()) return NoAnswer();
    return host_->log_.End();
  }

 private:
  bool IsCut() const { return !host_->healing() && host_->SteadyMs() < cut_until_ms; }
  absl::Status NoAnswer() {
    host_->Advance(5 + host_->dice_.Below(30));
    host_->Meanwhile();
    return absl::UnavailableError("cut off");
  }

  CellHost* const host_;
};

// What a member has applied. Its Append is the journal of the member that leads.
class CellHost::Store final : public FaultyStore, public cell::AppliedState {
 public:
  Store(CellHost* host, Machine* machine);

  AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) override {
    return host_->Append(machine_, group, durability);
  }
  uint64_t epoch() const override;
  LogPlace place() const override;
  absl::Status Apply(std::span<const RecordBatch> group, const LogPlace& place) override;

  // All that is applied is on stable storage from now on.
  void Sync() {
    const RecordBatch nothing;
    static_cast<void>(FaultyStore::Append(std::span(&nothing, 1), Durability::kSynced));
  }

  // The next Apply fails.
  bool fails = false;

 private:
  CellHost* const host_;
  Machine* const machine_;
};

struct CellHost::Machine {
  // Steady time, from a zero of this machine.
  class Clock final : public base::Clock {
   public:
    Clock(const CellHost* host, uint64_t ahead_ms) : host_(host), ahead_ms_(ahead_ms) {}
    base::Now Read() override {
      const uint64_t mono_ms = host_->SteadyMs() + ahead_ms_;
      return {.wall_ms = mono_ms, .mono_ms = mono_ms};
    }
    base::ClockState state() override { return base::ClockState::kNormal; }

   private:
    const CellHost* const host_;
    const uint64_t ahead_ms_;
  };

  Machine(CellHost* host, std::string name_given)
      : name(std::move(name_given)), clock(host, host->dice_.Below(10'000)), link(host) {}

  cell::ReplicatedJournal* journal() { return member->journal(); }
  bool MayServe() { return leads && journal()->MayServe(clock.Read().mono_ms); }
  // The disk after a crash.
  void PowerCut(size_t kept) {
    const size_t unsynced = disk->unsynced_appends();
    places.resize(places.size() - (unsynced - std::min(unsynced, kept)));
    places = {places.back()};
    disk->PowerCut(kept);
  }

  const std::string name;
  Clock clock;
  Link link;
  // The disk has the places of its unsynced appends, and of the last one that is synced.
  std::unique_ptr<test::TestDisk> disk;
  std::vector<LogPlace> places;
  std::unique_ptr<Store> store;
  std::unique_ptr<cell::Roster> roster;
  std::unique_ptr<cell::Member> member;
  // A call waits for the log.
  bool busy = false;
  // Its epoch has begun.
  bool leads = false;
  // Has read the whole log since it lost its disk, and has it on the disk.
  bool whole = false;
  uint64_t away_until_ms = 0;
  uint64_t append_ms = 0;
  uint64_t report_ms = 0;
  uint64_t trim_ms = 0;
};

CellHost::Store::Store(CellHost* host, Machine* machine)
    : FaultyStore(machine->disk.get(), host->setup_.fault), host_(host), machine_(machine) {}

uint64_t CellHost::Store::epoch() const {
  return host_->setup_.fault == PlantedFault::kEpochTwice ? 1 : machine_->places.back().epoch;
}

LogPlace CellHost::Store::place() const { return machine_->places.back(); }

absl::Status CellHost::Store::Apply(std::span<const RecordBatch> group, const LogPlace& place) {
  if (std::exchange(fails, false)) return absl::InternalError("the disk is full");
  const bool skips = host_->setup_.fault == PlantedFault::kSkipGroups &&
                     machine_ != host_->serving_ && host_->dice_.OneIn(20);
  if (skips) group = {};
  if (FaultyStore::Append(group, Durability::kBuffered) != AppendOutcome::kAccepted) {
    return absl::InternalError("the store is fenced");
  }
  machine_->places.push_back(place);
  return absl::OkStatus();
}

CellHost::CellHost(CellSetup setup) : setup_(std::move(setup)), dice_(setup_.seed), log_(&dice_) {
  for (size_t i = 0; i < setup_.members; ++i) {
    machines_.push_back(std::make_unique<Machine>(this, absl::StrCat("member-", i)));
    Machine* const machine = machines_.back().get();
    machine->disk = std::make_unique<test::TestDisk>(setup_.shards);
    machine->places = {LogPlace{}};
    machine->whole = true;
    Run(machine);
  }
  log_.meanwhile = [this] {
    // Members that follow wait while the server runs.
    if (serving_ == nullptr || serving_->busy) {
      Advance(dice_.OneIn(40) && !calm() ? dice_.Below(100) : dice_.Below(3));
    }
    Meanwhile();
  };
}

CellHost::~CellHost() = default;

// ---- The server

FaultyStore* CellHost::Start() {
  runs_ = true;
  if (!calm()) base_ms_ -= setup_.now->mono_ms;
  const uint64_t until_ms = SteadyMs() + kElectionMaxMs;
  while (serving_ == nullptr && SteadyMs() < until_ms) {
    Advance(1 + dice_.Below(60));
    for (const auto& machine : machines_) {
      if (dice_.OneIn(kStepOneIn)) Step(machine.get());
    }
    CheckOneServes();
    serving_ = Ready();
    // Another member may have begun its epoch.
    if (serving_ != nullptr && calm() && !StillLeads()) Run(std::exchange(serving_, nullptr));
  }
  if (serving_ == nullptr) {
    setup_.violate("no member begins to lead");
    serving_ = machines_.front().get();
  }
  appended_ms_ = served_ms_ = SteadyMs();
  fails_next_ = given_up_ = false;
  return serving_->store.get();
}

void CellHost::Stop(End how, size_t) {
  Machine* const machine = std::exchange(serving_, nullptr);
  if (machine != former_) {
    if (how == End::kStop && machine->journal()->leads().has_value()) {
      const Busy busy(&machine->busy);
      static_cast<void>(machine->member->Resign());
    }
    if (how == End::kPowerCut && MayWipe(machine) && dice_.OneIn(3)) {
      Wipe(machine);
    } else {
      Crash(machine, how == End::kPowerCut);
    }
    // Mostly another one leads next.
    if (dice_.OneIn(2)) machine->away_until_ms = SteadyMs() + dice_.Below(5'000);
  }
  // The server's steady clock begins anew.
  if (!calm()) base_ms_ += setup_.now->mono_ms;
  runs_ = false;
}

void CellHost::FailNextAppend(test::TestStore::Fault fault) {
  fails_next_ = true;
  if (fault == test::TestStore::Fault::kUnknownApplied) {
    serving_->store->fails = true;
  } else {
    serving_->link.refuses = true;
  }
}

test::TestDisk* CellHost::disk() { return serving_->disk.get(); }

void CellHost::Repair() {
  for (const auto& machine : machines_) machine->disk->Repair();
}

AppendOutcome CellHost::Append(Machine* machine, std::span<const RecordBatch> group,
                               Durability durability) {
  const Busy busy(&machine->busy);
  const std::optional<uint64_t> epoch = machine->journal()->leads();
  const AppendOutcome outcome = machine->journal()->Append(group, durability);
  appended_ms_ = SteadyMs();
  if (outcome == AppendOutcome::kAccepted) return outcome;
  machine->leads = false;
  // An append with which a subscription begins reads the counters.
  if (machine->member->place().epoch == epoch && !fails_next_ && !given_up_ &&
      !machine->disk->fails_reads()) {
    setup_.violate("an append failed, and nothing was wrong");
  }
  return outcome;
}

bool CellHost::MayServe() const {
  return setup_.fault == PlantedFault::kServeOn || calm() || serving_->MayServe();
}

bool CellHost::AppendIsDue() const { return !calm() && SteadyMs() >= appended_ms_ + kHeartbeatMs; }

bool CellHost::StillLeads() {
  return Append(serving_, {}, Durability::kBuffered) == AppendOutcome::kAccepted;
}

bool CellHost::GoesOn() {
  if (former_ != nullptr || !Superseded() || healing() || dice_.OneIn(3)) return false;
  former_ = serving_;
  return true;
}

bool CellHost::FormerMayServe() const {
  return setup_.fault == PlantedFault::kServeOn || former_->MayServe();
}

void CellHost::EndFormer() { Crash(std::exchange(former_, nullptr), dice_.OneIn(2)); }

// ---- Time

void CellHost::Advance(uint64_t ms) {
  if (calm()) {
    base_ms_ += ms;
  } else {
    setup_.now->mono_ms += ms;
    setup_.now->wall_ms += ms;
  }
  log_.time_ms = SteadyMs();
}

void CellHost::Pass() {
  // The server's next append fails, not one of these.
  if (depth_ >= kDepthMax || (calm() && fails_next_)) return;
  ++depth_;
  if (calm()) {
    Advance(dice_.Below(400));
    if (Append(serving_, {}, Durability::kBuffered) != AppendOutcome::kAccepted) {
      setup_.violate("the leader was replaced, and nothing was wrong");
    }
  }
  if (!healing() && dice_.OneIn(calm() ? 20 : 150)) HaveFault();
  for (const auto& machine : machines_) {
    if (!machine->busy) Tend(machine.get());
    if (dice_.OneIn(kStepOneIn)) Step(machine.get());
  }
  CheckOneServes();
  --depth_;
}

void CellHost::Meanwhile() {
  if (depth_ >= kDepthMax) return;
  ++depth_;
  CheckOneServes();
  if (serving_ != nullptr && serving_->busy && !calm() && !healing()) {
    EndIfItLeadsNoMore();
    if (dice_.OneIn(3)) setup_.meanwhile();
  }
  if (dice_.OneIn(5)) Step(AnyMachine());
  --depth_;
}

// As LeadsNoMore in server/daemon/serve.cc.
void CellHost::EndIfItLeadsNoMore() {
  if (serving_->MayServe()) served_ms_ = SteadyMs();
  if (SteadyMs() <= served_ms_ + kSuspectMs) return;
  given_up_ = true;
  serving_->journal()->Stop();
}

void CellHost::CheckOneServes() {
  std::string who;
  int serve = 0;
  for (const auto& machine : machines_) {
    if (!machine->MayServe()) continue;
    absl::StrAppend(&who, " ", machine->name);
    ++serve;
  }
  if (serve > 1) setup_.violate("two members may serve at the same time:" + who);
}

// ---- The members

bool CellHost::IsFree(const Machine* machine) const {
  return !machine->busy && machine != serving_ && machine != former_ &&
         SteadyMs() >= machine->away_until_ms;
}

CellHost::Machine* CellHost::Ready() const {
  for (const auto& machine : machines_) {
    if (machine.get() != serving_ && machine.get() != former_ && !machine->busy &&
        machine->MayServe()) {
      return machine.get();
    }
  }
  return nullptr;
}

void CellHost::Step(Machine* machine) {
  if (!IsFree(machine)) return;
  const Busy busy(&machine->busy);
  if (machine->leads) return KeepLeading(machine);
  Follow(machine);
}

void CellHost::Follow(Machine* machine) {
  for (uint64_t left = 1 + dice_.Below(30); left > 0; --left) {
    const LogPlace before = machine->member->place();
    const absl::StatusOr<bool> leads = machine->member->Step();
    if (absl::IsOutOfRange(leads.status())) return Fetch(machine);
    if (!leads.ok()) {
      return setup_.violate(absl::StrCat(machine->name, ": ", leads.status().ToString()));
    }
    if (*leads) return BeginToLead(machine);
    if (machine->member->place() == before) break;
  }
  if (!machine->whole && machine->member->place().offset >= log_.end()) {
    machine->store->Sync();
    machine->whole = true;
  }
}

void CellHost::BeginToLead(Machine* machine) {
  setup_.count("epochs");
  machine->leads = machine->member->Announce() == AppendOutcome::kAccepted;
  machine->append_ms = SteadyMs();
  if (!machine->leads) Run(machine);
}

void CellHost::KeepLeading(Machine* machine) {
  if (SteadyMs() < machine->append_ms + kBeginEveryMs) return;
  machine->leads =
      machine->journal()->Append({}, Durability::kBuffered) == AppendOutcome::kAccepted;
  machine->append_ms = SteadyMs();
  if (!machine->leads) Run(machine);
}

// As Membership in server/daemon/cell.cc.
void CellHost::Tend(Machine* machine) {
  const uint64_t now_ms = SteadyMs();
  if (now_ms >= machine->report_ms) {
    machine->report_ms = now_ms + 500 + dice_.Below(1'500);
    machine->store->Sync();
    const uint64_t durable = machine->places.back().offset;
    machine->journal()->Report({.name = machine->name,
                                .address = machine->name,
                                .durable_offset = durable - std::min<uint64_t>(durable, 1)});
  }
  if (now_ms < machine->trim_ms || !machine->MayServe()) return;
  machine->trim_ms = now_ms + kTrimEveryMs;
  std::optional<uint64_t> to = machine->roster->TrimTo(kLogKeepMs);
  if (setup_.fault == PlantedFault::kTrimTooFar) to = machine->places.back().offset - 1;
  if (to.has_value() && machine->link.Trim(*to).ok()) setup_.count("trims");
}

// Takes a checkpoint of the leader, as FetchCheckpoint does.
void CellHost::Fetch(Machine* machine) {
  for (const auto& leader : machines_) {
    if (!leader->MayServe() || leader->places.back().offset <= machine->places.back().offset) {
      continue;
    }
    leader->roster->ForgetMarks();
    machine->disk = leader->disk->Checkpoint();
    machine->places = {leader->places.back()};
    Run(machine);
    machine->whole = true;
    return setup_.count("checkpoints");
  }
}

// Starts the member's process.
void CellHost::Run(Machine* machine) {
  machine->leads = false;
  machine->link.refuses = false;
  machine->member.reset();
  machine->roster = std::make_unique<cell::Roster>();
  machine->store = std::make_unique<Store>(this, machine);
  machine->places = {machine->places.back()};
  const cell::MemberOptions options{
      .self = {.name = machine->name, .address = machine->name, .shards = setup_.shards},
      .heartbeat_ms = kHeartbeatMs,
      .suspect_ms = kSuspectMs};
  machine->member = std::make_unique<cell::Member>(
      options, &machine->link, machine->store.get(), machine->store.get(), &machine->clock,
      [this] { return dice_.Below(1'000'000'000); }, machine->roster.get());
}

void CellHost::Crash(Machine* machine, bool power) {
  const size_t unsynced = machine->disk->unsynced_appends();
  machine->PowerCut(power ? dice_.Below(unsynced + 1) : unsynced);
  Run(machine);
}

void CellHost::Wipe(Machine* machine) {
  setup_.count("lost disks");
  machine->disk = std::make_unique<test::TestDisk>(setup_.shards);
  machine->places = {LogPlace{}};
  machine->whole = false;
  Run(machine);
}

bool CellHost::MayWipe(const Machine* machine) const {
  return machines_.size() > 1 &&
         std::all_of(machines_.begin(), machines_.end(),
                     [&](const auto& any) { return any.get() == machine || any->whole; });
}

void CellHost::HaveFault() {
  Machine* const machine = AnyMachine();
  const uint64_t how_long_ms = dice_.OneIn(3) ? dice_.Below(10'000) : dice_.Below(1'000);
  const uint64_t what = dice_.Below(4);
  const bool follows = IsFree(machine);
  if (what == 0 && (follows || !calm())) {
    setup_.count("cuts");
    machine->link.cut_until_ms = SteadyMs() + how_long_ms;
    machine->link.writes_arrive = dice_.OneIn(2);
  } else if (what == 1 && follows) {
    machine->away_until_ms = SteadyMs() + 2 * how_long_ms;
  } else if (what == 2 && follows) {
    Crash(machine, dice_.OneIn(2));
  } else if (what == 3 && follows && MayWipe(machine)) {
    Wipe(machine);
  }
}

}  // namespace duetime::simulation
