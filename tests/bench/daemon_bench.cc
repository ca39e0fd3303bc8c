// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of the built daemon. Each starts its own daemon. The data is in TMPDIR, which should
// be on a real disk; the first line of the output names its file system. Due times are spread. Half
// of each payload is random. A delivery counts when the server has confirmed its ack. See
// RESULTS.md.
//
//   daemon_bench cost      CPU, records and bytes of each operation
//   daemon_bench cores     some of these with the daemon on fewer cores
//   daemon_bench unary | batch | burst | steady | pending   ratios in one run: against an empty
//                          call on the same server, a bare RocksDB loop, or the server without load
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <rocksdb/db.h>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "client/cpp/subscriber.h"
#include "tests/bench/listeners.h"
#include "tests/bench/load.h"
#include "tests/bench/meter.h"
#include "tests/support/paths.h"
#include "tests/support/server_process.h"

namespace duetime::bench {
namespace {

using test::ServerProcess;
using test::TempDirectory;

constexpr int kBatch = 1'000;
constexpr int kBatchesInFlight = 8;
constexpr int64_t kAheadMs = 600'000;
constexpr int64_t kMinuteMs = 60'000;
constexpr int64_t kHourMs = 60 * kMinuteMs;
constexpr int64_t kDayMs = 24 * kHourMs;
constexpr int64_t kYearMs = 365 * kDayMs;

struct Options {
  std::string daemon = test::kDaemon;
  std::vector<std::string> flags;
  int rounds = 3;
  double seconds = 5;
  int64_t messages = 0;
  int64_t rate = 5000;
  int64_t topics = 1;
  int64_t spread_ms = 1000;
  // Of the daemon; 0: any.
  int cores = 0;

  int64_t MessagesOr(int64_t standard) const { return messages > 0 ? messages : standard; }
};

int AllCores() { return static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)); }

// Binds all threads of a process to the cores from `first` to before `end`. Later threads inherit
// this.
void BindToCores(int pid, int first, int end) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core = first; core < end; ++core) CPU_SET(static_cast<size_t>(core), &cores);
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    sched_setaffinity(std::stoi(task.path().filename()), sizeof(cores), &cores);
  }
}

std::unique_ptr<ServerProcess> StartDaemon(const Options& options) {
  auto server = bench::StartDaemon(options.daemon, options.flags);
  if (options.cores > 0) {
    const int all = AllCores();
    BindToCores(server->pid(), 0, options.cores);
    BindToCores(getpid(), options.cores < all ? options.cores : 0, all);
  }
  return server;
}

double Median(std::vector<double> values) { return Quantile(&values, 0.5); }

void PrintErrors(const LoadResult& result) {
  if (result.errors > 0) {
    std::printf("ERRORS: %llu\n", static_cast<unsigned long long>(result.errors));
  }
}

// The due times of the batch benchmarks.
struct Spread {
  const char* name;
  int64_t ms;
};
constexpr Spread kSpreads[] = {{"1 ms", 1},
                               {"1 minute", kMinuteMs},
                               {"1 hour", kHourMs},
                               {"1 day", kDayMs},
                               {"1 year", kYearMs}};

// ---- What each operation costs ----------------------------------------------------------------

void CostOfSingleCalls(const Options& options) {
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  MessageSource source("single", kAheadMs, kDayMs);
  std::vector<std::string> ids;
  Meter meter(*server);
  for (const int in_flight : {1, 64, 256}) {
    meter.Take();
    LoadResult result = EchoFor(channel, in_flight, options.seconds / 2);
    const std::string many = std::to_string(in_flight) + " in flight";
    PrintSpent(("empty call, " + many).c_str(), meter.Take(), result.operations);
    ids.clear();
    meter.Take();
    result = ScheduleFor(channel, &source, in_flight, options.seconds, &ids);
    PrintSpent(("accept, " + many).c_str(), meter.Take(), result.operations);
    PrintErrors(result);
    ids.resize(std::min(ids.size(), static_cast<size_t>(in_flight) * 2'000));
    meter.Take();
    result = CancelEach(channel, ids, in_flight);
    PrintSpent(("cancel by id, " + many).c_str(), meter.Take(), result.operations);
    PrintErrors(result);
  }
}

// Calls that share a stream, as the client libraries make them.
void CostOfStreamedCalls(const Options& options) {
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  MessageSource source("streamed", kAheadMs, kDayMs);
  std::vector<std::string> ids;
  Meter meter(*server);
  for (const int in_flight : {1, 64, 256}) {
    const std::string many = std::to_string(in_flight) + " on one stream";
    ids.clear();
    meter.Take();
    LoadResult result = ScheduleOnStream(channel, &source, in_flight, options.seconds, &ids);
    PrintSpent(("accept, " + many).c_str(), meter.Take(), result.operations);
    PrintErrors(result);
    meter.Take();
    result = CancelOnStream(channel, ids, in_flight);
    PrintSpent(("cancel by id, " + many).c_str(), meter.Take(), result.operations);
    PrintErrors(result);
  }
}

// Heartbeats: each pushes the deadline of a key back.
void CostOfHeartbeats(const Options& options) {
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  Meter meter(*server);
  for (const uint64_t keys : {uint64_t{1}, uint64_t{100'000}}) {
    MessageSource source("heartbeats", kAheadMs, kMinuteMs);
    source.UseKeys(keys);
    for (const int in_flight : {1, 64, 256}) {
      meter.Take();
      const LoadResult result = ScheduleFor(channel, &source, in_flight, options.seconds, nullptr);
      const std::string name = "heartbeat, " + std::to_string(keys) + " keys, " +
                               std::to_string(in_flight) + " in flight";
      PrintSpent(name.c_str(), meter.Take(), result.operations);
      PrintErrors(result);
    }
  }
}

int Heartbeats(const Options& options) {
  PrintSpentHead();
  CostOfHeartbeats(options);
  return 0;
}

void CostOfBatches(const Options& options, const Spread& spread) {
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  MessageSource source("batch", kAheadMs, spread.ms);
  std::vector<std::string> ids;
  Meter meter(*server);
  LoadResult result = ScheduleBatches(channel, &source, options.MessagesOr(500'000), kBatch,
                                      kBatchesInFlight, &ids);
  PrintSpent((std::string("accept, batches, due in ") + spread.name).c_str(), meter.Take(),
             result.operations);
  PrintErrors(result);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
  meter.Take();
  result = CancelBatches(channel, ids, kBatch, kBatchesInFlight);
  PrintSpent("  cancel of these, batches", meter.Take(), result.operations);
  PrintErrors(result);
}

// One topic, whose messages are all due within a second; `subscriptions` of it, each with a stream.
void CostOfDeliveries(Options options, int64_t messages, int subscriptions) {
  options.flags.push_back("--subscriptions-max=" + std::to_string(subscriptions));
  const auto server = StartDaemon(options);
  std::vector<Received> received(static_cast<size_t>(subscriptions));
  std::vector<std::unique_ptr<client::Subscriber>> listeners;
  const auto credit = std::max(100, 50'000 / subscriptions);
  for (int i = 0; i < subscriptions; ++i) {
    const std::string name = i == 0 ? "" : "s" + std::to_string(i);
    listeners.push_back(
        Listen(*server, "due", credit, &received[static_cast<size_t>(i)], {}, name));
  }
  // A subscription gets the messages that are accepted after its creation.
  for (const auto& listener : listeners) {
    WaitFor([&] { return listener->counts().streams > 0; }, 60);
  }
  const int64_t due_ms = WallMillis() + 3'000 + messages / 50;
  PrintErrors(ScheduleMany(server->Connect(), {"due"}, messages, due_ms, 1'000));
  WaitFor([&] { return WallMillis() >= due_ms; }, 600);
  Meter meter(*server);
  const int64_t deliveries = messages * subscriptions;
  const auto acked = [&] {
    int64_t sum = 0;
    for (const auto& listener : listeners) sum += listener->counts().acked;
    return sum;
  };
  WaitFor([&] { return acked() >= deliveries; }, 300);
  const std::string name = "deliver + ack, " + std::to_string(subscriptions) + " subscription" +
                           (subscriptions == 1 ? "" : "s");
  PrintSpent(name.c_str(), meter.Take(), static_cast<double>(acked()));
}

int Batches(const Options& options) {
  PrintSpentHead();
  for (const Spread& spread : kSpreads) CostOfBatches(options, spread);
  return 0;
}

int Deliveries(const Options& options) {
  PrintSpentHead();
  CostOfDeliveries(options, options.MessagesOr(300'000), 1);
  for (const int subscriptions : {10, 100, 1'000}) {
    CostOfDeliveries(options, 50'000 / subscriptions, subscriptions);
  }
  return 0;
}

int Cost(const Options& options) {
  PrintSpentHead();
  CostOfSingleCalls(options);
  CostOfStreamedCalls(options);
  CostOfHeartbeats(options);
  for (const Spread& spread : kSpreads) CostOfBatches(options, spread);
  return Deliveries(options);
}

// ---- Cores ------------------------------------------------------------------------------------

// The daemon on one core, on two and so on up to all, with as many shards and gRPC threads. The
// client has the other cores, or shares all of them with the daemon.
int Cores(const Options& options) {
  const int all = AllCores();
  PrintSpentHead();
  for (int cores = 1; cores <= all; cores *= 2) {
    std::printf("the daemon on %d of %d cores\n", cores, all);
    Options bound = options;
    for (const char* flag : {"--shards=", "--io-threads="}) {
      bound.flags.push_back(flag + std::to_string(cores));
    }
    bound.cores = cores;
    CostOfSingleCalls(bound);
    CostOfBatches(bound, {"1 day", kDayMs});
    CostOfDeliveries(bound, options.MessagesOr(300'000), 1);
  }
  return 0;
}

// ---- Ratios -----------------------------------------------------------------------------------

// Unary Schedule against an empty call on the same server.
int Unary(const Options& options) {
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  MessageSource source("bench", kAheadMs, kDayMs);
  std::printf("%-10s %12s %12s %8s %10s %10s\n", "in flight", "echo/s", "schedule/s", "ratio",
              "p50 ms", "p99 ms");
  for (const int in_flight : {1, 64, 256}) {
    std::vector<double> echo;
    std::vector<double> schedule;
    std::vector<double> ratio;
    LoadResult last;
    for (int round = 0; round < options.rounds; ++round) {
      echo.push_back(EchoFor(channel, in_flight, options.seconds).per_second);
      last = ScheduleFor(channel, &source, in_flight, options.seconds, nullptr);
      PrintErrors(last);
      schedule.push_back(last.per_second);
      ratio.push_back(schedule.back() / echo.back());
    }
    std::printf("%-10d %12.0f %12.0f %8.2f %10.2f %10.2f\n", in_flight, Median(echo),
                Median(schedule), Median(ratio), last.p50_ms, last.p99_ms);
  }
  return 0;
}

// A loop of synced WriteBatches with records of the same size and the same due times, without a
// server.
double BareRocksDb(const std::string& directory, int batches, int64_t spread_ms) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  if (!rocksdb::DB::Open(options, directory, &raw).ok()) std::exit(1);
  const std::unique_ptr<rocksdb::DB> db(raw);
  rocksdb::WriteOptions write;
  write.sync = true;
  MessageSource source("bench", kAheadMs, spread_ms);
  v1::ScheduleRequest message;
  uint64_t sequence = 0;
  const auto start = SteadyClock::now();
  for (int i = 0; i < batches; ++i) {
    rocksdb::WriteBatch batch;
    for (int j = 0; j < kBatch; ++j) {
      source.Fill(&message);
      const auto due_ms =
          message.deliver_time().seconds() * 1000 + message.deliver_time().nanos() / 1'000'000;
      char key[32];
      std::snprintf(key, sizeof(key), "%013lld%013llu", static_cast<long long>(due_ms),
                    static_cast<unsigned long long>(++sequence));
      batch.Put(rocksdb::Slice(key, 26), std::string(32, 'h') + message.payload());
    }
    if (!db->Write(write, &batch).ok()) std::exit(1);
  }
  return static_cast<double>(batches) * kBatch / SecondsSince(start);
}

// ScheduleBatch against the bare loop.
int Batch(const Options& options) {
  const int64_t messages = options.MessagesOr(500'000);
  for (const Spread& spread : kSpreads) {
    std::vector<double> bare;
    std::vector<double> daemon;
    std::vector<double> ratio;
    for (int round = 0; round < options.rounds; ++round) {
      const TempDirectory directory(TempDirectory::Where::kDisk);
      bare.push_back(
          BareRocksDb(directory.Join("db"), static_cast<int>(messages / kBatch), spread.ms));
      const auto server = StartDaemon(options);
      MessageSource source("bench", kAheadMs, spread.ms);
      const LoadResult result =
          ScheduleBatches(server->Connect(), &source, messages, kBatch, kBatchesInFlight, nullptr);
      PrintErrors(result);
      daemon.push_back(result.per_second);
      ratio.push_back(daemon.back() / bare.back());
    }
    std::printf("due in %s: bare RocksDB %.0f/s, ScheduleBatch %.0f/s, ratio %.2f\n", spread.name,
                Median(bare), Median(daemon), Median(ratio));
  }
  return 0;
}

// A million messages come due in one second (or --spread-ms). Each topic has one subscriber. A
// steady second topic measures the lateness beside the burst.
int Burst(const Options& options) {
  constexpr int64_t kSideAheadMs = 3'000;
  const int64_t messages = options.MessagesOr(1'000'000);
  const auto server = StartDaemon(options);
  Received side_before;
  Received side_during;
  Received burst;
  std::atomic<bool> stop{false};
  const auto trickle = [&](Received* received, const std::string& topic,
                           const std::function<void()>& meanwhile) {
    stop = false;
    const auto listener = Listen(*server, topic, 10'000, received);
    // Due so far ahead that the daemon accepts all messages in time, even during the burst.
    std::thread sender(Trickle, server->Connect(), topic, 1000, &stop, kSideAheadMs);
    meanwhile();
    stop = true;
    sender.join();
    std::this_thread::sleep_for(std::chrono::milliseconds(kSideAheadMs + 1000));
  };
  trickle(&side_before, "side-a", [] { std::this_thread::sleep_for(std::chrono::seconds(5)); });
  PrintLateness("second topic, alone", &side_before);

  // All are due within the same second, far enough ahead that the daemon accepts them before.
  const int64_t due_ms = WallMillis() + 4000 + messages / 100;
  std::vector<std::string> topics;
  for (int64_t i = 0; i < options.topics; ++i) topics.push_back("burst-" + std::to_string(i));
  const LoadResult accepted =
      ScheduleMany(server->Connect(), topics, messages, due_ms, options.spread_ms);
  std::printf("accepted at %.0f/s, %lld ms before the first is due\n", accepted.per_second,
              static_cast<long long>(due_ms - WallMillis()));
  trickle(&side_during, "side-b", [&] {
    // The total credit of all streams is the same for any number of topics.
    const auto credit = static_cast<int>(std::max<int64_t>(50'000 / options.topics, 100));
    std::vector<std::unique_ptr<client::Subscriber>> listeners;
    for (const std::string& topic : topics) {
      listeners.push_back(Listen(*server, topic, credit, &burst));
    }
    WaitFor([&] { return WallMillis() >= due_ms; }, 600);
    const auto start = SteadyClock::now();
    const double cpu = ProcessCpuSeconds(server->pid());
    const auto acked = [&] {
      int64_t sum = 0;
      for (const auto& listener : listeners) sum += listener->counts().acked;
      return sum;
    };
    WaitFor([&] { return acked() >= messages; }, 120);
    const double seconds = SecondsSince(start);
    std::printf(
        "burst: %lld delivered and acks confirmed in %.2f s: %.0f/s; server %.2f us CPU each; "
        "resident %.0f MB\n",
        static_cast<long long>(acked()), seconds, static_cast<double>(acked()) / seconds,
        (ProcessCpuSeconds(server->pid()) - cpu) / static_cast<double>(messages) * 1e6,
        static_cast<double>(test::ResidentBytes(server->pid())) / 1e6);
  });
  PrintLateness("burst", &burst);
  PrintLateness("second topic, beside the burst", &side_during);
  return 0;
}

// Lateness under a steady rate.
int Steady(const Options& options) {
  const auto server = StartDaemon(options);
  Received received;
  std::atomic<bool> stop{false};
  const auto listener = Listen(*server, "steady", 10'000, &received);
  const double cpu = ProcessCpuSeconds(server->pid());
  std::thread sender(Trickle, server->Connect(), "steady", options.rate, &stop, int64_t{100});
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  stop = true;
  sender.join();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  PrintLateness("steady", &received);
  std::printf("server CPU %.0f %% of a core, resident %.0f MB\n",
              (ProcessCpuSeconds(server->pid()) - cpu) / options.seconds * 100,
              static_cast<double>(test::ResidentBytes(server->pid())) / 1e6);
  return 0;
}

// Many far-future messages: the memory they take, the CPU of an idle daemon that holds them, and
// the time to the first delivery after a kill.
int Pending(const Options& options) {
  const int64_t messages = options.MessagesOr(10'000'000);
  const auto server = StartDaemon(options);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const uint64_t empty = test::ResidentBytes(server->pid());
  MessageSource far("far", kDayMs, kYearMs);
  const LoadResult accepted =
      ScheduleBatches(server->Connect(), &far, messages, kBatch, kBatchesInFlight, nullptr);
  PrintErrors(accepted);
  const uint64_t busy = test::ResidentBytes(server->pid());
  std::this_thread::sleep_for(std::chrono::seconds(10));
  const uint64_t full = test::ResidentBytes(server->pid());
  std::printf(
      "%lld pending, accepted at %.0f/s; resident: empty %.0f MB, right after %.0f MB, at "
      "rest %.0f MB (+%.0f)\n",
      static_cast<long long>(messages), accepted.per_second, static_cast<double>(empty) / 1e6,
      static_cast<double>(busy) / 1e6, static_cast<double>(full) / 1e6,
      (static_cast<double>(full) - static_cast<double>(empty)) / 1e6);
  // Compactions follow the load for a minute or more.
  constexpr int kIdleSeconds = 20;
  double idle = 1;
  for (int tries = 0; idle > 0.01 && tries < 20; ++tries) {
    const double cpu = ProcessCpuSeconds(server->pid());
    std::this_thread::sleep_for(std::chrono::seconds(kIdleSeconds));
    idle = (ProcessCpuSeconds(server->pid()) - cpu) / kIdleSeconds;
  }
  std::printf("idle: %.3f %% of a core\n", idle * 100);
  MessageSource soon("soon", 0, 1);
  ScheduleBatches(server->Connect(), &soon, 1, 1, 1, nullptr);
  server->Kill();
  Received received;
  const auto start = SteadyClock::now();
  if (!server->Start()) {
    std::fprintf(stderr, "no restart: %s\n", server->error().c_str());
    return 1;
  }
  const double serving = SecondsSince(start);
  const auto listener = Listen(*server, "soon", 10, &received);
  WaitFor([&] { return received.count.load() > 0; }, 60);
  std::printf("kill -9 and start: serving after %.2f s, first delivery after %.2f s\n", serving,
              SecondsSince(start));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Benchmarks of the daemon");
  Options options;
  std::function<int(const Options&)> chosen;
  const auto add = [&](const char* name, const char* help, int (*run)(const Options&)) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->add_option("--rounds", options.rounds, "rounds, of which the median counts");
    command->add_option("--seconds", options.seconds, "length of a measurement");
    command->add_option("--messages", options.messages, "how many messages");
    command->add_option("--rate", options.rate, "messages per second");
    command->add_option("--topics", options.topics, "of a burst, each with a subscriber");
    command->add_option("--spread-ms", options.spread_ms, "how long a burst goes on being due");
    command->add_option("--flag", options.flags, "more flags for the daemon");
    command->add_option("--daemon", options.daemon, "another daemon, for example an older one");
    command->callback([&chosen, run] { chosen = run; });
  };
  add("cost", "CPU, records and bytes of each operation", Cost);
  add("heartbeats", "the rows of `cost` about heartbeats", Heartbeats);
  add("batches", "the rows of `cost` about batches", Batches);
  add("deliveries", "the last rows of `cost`: one topic with many subscriptions", Deliveries);
  add("cores", "rows of `cost` with the daemon on one core, on two, up to all", Cores);
  add("unary", "unary Schedule against an empty call", Unary);
  add("batch", "ScheduleBatch against a bare RocksDB loop", Batch);
  add("burst", "a million messages due in one second", Burst);
  add("steady", "lateness at a steady rate", Steady);
  add("pending", "ten million pending: memory, idle CPU and restart", Pending);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  PrintMachine(TempDirectory(TempDirectory::Where::kDisk).path());
  return chosen(options);
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
