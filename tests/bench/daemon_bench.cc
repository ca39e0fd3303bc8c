// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of the built daemon. Each starts its own daemon on a temporary directory and measures
// ratios in one run: against an empty call on the same server, a bare RocksDB loop, or the same
// server without the load. See RESULTS.md.
//
//   daemon_bench unary | batch | burst | steady | pending   [options]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <rocksdb/db.h>
#include <string>
#include <thread>
#include <vector>

#include "client/subscriber.h"
#include "tests/bench/listeners.h"
#include "tests/bench/load.h"
#include "tests/support/server_process.h"

namespace duetime::bench {
namespace {

using test::ServerProcess;

struct Options {
  std::string daemon = DUETIME_DAEMON;
  std::vector<std::string> flags;
  int rounds = 5;
  double seconds = 3;
  int64_t messages = 0;
  int64_t rate = 5000;
  int64_t topics = 1;
  int64_t spread_ms = 1000;
};

std::unique_ptr<ServerProcess> StartDaemon(const Options& options) {
  return bench::StartDaemon(options.daemon, options.flags);
}

double Median(std::vector<double> values) { return Quantile(&values, 0.5); }

// 1: unary Schedule against an empty call on the same server.
int Unary(const Options& options) {
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  std::printf("%-10s %12s %12s %8s %10s %10s %12s\n", "in flight", "echo/s", "schedule/s", "ratio",
              "p50 ms", "p99 ms", "server us/op");
  for (const int in_flight : {64, 256}) {
    std::vector<double> echo;
    std::vector<double> schedule;
    std::vector<double> ratio;
    LoadResult last;
    double cpu = 0;
    double calls = 0;
    for (int round = 0; round < options.rounds; ++round) {
      echo.push_back(RunUnary(channel, false, in_flight, options.seconds).per_second);
      const double cpu_before = ProcessCpuSeconds(server->pid());
      last = RunUnary(channel, true, in_flight, options.seconds);
      cpu += ProcessCpuSeconds(server->pid()) - cpu_before;
      calls += last.per_second * options.seconds;
      schedule.push_back(last.per_second);
      ratio.push_back(schedule.back() / echo.back());
    }
    std::printf("%-10d %12.0f %12.0f %8.2f %10.2f %10.2f %12.1f%s\n", in_flight, Median(echo),
                Median(schedule), Median(ratio), last.p50_ms, last.p99_ms, cpu / calls * 1e6,
                last.errors == 0 ? "" : "  ERRORS");
  }
  return 0;
}

// A loop of synced WriteBatches with the same records, without a server.
double BareRocksDb(const std::string& directory, int batches, int batch_size) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  if (!rocksdb::DB::Open(options, directory, &raw).ok()) std::exit(1);
  const std::unique_ptr<rocksdb::DB> db(raw);
  rocksdb::WriteOptions write;
  write.sync = true;
  const std::string value(32 + 128, 'x');
  uint64_t sequence = 0;
  const auto start = SteadyClock::now();
  for (int i = 0; i < batches; ++i) {
    rocksdb::WriteBatch batch;
    for (int j = 0; j < batch_size; ++j) {
      char key[32];
      std::snprintf(key, sizeof(key), "%026llu", static_cast<unsigned long long>(++sequence));
      batch.Put(rocksdb::Slice(key, 26), value);
    }
    if (!db->Write(write, &batch).ok()) std::exit(1);
  }
  return static_cast<double>(batches) * batch_size / SecondsSince(start);
}

// 2: ScheduleBatch of 1,000 against the bare loop.
int Batch(const Options& options) {
  constexpr int kBatch = 1000;
  const int batches = static_cast<int>(options.messages > 0 ? options.messages / kBatch : 500);
  std::vector<double> bare;
  std::vector<double> daemon;
  std::vector<double> ratio;
  for (int round = 0; round < options.rounds; ++round) {
    test::TempDirectory directory;
    bare.push_back(BareRocksDb(directory.Join("db"), batches, kBatch));
    const auto server = StartDaemon(options);
    const v1::ScheduleRequest message = MakeMessage("bench", 128, 3'600'000);
    v1::ScheduleBatchRequest batch;
    for (int i = 0; i < kBatch; ++i) *batch.add_messages() = message;
    const LoadResult result =
        RunBatches(server->Connect(), batches, 8, [&](int, v1::ScheduleBatchRequest* request) {
          if (request->messages_size() == 0) *request = batch;
        });
    daemon.push_back(result.per_second);
    ratio.push_back(daemon.back() / bare.back());
    if (result.errors > 0)
      std::printf("ERRORS: %llu\n", static_cast<unsigned long long>(result.errors));
  }
  std::printf("bare RocksDB %.0f/s, ScheduleBatch %.0f/s, ratio %.2f (medians of %d)\n",
              Median(bare), Median(daemon), Median(ratio), options.rounds);
  return 0;
}

// 3: a million messages come due in one second (or --spread-ms). Each topic has one subscriber. A
// steady second topic measures the lateness beside the burst.
int Burst(const Options& options) {
  constexpr int64_t kSideAheadMs = 3'000;
  const int64_t messages = options.messages > 0 ? options.messages : 1'000'000;
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
    WaitFor([&] { return burst.count.load() >= messages; }, 120);
    const double seconds = SecondsSince(start);
    std::printf(
        "burst: %lld delivered and acked in %.2f s: %.0f/s; server %.2f us CPU each; "
        "resident %.0f MB\n",
        static_cast<long long>(burst.count.load()), seconds,
        static_cast<double>(burst.count.load()) / seconds,
        (ProcessCpuSeconds(server->pid()) - cpu) / static_cast<double>(messages) * 1e6,
        static_cast<double>(ProcessResidentBytes(server->pid())) / 1e6);
  });
  PrintLateness("burst", &burst);
  PrintLateness("second topic, beside the burst", &side_during);
  return 0;
}

// 4: lateness under a steady rate.
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
              static_cast<double>(ProcessResidentBytes(server->pid())) / 1e6);
  return 0;
}

// 5: many far-future messages: the memory they take, and the time to the first delivery after a
// kill.
int Pending(const Options& options) {
  constexpr int kBatch = 10'000;
  const int64_t messages = options.messages > 0 ? options.messages : 10'000'000;
  const auto server = StartDaemon(options);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const uint64_t empty = ProcessResidentBytes(server->pid());
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < kBatch; ++i) {
    *batch.add_messages() = MakeMessage("far", 128, 86'400'000 + int64_t{i} * 60'000);
  }
  const LoadResult accepted = RunBatches(server->Connect(), static_cast<int>(messages / kBatch), 4,
                                         [&](int, v1::ScheduleBatchRequest* request) {
                                           if (request->messages_size() == 0) *request = batch;
                                         });
  const uint64_t busy = ProcessResidentBytes(server->pid());
  std::this_thread::sleep_for(std::chrono::seconds(10));
  const uint64_t full = ProcessResidentBytes(server->pid());
  std::printf(
      "%lld pending, accepted at %.0f/s; resident: empty %.0f MB, right after %.0f MB, at "
      "rest %.0f MB (+%.0f)\n",
      static_cast<long long>(messages), accepted.per_second, static_cast<double>(empty) / 1e6,
      static_cast<double>(busy) / 1e6, static_cast<double>(full) / 1e6,
      (static_cast<double>(full) - static_cast<double>(empty)) / 1e6);
  RunBatches(server->Connect(), 1, 1, [&](int, v1::ScheduleBatchRequest* request) {
    *request->add_messages() = MakeMessage("soon", 128, 0);
  });
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
    command->callback([&chosen, run] { chosen = run; });
  };
  add("unary", "unary Schedule against an empty call", Unary);
  add("batch", "ScheduleBatch against a bare RocksDB loop", Batch);
  add("burst", "a million messages due in one second", Burst);
  add("steady", "lateness at a steady rate", Steady);
  add("pending", "ten million pending: memory and restart", Pending);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return chosen(options);
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
