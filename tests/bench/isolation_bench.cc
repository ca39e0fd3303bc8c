// SPDX-License-Identifier: Apache-2.0
//
// What bad neighbours cost a healthy topic: the same load on the healthy one, alone and beside
// three others that each hold many due messages: one that nobody reads, one whose subscriber acks
// nothing, one whose subscriber nacks all.
//
//   isolation_bench [--messages N] [--rate R] [--seconds S]
//
// Prints the healthy topic's lateness under a steady rate, how fast it delivers a burst, both
// ratios, and the daemon's resident memory. See RESULTS.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/listeners.h"
#include "tests/bench/load.h"

namespace duetime::bench {
namespace {

struct Options {
  std::string daemon = DUETIME_DAEMON;
  std::vector<std::string> flags;
  // Due messages of each neighbour.
  int64_t messages = 1'000'000;
  int64_t rate = 5'000;
  int64_t burst = 300'000;
  double seconds = 10;
  int rounds = 3;
};

struct Health {
  double p50_ms = 0;
  double p99_ms = 0;
  double burst_per_second = 0;
};

double Median(std::vector<double> values) { return Quantile(&values, 0.5); }

Health Measure(const Options& options, const test::ServerProcess& server, const std::string& name) {
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<double> rates;
  for (int round = 0; round < options.rounds; ++round) {
    const std::string topic = name + "-" + std::to_string(round);
    {
      Received received;
      std::atomic<bool> stop{false};
      const auto listener = Listen(server, topic, 10'000, &received);
      std::thread sender(Trickle, server.Connect(), topic, options.rate, &stop, int64_t{100});
      std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
      stop = true;
      sender.join();
      std::this_thread::sleep_for(std::chrono::seconds(1));
      PrintLateness(topic.c_str(), &received);
      const std::lock_guard<std::mutex> lock(received.mutex);
      p50.push_back(Quantile(&received.lateness_ms, 0.5));
      p99.push_back(Quantile(&received.lateness_ms, 0.99));
    }
    Received received;
    const std::string burst = topic + "-burst";
    const int64_t due_ms = WallMillis() + 2'000 + options.burst / 50;
    ScheduleMany(server.Connect(), {burst}, options.burst, due_ms, 100);
    const auto listener = Listen(server, burst, 50'000, &received);
    WaitFor([&] { return WallMillis() >= due_ms; }, 600);
    const auto start = SteadyClock::now();
    WaitFor([&] { return received.count.load() >= options.burst; }, 120);
    rates.push_back(static_cast<double>(received.count.load()) / SecondsSince(start));
    std::printf("%s: %lld delivered and acked at %.0f/s\n", burst.c_str(),
                static_cast<long long>(received.count.load()), rates.back());
  }
  return {.p50_ms = Median(p50), .p99_ms = Median(p99), .burst_per_second = Median(rates)};
}

void PrintHealth(const char* name, const Health& health) {
  std::printf("%s: lateness p50 %.2f ms, p99 %.2f ms; burst %.0f/s\n", name, health.p50_ms,
              health.p99_ms, health.burst_per_second);
}

int Run(const Options& options) {
  const auto server = StartDaemon(options.daemon, options.flags);
  const double empty = static_cast<double>(ProcessResidentBytes(server->pid())) / 1e6;
  const Health alone = Measure(options, *server, "alone");

  // Highest resident memory from here on.
  std::atomic<uint64_t> resident{0};
  std::atomic<bool> stop{false};
  std::thread sampler([&] {
    while (!stop.load()) {
      resident = std::max(resident.load(), ProcessResidentBytes(server->pid()));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const int64_t due_ms = WallMillis();
  for (const char* const topic : {"nobody", "silent", "refuser"}) {
    const LoadResult accepted =
        ScheduleMany(server->Connect(), {topic}, options.messages, due_ms, 1'000);
    std::printf("%s: %lld due, accepted at %.0f/s\n", topic,
                static_cast<long long>(options.messages), accepted.per_second);
  }
  Received held;
  Received refused;
  const auto silent = Listen(*server, "silent", 1'000, &held,
                             [](const client::Delivery&) { return client::Settlement::Leave(); });
  const auto refuser = Listen(*server, "refuser", 1'000, &refused, [](const client::Delivery&) {
    return client::Settlement::NackAfter(absl::Seconds(1));
  });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const Health beside = Measure(options, *server, "beside");
  stop = true;
  sampler.join();

  PrintHealth("alone", alone);
  PrintHealth("beside the others", beside);
  std::printf("p99 lateness %+.0f %%, throughput %+.0f %%; meanwhile %lld held, %lld refused\n",
              (beside.p99_ms / alone.p99_ms - 1) * 100,
              (beside.burst_per_second / alone.burst_per_second - 1) * 100,
              static_cast<long long>(held.count.load()),
              static_cast<long long>(refused.count.load()));
  std::printf("resident: %.0f MB empty, at most %.0f MB with %lld due\n", empty,
              static_cast<double>(resident.load()) / 1e6,
              static_cast<long long>(3 * options.messages));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("What bad neighbours cost a healthy topic");
  Options options;
  app.add_option("--messages", options.messages, "due messages of each of the three neighbours");
  app.add_option("--rate", options.rate, "messages per second of the healthy topic");
  app.add_option("--burst", options.burst, "messages of its burst");
  app.add_option("--seconds", options.seconds, "length of its steady load");
  app.add_option("--rounds", options.rounds, "of which the median counts");
  app.add_option("--flag", options.flags, "more flags for the daemon");
  CLI11_PARSE(app, argc, argv);
  return Run(options);
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
