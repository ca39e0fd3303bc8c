// SPDX-License-Identifier: Apache-2.0
//
// Makes the n-th call to the disk fail, for each kind of call, each error and each n that a run
// reaches, once or from then on. The run has several lives: it creates a store, fills it, flushes,
// compacts, closes and opens it again. After the fault the store either goes on correctly, or
// accepts nothing more, or ends. Then the power fails, in each way, or only the process ends. The
// next start without a fault must find all that was acknowledged, and may not refuse. If syncs lie,
// the same judgement must find the loss; otherwise it would prove nothing.
//
// DUETIME_ALL_FAULTS=1 tries every fault. Without it, each test tries a part of its faults.
// DUETIME_FAULT=write:ENOSPC:17:torn tries this one ("once", "for_good" or "torn").
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "tests/crash/disk_calls.h"
#include "tests/crash/fault_workload.h"
#include "tests/crash/store_mutations.h"
#include "tests/support/from_environment.h"
#include "tests/support/test_scale.h"

namespace duetime::test {
namespace {

// How a run ended that did nothing wrong. Values of an exit code.
enum End : int {
  kWentOn = 0,
  kFencedItself = 1,
  kDidNotOpen = 2,
  // The store did wrong.
  kWrong = 20,
  // A life ended with a part of its work undone, although nothing failed.
  kIncomplete = 21,
};

constexpr uint64_t kLives = 3;
constexpr uint64_t kAppendsOfALife = 14;

// What a run did. In memory that it shares with the judge.
struct RunReport {
  DiskCounters disk;
  // Appends that were begun; that were accepted; that must survive a power cut.
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> durable{0};
};

// One RunReport in shared memory.
class SharedReport {
 public:
  SharedReport()
      : memory_(::mmap(nullptr, sizeof(RunReport), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        report_(new (memory_) RunReport) {}
  ~SharedReport() { ::munmap(memory_, sizeof(RunReport)); }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;

  RunReport* get() const { return report_; }
  RunReport* operator->() const { return report_; }

 private:
  void* const memory_;
  RunReport* const report_;
};

const std::map<std::string, DiskCall>& CallNames() {
  static const auto* const names =
      new std::map<std::string, DiskCall>{{"write", DiskCall::kWrite},
                                          {"sync", DiskCall::kSync},
                                          {"open", DiskCall::kOpen},
                                          {"truncate", DiskCall::kTruncate},
                                          {"rename", DiskCall::kRename}};
  return *names;
}

const std::map<std::string, int>& ErrorNames() {
  static const auto* const names = new std::map<std::string, int>{
      {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE}, {"EDQUOT", EDQUOT}};
  return *names;
}

template <typename Value>
std::string NameIn(const std::map<std::string, Value>& names, Value value) {
  for (const auto& [name, of] : names) {
    if (of == value) return name;
  }
  return "?";
}

std::string ToString(const DiskFault& fault) {
  return absl::StrCat(NameIn(CallNames(), fault.call), ":", NameIn(ErrorNames(), fault.error), ":",
                      fault.n, ":",
                      fault.torn       ? "torn"
                      : fault.for_good ? "for_good"
                                       : "once");
}

// The error is missing from the kinds of calls for which the kernel does not give it.
bool CanHappen(DiskCall call, int error) { return error != EMFILE || call == DiskCall::kOpen; }

std::string DataDir(const std::string& root) { return root + "/data"; }

storage::RocksDbStoreOptions FaultOptions(const std::string& root) {
  storage::RocksDbStoreOptions options = SmallStoreOptions(DataDir(root));
  // As the daemon: only a file "init" allows the creation.
  options.create_if_missing = false;
  options.log = [](storage::RocksDbStoreOptions::LogLevel, absl::string_view line) {
    std::cerr << line << "\n";
  };
  return options;
}

// Waits until the background work of a log switch is done, so that each run makes the same calls.
// A failed flush never ends.
void WaitForFlushes(RocksDbStore* store, const std::string& data_dir) {
  for (int i = 0; i < 500 && !store->Stats().fenced; ++i) {
    if (DbFiles(data_dir, ".log").size() <= 1 && !WritesATable()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// One process that writes.
class Writer {
 public:
  Writer(const DiskPaths& paths, RunReport* report, std::optional<DiskFault> fault)
      : paths_(paths), report_(report), fault_(fault) {
    WatchDisk(paths, &report->disk);
    SetDiskFault(fault);
  }

  // Opens the store and checks what it holds. nullopt: the life goes on.
  std::optional<int> Open() {
    auto opened = RocksDbStore::Open(FaultOptions(paths_.live));
    if (!opened.ok()) {
      std::cerr << "open: " << opened.status() << "\n";
      if (report_->disk.failed == 0) return kWrong;
      // Nothing was lost, so no answer may say so.
      return absl::IsInternal(opened.status()) ? kDidNotOpen : kWrong;
    }
    store_ = *std::move(opened);
    uint64_t number = 0;
    const auto complaint = Complaint(store_.get(), report_->accepted, report_->begun, &number);
    if (!complaint.ok()) {
      std::cerr << "read: " << complaint.status() << "\n";
      if (report_->disk.failed == 0 || !absl::IsInternal(complaint.status())) return kWrong;
      return kDidNotOpen;
    }
    if (!complaint->empty()) {
      std::cerr << *complaint << "\n";
      return kWrong;
    }
    report_->begun = number;
    report_->accepted = number;
    report_->durable = number;
    return std::nullopt;
  }

  // Makes the next append. nullopt: it was accepted.
  std::optional<int> AppendNext() {
    const uint64_t number = report_->begun + 1;
    const std::vector<storage::RecordBatch> group = {FaultBatch(number)};
    const bool sync = number % 3 != 1;
    report_->begun = number;
    const AppendOutcome outcome =
        store_->Append(group, sync ? Durability::kSynced : Durability::kBuffered);
    if (outcome != AppendOutcome::kAccepted) {
      // A fence in the background refuses the append as a whole.
      if (outcome == AppendOutcome::kFenced) report_->begun = number - 1;
      return Fenced();
    }
    report_->accepted = number;
    if (sync) report_->durable = number;
    if (number % 4 == 0) WaitForFlushes(store_.get(), DataDir(paths_.live));
    // Housekeeping writes it again later.
    if (number % 5 == 0) store_->WriteWitness().IgnoreError();
    return std::nullopt;
  }

  std::optional<int> Close() {
    const bool fenced = store_->Stats().fenced;
    const absl::Status closed = store_->Close();
    store_.reset();
    if (fenced) return kFencedItself;
    if (closed.ok()) report_->durable = report_->accepted.load();
    if (!closed.ok() && report_->disk.failed == 0) return kWrong;
    return std::nullopt;
  }

  RocksDbStore* store() const { return store_.get(); }

 private:
  // Nothing may be accepted any more. The errors that pass, and only these, call for a restart.
  int Fenced() {
    int end = kFencedItself;
    const auto require = [&end](bool right, absl::string_view complaint) {
      if (right) return;
      std::cerr << complaint << "\n";
      end = kWrong;
    };
    require(report_->disk.failed > 0, "fenced without a fault");
    const std::vector<storage::RecordBatch> group = {FaultBatch(report_->begun + 1)};
    for (const Durability durability : {Durability::kSynced, Durability::kBuffered}) {
      require(store_->Append(group, durability) == AppendOutcome::kFenced, "not fenced");
    }
    require(store_->Stats().fenced, "the figures do not say that it is fenced");
    // While the fault lasts, and later.
    store_->WriteWitness().IgnoreError();
    SetDiskFault(std::nullopt);
    store_->WriteWitness().IgnoreError();
    require(store_->ReopenWouldHelp() == (fault_->error != EIO),
            fault_->error != EIO ? "a restart would help, but the store does not say so"
                                 : "the store promises that a restart helps");
    if (fault_->n % 2 == 0) Close();
    return end;
  }

  const DiskPaths paths_;
  RunReport* const report_;
  const std::optional<DiskFault> fault_;
  std::unique_ptr<RocksDbStore> store_;
};

// The lives of a run, or fewer if a life ends early.
int Lives(const DiskPaths& paths, RunReport* report, const std::optional<DiskFault>& fault) {
  Writer run(paths, report, fault);
  for (uint64_t life = 0; life < kLives; ++life) {
    if (const auto end = run.Open()) return *end;
    for (uint64_t i = 0; i < kAppendsOfALife; ++i) {
      if (const auto end = run.AppendNext()) return *end;
    }
    WaitForFlushes(run.store(), DataDir(paths.live));
    if (const auto end = run.Close()) return *end;
  }
  return report->accepted == kLives * kAppendsOfALife ? kWentOn : kIncomplete;
}

// The next process on the same disk, after the first one ended. It does not close the store.
int Restart(const DiskPaths& paths, RunReport* report) {
  Writer run(paths, report, std::nullopt);
  if (const auto end = run.Open()) return kWrong;
  for (int i = 0; i < 5; ++i) {
    if (const auto end = run.AppendNext()) return kWrong;
  }
  return kWentOn;
}

// Opens what a power cut left.
int OpenAfterTheCut(const std::string& root, const RunReport& report) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto store = RocksDbStore::Open(FaultOptions(root));
    if (!store.ok()) {
      std::cerr << "after the power cut: " << store.status() << "\n";
      return kWrong;
    }
    uint64_t number = 0;
    const uint64_t more = static_cast<uint64_t>(attempt);
    const auto complaint =
        Complaint(store->get(), report.durable + more, report.begun + more, &number);
    if (!complaint.ok() || !complaint->empty()) {
      std::cerr << "after the power cut: " << complaint.status() << complaint.value_or("") << "\n";
      return kWrong;
    }
    const std::vector<storage::RecordBatch> group = {FaultBatch(number + 1)};
    if ((*store)->Append(group, Durability::kSynced) != AppendOutcome::kAccepted) return kWrong;
    if (attempt == 1 && !(*store)->Close().ok()) return kWrong;
  }
  return kWentOn;
}

// A disk with an empty data directory that may become a store.
class FaultyDisk {
 public:
  FaultyDisk() {
    for (const std::string& part : {paths_.live, paths_.kept}) fs::create_directory(part);
    fs::create_directory(DataDir(paths_.live));
    WriteFile(DataDir(paths_.live) + "/init", "");
    DiskHistory::Begin(paths_);
  }

  const DiskPaths& paths() const { return paths_; }

  template <typename Body>
  Outcome InProcess(Body body) {
    return InChild(directory_.Join("stderr"), body);
  }

  Outcome AfterTheCut(PowerCut cut, uint64_t seed, const RunReport& report) {
    const std::string root = directory_.Join("cut");
    fs::remove_all(root);
    fs::create_directory(root);
    DiskHistory(paths_).Cut(cut, seed, root);
    return InProcess([&] { return OpenAfterTheCut(root, report); });
  }

 private:
  const TempDirectory directory_;
  const DiskPaths paths_ = {directory_.Join("live"), directory_.Join("kept")};
};

bool EndedWell(const Outcome& outcome, int error) {
  // Debian's RocksDB has assertions, and some of them do not expect a failed write. The process
  // then ends, as by a kill.
  if (outcome.signal == SIGABRT) {
    return error != 0 && absl::StrContains(outcome.text, "Assertion `");
  }
  return outcome.signal == 0 && outcome.exit_code < kWrong;
}

std::string TextOf(const Outcome& outcome) {
  return absl::StrCat("exit code ", outcome.exit_code, ", signal ", outcome.signal, "\n",
                      outcome.text.substr(0, 3000));
}

// Counts how the runs of a test ended.
struct Ends {
  uint64_t runs = 0;
  uint64_t without_fault = 0;
  std::map<std::string, uint64_t> ends;

  void Add(const Outcome& run) {
    static constexpr const char* kNames[] = {"went on", "fenced", "did not open"};
    ++runs;
    ++ends[run.signal != 0 ? "aborted in RocksDB" : kNames[run.exit_code]];
  }
  void Print(const std::string& name) const {
    std::cout << name << ": " << runs << " runs with a fault, of which "
              << absl::StrJoin(ends, ", ",
                               [](std::string* out, const auto& end) {
                                 absl::StrAppend(out, end.second, " ", end.first);
                               })
              << "\n";
  }
};

constexpr const char* kCutNames[] = {"dropped", "zeroed", "torn"};

// One run with one fault, and what follows.
void TryFault(const DiskFault& fault, Ends* ends) {
  const uint64_t seed = FromEnvironment("DUETIME_SEED", 1);
  SCOPED_TRACE(absl::StrCat("replay: DUETIME_FAULT=", ToString(fault), " DUETIME_SEED=", seed));
  FaultyDisk disk;
  const SharedReport report;
  const Outcome run = disk.InProcess([&] { return Lives(disk.paths(), report.get(), fault); });
  if (!EndedWell(run, fault.error)) {
    ADD_FAILURE() << TextOf(run);
    return;
  }
  if (report->disk.failed == 0) {
    ++ends->without_fault;
    return;
  }
  ends->Add(run);
  for (const PowerCut cut : kPowerCuts) {
    const Outcome after = disk.AfterTheCut(cut, seed + fault.n, *report.get());
    EXPECT_TRUE(EndedWell(after, 0)) << "unsynced bytes " << kCutNames[static_cast<size_t>(cut)]
                                     << ": " << TextOf(after) << "the run: " << TextOf(run);
  }
  const Outcome restart = disk.InProcess([&] { return Restart(disk.paths(), report.get()); });
  EXPECT_TRUE(EndedWell(restart, 0))
      << "the next process: " << TextOf(restart) << "the run: " << TextOf(run);
  const PowerCut later = kPowerCuts[fault.n % std::size(kPowerCuts)];
  const Outcome after = disk.AfterTheCut(later, seed + fault.n, *report.get());
  EXPECT_TRUE(EndedWell(after, 0))
      << "a restart, then unsynced bytes " << kCutNames[static_cast<size_t>(later)] << ": "
      << TextOf(after) << "the run: " << TextOf(run);
}

// The calls of each kind in a run without a fault.
std::array<uint64_t, std::size(kDiskCalls)> CountCalls() {
  FaultyDisk disk;
  const SharedReport report;
  const Outcome run =
      disk.InProcess([&] { return Lives(disk.paths(), report.get(), std::nullopt); });
  EXPECT_TRUE(run.signal == 0 && run.exit_code == kWentOn) << TextOf(run);
  std::array<uint64_t, std::size(kDiskCalls)> calls{};
  for (size_t i = 0; i < calls.size(); ++i) calls[i] = report->disk.calls[i];
  return calls;
}

struct FaultKind {
  DiskCall call;
  int error;
};

class DiskFaultsTest : public testing::TestWithParam<FaultKind> {};

TEST_P(DiskFaultsTest, EachNthFailureLosesNothing) {
  const auto [call, error] = GetParam();
  static const auto counts = CountCalls();
  const uint64_t calls = counts[static_cast<size_t>(call)];
  ASSERT_GT(calls, 5u);
  std::vector<DiskFault> faults;
  // The order of background threads adds or takes away a few calls.
  for (uint64_t n = 1; n <= calls + 3; ++n) {
    faults.push_back({.call = call, .n = n, .error = error});
    faults.push_back({.call = call, .n = n, .error = error, .for_good = true});
    if (call == DiskCall::kWrite) {
      faults.push_back({.call = call, .n = n, .error = error, .torn = true});
    }
  }
  const uint64_t wanted = FromEnvironment("DUETIME_ALL_FAULTS", 0) != 0
                              ? faults.size()
                              : static_cast<uint64_t>(Scaled(6));
  // Spread over the run; another seed takes other ones. Variants of one n lie side by side, two or
  // three: the stride meets all of them.
  uint64_t stride = std::max<uint64_t>(1, faults.size() / wanted);
  while (stride > 1 && (stride % 2 == 0 || stride % 3 == 0)) --stride;
  Ends ends;
  for (uint64_t at = FromEnvironment("DUETIME_SEED", 1) * 7 % stride; at < faults.size();
       at += stride) {
    TryFault(faults[at], &ends);
  }
  ends.Print(absl::StrCat(NameIn(CallNames(), call), " ", NameIn(ErrorNames(), error), ", ", calls,
                          " calls, stride ", stride));
  EXPECT_GE(ends.runs, faults.size() / stride * 3 / 4) << "nearly all faults must come";
}

std::vector<FaultKind> FaultKinds() {
  std::vector<FaultKind> kinds;
  for (const DiskCall call : kDiskCalls) {
    for (const auto& [name, error] : ErrorNames()) {
      if (CanHappen(call, error)) kinds.push_back({call, error});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Each, DiskFaultsTest, testing::ValuesIn(FaultKinds()),
                         [](const auto& test) {
                           return NameIn(CallNames(), test.param.call) + "_" +
                                  NameIn(ErrorNames(), test.param.error);
                         });

// The fault in DUETIME_FAULT, to replay a failure.
TEST(DiskFaultTest, TheFaultOfTheEnvironment) {
  const std::string text = TextFromEnvironment("DUETIME_FAULT");
  if (text.empty()) GTEST_SKIP() << "DUETIME_FAULT is not set";
  const std::vector<std::string> part = absl::StrSplit(text, ':');
  ASSERT_EQ(part.size(), 4u) << "as in write:ENOSPC:17:torn";
  DiskFault fault = {.call = CallNames().at(part[0]), .error = ErrorNames().at(part[1])};
  ASSERT_TRUE(absl::SimpleAtoi(part[2], &fault.n));
  fault.for_good = part[3] == "for_good";
  fault.torn = part[3] == "torn";
  Ends ends;
  TryFault(fault, &ends);
  ends.Print(text);
}

// Opens a store again and again. Each time another open of a file fails.
int StartsWithoutADescriptor(const DiskPaths& paths, RunReport* report) {
  Writer run(paths, report, std::nullopt);
  if (const auto end = run.Open()) return *end;
  if (const auto end = run.AppendNext()) return *end;
  if (const auto end = run.Close()) return *end;
  const std::atomic<uint64_t>& opens = report->disk.calls[static_cast<size_t>(DiskCall::kOpen)];
  const uint64_t before = opens;
  if (!RocksDbStore::Open(FaultOptions(paths.live)).ok()) return kIncomplete;
  // Failed starts leave files, so that later starts open more of them.
  const uint64_t opens_of_a_start = opens - before;
  int end = opens_of_a_start > 10 ? kWentOn : kIncomplete;
  for (uint64_t n = 1; n <= opens_of_a_start; ++n) {
    SetDiskFault(DiskFault{.call = DiskCall::kOpen, .n = opens + n, .error = EMFILE});
    const auto store = RocksDbStore::Open(FaultOptions(paths.live));
    if (!store.ok() && !absl::IsInternal(store.status())) {
      std::cerr << "wrong, open " << n << ": " << store.status() << "\n";
      end = kWrong;
    }
  }
  // The last opens of a start are in the background: a start may end without them.
  return report->disk.failed >= opens_of_a_start * 3 / 4 ? end : kIncomplete;
}

// No file of the directory is missing, and no other process uses it.
TEST(DiskFaultTest, AStartWithoutADescriptorIsAnErrorOfTheSystem) {
  FaultyDisk disk;
  const SharedReport report;
  const Outcome run =
      disk.InProcess([&] { return StartsWithoutADescriptor(disk.paths(), report.get()); });
  EXPECT_TRUE(run.signal == 0 && run.exit_code == kWentOn) << TextOf(run);
}

// A run of one life, which does not close the store.
int FillOnce(const DiskPaths& paths, RunReport* report, uint64_t appends, SyncLies lies) {
  Writer run(paths, report, std::nullopt);
  // A start syncs the names of the files that it makes. The other lies begin later, when the
  // creation is durable.
  if (lies == SyncLies::kDirectories) LieAboutSyncs(lies);
  if (const auto end = run.Open()) return *end;
  LieAboutSyncs(lies);
  for (uint64_t i = 0; i < appends; ++i) {
    if (const auto end = run.AppendNext()) return *end;
  }
  return kWentOn;
}

struct Canary {
  SyncLies lies;
  PowerCut cut;
};

// A disk that only claims to sync loses acknowledged appends, and the judgement must see each loss.
// If the disk is honest, nothing is lost.
TEST(DiskFaultTest, ALyingSyncIsCaught) {
  std::vector<Canary> canaries = {{SyncLies::kDirectories, PowerCut::kDropped}};
  for (const PowerCut cut : kPowerCuts) {
    for (const SyncLies lies : {SyncLies::kNone, SyncLies::kFiles, SyncLies::kAll}) {
      canaries.push_back({lies, cut});
    }
  }
  for (const Canary& canary : canaries) {
    for (const uint64_t appends : {2u, 9u, 30u}) {
      SCOPED_TRACE(absl::StrCat("lies ", static_cast<int>(canary.lies), ", unsynced bytes ",
                                kCutNames[static_cast<size_t>(canary.cut)], ", ", appends,
                                " appends"));
      FaultyDisk disk;
      const SharedReport report;
      const Outcome run = disk.InProcess(
          [&] { return FillOnce(disk.paths(), report.get(), appends, canary.lies); });
      ASSERT_TRUE(run.signal == 0 && run.exit_code == kWentOn) << TextOf(run);
      const Outcome after = disk.AfterTheCut(canary.cut, appends, *report.get());
      EXPECT_EQ(after.exit_code, canary.lies == SyncLies::kNone ? kWentOn : kWrong)
          << TextOf(after);
    }
  }
}

}  // namespace
}  // namespace duetime::test
