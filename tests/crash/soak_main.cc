// SPDX-License-Identifier: Apache-2.0
//
// The soak: one data directory, for hours, with everything at once. Clients schedule, move, cancel
// and receive; topics, subscriptions, recurrences and bulk operations come and go; the clock steps
// both ways. In the first and the third quarter of the time the daemon is also killed, stopped, and
// given a full disk. At the end the daemon is drained, the directory verified, the history judged,
// and memory, descriptors, threads and the directory must not have grown.
//
//   soak_test --out=DIR [--seconds=N] [--rate=N] [--seed=N] [--shards=N] [--daemon=PATH]
//
// DIR gets samples.csv, samples.svg and the daemon's log, and after a failure the history, which
// history_check reads (250 bytes for each message). Exit code 0: good; 1: a promise was broken or
// something grew; 2: the test could not run, or too little happened.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/crash/kill_cycles.h"
#include "tests/crash/machine_control.h"
#include "tests/crash/soak_churn.h"
#include "tests/crash/soak_clients.h"
#include "tests/crash/soak_samples.h"
#include "tests/support/history_checker.h"
#include "tests/support/paths.h"
#include "tests/support/server_process.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;
using test::Outcome;
using test::What;

struct Arguments {
  // `cycles` is not used.
  KillOptions kill = {};
  std::string out;
  std::string machine = test::kMachinePreload;
  int64_t seconds = 14'400;
  int rate = 400;
};

constexpr int kProducers = 2;
constexpr int kCancelsPerSecond = 25;
constexpr int64_t kTombstoneMinutes = 10;
constexpr milliseconds kEndTimeout(60'000);
constexpr milliseconds kDrainTimeout(180'000);
// What supervisors restart at once; see the RUNBOOK.
constexpr int kRestartCode = 75;

// A MachineControl in a file.
class Machine {
 public:
  explicit Machine(std::string path) : path_(std::move(path)) {
    const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(MachineControl)) != 0) return;
    void* const map =
        ::mmap(nullptr, sizeof(MachineControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (map != MAP_FAILED) control_ = new (map) MachineControl;
  }
  ~Machine() {
    if (control_ != nullptr) ::munmap(control_, sizeof(MachineControl));
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Null if the file cannot be made.
  MachineControl* control() const { return control_; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  MachineControl* control_ = nullptr;
};

enum class Fault { kClockStep, kKill, kStop, kFullDisk };

// When it comes, in milliseconds from the beginning.
struct Planned {
  int64_t at_ms = 0;
  Fault fault{};
};

// Restarts of each kind in the first and the third quarter, and clock steps all the time.
std::vector<Planned> Plan(int64_t seconds, std::mt19937_64* random) {
  std::vector<Planned> plan;
  const auto spread = [&](int64_t from_ms, int64_t length_ms, int64_t count, auto fault) {
    for (int64_t i = 0; i < count; ++i) {
      const auto within = static_cast<int64_t>((*random)() % 50);
      plan.push_back({from_ms + (i * 100 + within) * length_ms / (count * 100), fault(i)});
    }
  };
  const int64_t quarter_ms = seconds * 250;
  constexpr Fault kRestarts[] = {Fault::kKill, Fault::kStop, Fault::kFullDisk, Fault::kKill};
  for (const int64_t from_ms : {int64_t{0}, 2 * quarter_ms}) {
    spread(from_ms, quarter_ms, std::max<int64_t>(3, seconds / 180),
           [&](int64_t i) { return kRestarts[static_cast<size_t>(i) % std::size(kRestarts)]; });
  }
  spread(0, 4 * quarter_ms, std::max<int64_t>(8, seconds / 40),
         [](int64_t) { return Fault::kClockStep; });
  std::sort(plan.begin(), plan.end(),
            [](const Planned& a, const Planned& b) { return a.at_ms < b.at_ms; });
  return plan;
}

// The soak on one directory. Every step returns false, and prints why, if the soak cannot go on.
class Soak {
 public:
  Soak(const Arguments& arguments, Machine* machine)
      : arguments_(arguments),
        random_(arguments.kill.seed),
        control_(*machine->control()),
        server_(DaemonOptions(
            arguments.kill,
            {"--drain-grace-ms=300", "--topics-auto-create=false", "--operations-max=100000",
             "--tombstone-retention-ms=" + std::to_string(kTombstoneMinutes * 60'000),
             "--request-retention-ms=600000", "--due-max=2000", "--due-idle-max=100",
             "--spill-age-ms=5000", "--write-buffer-bytes=4MiB", "--wal-bytes-max=16MiB",
             "--block-cache-bytes=8MiB"})),
        history_(arguments.out + "/history"),
        world_(&history_, std::clamp<int64_t>(arguments.seconds * 50, 1'000, 30'000)),
        churn_(milliseconds(std::clamp<int64_t>(arguments.seconds * 4, 300, 10'000)), random_(),
               &world_) {
    server_.environment() = {{"LD_PRELOAD", arguments.machine},
                             {kMachineFile, machine->path()},
                             {kMachineDisk, server_.data_dir()}};
  }

  // Everything up to the end of the daemon.
  bool Run() {
    if (!StartDaemon()) return false;
    admin_ = v1::Admin::NewStub(server_.Connect());
    if (!churn_.CreateSteady(server_.Connect())) return false;
    begun_ = std::chrono::steady_clock::now();
    Join();
    for (const Planned& planned : Plan(arguments_.seconds, &random_)) {
      if (!SampleUntil(planned.at_ms) || !Make(planned.fault)) return false;
    }
    return SampleUntil(arguments_.seconds * 1'000) && Drain();
  }

  // `ran`: the soak went on to its end.
  int Judge(bool ran) {
    bool good = WriteSamples(arguments_.out, samples_);
    if (!history_.Flush() || !ran) return 2;
    for (const std::string& line : Growth(samples_, static_cast<double>(arguments_.seconds))) {
      std::printf("grew: %s\n", line.c_str());
      good = false;
    }
    const test::RunResult verify = test::RunProgram(
        {arguments_.kill.daemon, "--verify", server_.data_dir()}, "", milliseconds(600'000));
    if (verify.exit.code != 0) std::printf("%s%s\n", verify.out.c_str(), verify.err.c_str());
    good = good && verify.exit.code == 0;
    const bool enough = EnoughChurn();
    const int judged = test::JudgeFiles({history_.path()}, Least());
    if (judged == 0 && good && enough) std::filesystem::remove(history_.path());
    if (judged == 1 || !good) return 1;
    return enough ? judged : 2;
  }

  void KeepLog() const {
    std::error_code error;
    std::filesystem::copy_file(server_.directory().Join("log"), arguments_.out + "/log",
                               std::filesystem::copy_options::overwrite_existing, error);
  }

 private:
  int64_t Elapsed() const {
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun_)
        .count();
  }

  bool StartDaemon() {
    ++run_;
    history_.Add({.run = static_cast<uint32_t>(run_), .what = What::kStart});
    return StartRun(&server_, run_);
  }

  // The clients begin their work in this run of the daemon.
  void Join() {
    churn_.Join(server_.target(), run_, /*diligent=*/false);
    SoakProducer::Where where = {.target = server_.target(),
                                 .run = run_,
                                 .client = 0,
                                 .messages_per_second = arguments_.rate / kProducers};
    for (; where.client < kProducers; ++where.client) {
      clients_.push_back(std::make_unique<SoakProducer>(where, random_(), &world_));
    }
    where.messages_per_second = kCancelsPerSecond;
    clients_.push_back(std::make_unique<SoakCanceller>(where, random_(), &world_));
  }

  void Leave() {
    clients_.clear();
    churn_.Leave();
  }

  bool SampleUntil(int64_t elapsed_ms) {
    const int64_t period_ms = std::clamp<int64_t>(arguments_.seconds * 10, 200, 5'000);
    while (Elapsed() < elapsed_ms) {
      if (!server_.running()) {
        std::printf("run %d: the daemon ended by itself\n%s\n", run_, server_.log().c_str());
        return false;
      }
      TakeSample();
      std::this_thread::sleep_for(
          milliseconds(std::clamp<int64_t>(elapsed_ms - Elapsed(), 0, period_ms)));
    }
    return true;
  }

  void TakeSample() {
    Sample sample = {.seconds = static_cast<double>(Elapsed()) / 1'000,
                     .run = run_,
                     .live_bytes = samples_.empty() ? 0 : samples_.back().live_bytes,
                     .messages = history_.messages(),
                     .clock_offset_ms = world_.clock_offset_ms,
                     .disk_full = control_.disk_full};
    int64_t pending = 0;
    if (sample.disk_full == 0) SoakChurn::Pending(admin_.get(), &pending, &sample.live_bytes);
    if (Measure(server_.pid(), server_.data_dir(), &sample)) samples_.push_back(sample);
  }

  bool Make(Fault fault) {
    if (fault == Fault::kClockStep) {
      StepClock();
      return true;
    }
    const bool ended = fault == Fault::kKill   ? Kill()
                       : fault == Fault::kStop ? StopDaemon()
                                               : FillDisk();
    if (!ended) return false;
    Leave();
    if (!StartDaemon()) return false;
    Join();
    return true;
  }

  // The daemon follows a step of this size.
  int64_t MostMillis() const { return std::clamp<int64_t>(arguments_.seconds * 50, 1'000, 45'000); }

  void StepClock() {
    const int64_t most_ms = MostMillis();
    int64_t offset_ms =
        static_cast<int64_t>(random_() % static_cast<uint64_t>(2 * most_ms)) - most_ms;
    // So far ahead that the daemon does not follow before its next start. The tombstones must
    // outlive the step.
    constexpr int64_t kTooFarMs = 75'000;
    if (arguments_.seconds >= 600 && random_() % 8 == 0) offset_ms = most_ms + kTooFarMs;
    SetClock(offset_ms);
  }

  void SetClock(int64_t offset_ms) {
    test::Event event = {.time_ms = offset_ms, .what = What::kClockStep};
    history_.Add(event);
    control_.clock_offset_ns = offset_ms * 1'000'000;
    world_.clock_offset_ms = offset_ms;
    event.outcome = Outcome::kOk;
    history_.Add(event);
  }

  bool Kill() {
    history_.Add({.what = What::kKill});
    return KillRun(&server_, run_);
  }

  bool StopDaemon() {
    history_.Add({.what = What::kStop});
    const auto exit = server_.Stop(kEndTimeout);
    if (exit.has_value() && exit->code == 0) return true;
    std::printf("run %d: a stop failed\n%s\n", run_, server_.log().c_str());
    return false;
  }

  // The daemon must end by itself once there is space again. RocksDB has assertions that do not
  // expect a failed write, and may end it before.
  bool FillDisk() {
    history_.Add({.what = What::kDiskFull});
    control_.disk_full = 1;
    const int64_t end_ms = Elapsed() + std::clamp<int64_t>(arguments_.seconds * 10, 500, 10'000);
    while (Elapsed() < end_ms && server_.running()) {
      TakeSample();
      server_.Wait(milliseconds(100));
    }
    control_.disk_full = 0;
    const auto exit = server_.Wait(kEndTimeout);
    if (exit.has_value() && (exit->code == kRestartCode || exit->signal == SIGABRT)) {
      ++(exit->signal == SIGABRT ? aborts_ : restarts_);
      return true;
    }
    std::printf("run %d: no end after a full disk\n%s\n", run_, server_.log().c_str());
    return false;
  }

  bool Drain() {
    Leave();
    // All that is pending is due soon by this clock.
    SetClock(MostMillis());
    if (!churn_.Finish(server_.target(), run_, kDrainTimeout)) return false;
    history_.Add({.what = What::kDrained});
    return StopDaemon();
  }

  // A quarter of what is to be expected; of a short soak less, since the machine may be loaded.
  test::Expected Least() const {
    const int64_t part = arguments_.seconds < 600 ? 20 : 4;
    const int64_t messages = arguments_.seconds * arguments_.rate / part;
    const int64_t cancels = arguments_.seconds * kCancelsPerSecond / part;
    const int64_t steps = std::max<int64_t>(8, arguments_.seconds / 40);
    const int64_t restarts = std::max<int64_t>(3, arguments_.seconds / 180) * 2;
    test::Expected expected;
    // The daemon may be slow to hand out, and this matters only near a clock step.
    expected.lease_to_receipt_ms = 5'000;
    expected.minimum = {.scheduled = messages,
                        .rescheduled = cancels / 20,
                        .cancelled = cancels / 20,
                        .cancel_in_flight = cancels / 100,
                        .deliveries = messages,
                        .redelivered_by_later_run = restarts / 4,
                        .acks_confirmed = messages * 3 / 4,
                        .other_settlements_confirmed = messages / 40,
                        .ordered_deliveries = messages / 40,
                        .starts = restarts + 1,
                        .kills = restarts / 3,
                        .stops = restarts / 5,
                        .clock_steps = steps,
                        .disk_fulls = restarts / 5};
    return expected;
  }

  bool EnoughChurn() const {
    const ChurnCounts& churn = churn_.counts();
    const int64_t seconds = arguments_.seconds;
    const int64_t steps = std::max<int64_t>(seconds * 1'000 / 10'000, 20) / 4;
    struct Row {
      const char* name;
      int64_t count;
      int64_t least;
    };
    bool enough = churn.bulk_failed == 0;
    for (const Row& row :
         {Row{"topics deleted", churn.topics_deleted, steps / 4},
          Row{"subscriptions deleted", churn.subscriptions_deleted, steps / 2},
          Row{"recurrences created", churn.recurrences_created, steps / 2},
          Row{"recurrences deleted", churn.recurrences_deleted, steps / 4},
          Row{"recurrences paused or resumed", churn.recurrences_changed, steps / 4},
          Row{"occurrences received", world_.occurrences, seconds / 4},
          Row{"bulk operations done", churn.bulk_done, steps / 4},
          Row{"other messages received", world_.other_deliveries, seconds},
          Row{"restarts after a full disk", restarts_ + aborts_, 2}}) {
      std::printf("%12lld %s\n", static_cast<long long>(row.count), row.name);
      if (row.count >= row.least) continue;
      std::printf("too little happened: %s, at least %lld\n", row.name,
                  static_cast<long long>(row.least));
      enough = false;
    }
    if (aborts_ > 0) std::printf("%12lld of these in RocksDB\n", static_cast<long long>(aborts_));
    return enough;
  }

  const Arguments& arguments_;
  std::mt19937_64 random_;
  MachineControl& control_;
  test::ServerProcess server_;
  test::HistoryWriter history_;
  SoakWorld world_;
  SoakChurn churn_;
  std::vector<std::unique_ptr<SoakClient>> clients_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::chrono::steady_clock::time_point begun_;
  std::vector<Sample> samples_;
  int run_ = 0;
  // How the daemon ended after full disks.
  int64_t restarts_ = 0;
  int64_t aborts_ = 0;
};

int Main(const Arguments& arguments) {
  std::printf("seed %llu, %lld s, %d messages/s, %d shards\n",
              static_cast<unsigned long long>(arguments.kill.seed),
              static_cast<long long>(arguments.seconds), arguments.rate, arguments.kill.shards);
  std::fflush(stdout);
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  Machine machine(arguments.out + "/machine");
  if (machine.control() == nullptr) {
    std::printf("%s cannot be written\n", arguments.out.c_str());
    return 2;
  }
  Soak soak(arguments, &machine);
  const bool ran = soak.Run();
  soak.KeepLog();
  const int judged = soak.Judge(ran);
  std::printf("%s, seed %llu\n", judged == 0 ? "good" : "NOT good",
              static_cast<unsigned long long>(arguments.kill.seed));
  return judged;
}

}  // namespace
}  // namespace duetime::crash

int main(int argc, char** argv) {
  duetime::crash::Arguments arguments;
  CLI::App app("Runs the daemon on one directory for hours, and judges what clients saw.");
  duetime::crash::AddKillOptions(&app, &arguments.kill);
  app.remove_option(app.get_option("--cycles"));
  app.add_option("--out", arguments.out, "Folder for samples, plots and the log")->required();
  app.add_option("--seconds", arguments.seconds, "How long, without the drain")
      ->check(CLI::Range(20, 1'000'000));
  app.add_option("--rate", arguments.rate, "Messages per second")->check(CLI::Range(10, 100'000));
  app.add_option("--machine", arguments.machine, "The library that sets the daemon's clock");
  CLI11_PARSE(app, argc, argv);
  return duetime::crash::Main(arguments);
}
