// SPDX-License-Identifier: Apache-2.0
//
// Measures how much bad neighbours slow a healthy topic. The same load runs by turns on two
// daemons. On one the healthy topic is alone. On the other it has three neighbours with many due
// messages each: one without a subscriber, one whose subscriber never acks, and one whose
// subscriber nacks everything.
//
//   isolation_bench [--messages N] [--rate R] [--seconds S] [--rounds N]
//
// Prints the healthy topic's lateness under a steady rate, its rate during a burst, the two ratios,
// and the resident memory of the second daemon. See RESULTS.md.
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
#include "tests/bench/meter.h"
#include "tests/support/paths.h"

namespace duetime::bench {
namespace {

struct Options {
  std::string daemon = test::kDaemon;
  std::vector<std::string> flags;
  // Number of due messages of each neighbour.
  int64_t messages = 1'000'000;
  int64_t rate = 5'000;
  int64_t burst = 300'000;
  double seconds = 10;
  int rounds = 5;
};

struct Health {
  double p50_ms = 0;
  double p99_ms = 0;
  double burst_per_second = 0;
};

// Measures one round.
Health Measure(const Options& options, const test::ServerProcess& server,
               const std::string& topic) {
  Health health;
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
    health.p50_ms = Quantile(&received.lateness_ms, 0.5);
    health.p99_ms = Quantile(&received.lateness_ms, 0.99);
  }
  Received received;
  const std::string burst = topic + "-burst";
  const int64_t due_ms = WallMillis() + 2'000 + options.burst / 50;
  ScheduleMany(server.Connect(), {burst}, options.burst, due_ms, 100);
  const auto listener = Listen(server, burst, 50'000, &received);
  WaitFor([&] { return WallMillis() >= due_ms; }, 600);
  const auto start = SteadyClock::now();
  WaitFor([&] { return listener->counts().acked >= options.burst; }, 120);
  const int64_t acked = listener->counts().acked;
  health.burst_per_second = static_cast<double>(acked) / SecondsSince(start);
  std::printf("%s: %lld delivered and acks confirmed at %.0f/s\n", burst.c_str(),
              static_cast<long long>(acked), health.burst_per_second);
  return health;
}

Health MedianOf(const std::vector<Health>& rounds) {
  const auto median = [&rounds](double Health::*field) {
    std::vector<double> values;
    for (const Health& round : rounds) values.push_back(round.*field);
    return Quantile(&values, 0.5);
  };
  return {.p50_ms = median(&Health::p50_ms),
          .p99_ms = median(&Health::p99_ms),
          .burst_per_second = median(&Health::burst_per_second)};
}

void PrintHealth(const char* name, const Health& health) {
  std::printf("%s: lateness p50 %.2f ms, p99 %.2f ms; burst %.0f/s\n", name, health.p50_ms,
              health.p99_ms, health.burst_per_second);
}

int Run(const Options& options) {
  const auto quiet = StartDaemon(options.daemon, options.flags);
  const auto crowded = StartDaemon(options.daemon, options.flags);
  const double empty = static_cast<double>(test::ResidentBytes(crowded->pid())) / 1e6;

  // Highest resident memory of the crowded daemon from here on, in bytes.
  std::atomic<uint64_t> resident{0};
  std::atomic<bool> stop{false};
  std::thread sampler([&] {
    while (!stop.load()) {
      resident = std::max(resident.load(), test::ResidentBytes(crowded->pid()));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const int64_t due_ms = WallMillis();
  for (const char* const topic : {"nobody", "silent", "refuser"}) {
    const LoadResult accepted =
        ScheduleMany(crowded->Connect(), {topic}, options.messages, due_ms, 1'000);
    std::printf("%s: %lld due, accepted at %.0f/s\n", topic,
                static_cast<long long>(options.messages), accepted.per_second);
  }
  Received held;
  Received refused;
  std::vector<Health> alone_rounds;
  std::vector<Health> beside_rounds;
  for (int round = 0; round < options.rounds; ++round) {
    const std::string number = std::to_string(round);
    alone_rounds.push_back(Measure(options, *quiet, "alone-" + number));
    const auto silent = Listen(*crowded, "silent", 1'000, &held,
                               [](const client::Delivery&) { return client::Settlement::Leave(); });
    const auto refuser = Listen(*crowded, "refuser", 1'000, &refused, [](const client::Delivery&) {
      return client::Settlement::NackAfter(absl::Seconds(1));
    });
    std::this_thread::sleep_for(std::chrono::seconds(3));
    beside_rounds.push_back(Measure(options, *crowded, "beside-" + number));
  }
  stop = true;
  sampler.join();

  const Health alone = MedianOf(alone_rounds);
  const Health beside = MedianOf(beside_rounds);
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
  PrintMachine(test::TempDirectory(test::TempDirectory::Where::kDisk).path());
  return Run(options);
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
