// SPDX-License-Identifier: Apache-2.0
//
// Measures what a principal that floods costs another one. One principal schedules a steady load
// and receives it. The flooder schedules as fast as the server answers, and some other client sends
// wrong tokens at a steady rate.
//
//   flood_bench [--rate R] [--wrong-tokens R] [--quota N] [--seconds S] [--rounds N]
//
// Prints the steady principal's lateness alone, beside the flood, and beside the flood with a
// quota, as medians of rounds that take turns. See RESULTS.md.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "duetime/v1/admin.grpc.pb.h"
#include "tests/bench/listeners.h"
#include "tests/bench/load.h"
#include "tests/bench/meter.h"
#include "tests/support/paths.h"

namespace duetime::bench {
namespace {

struct Options {
  int64_t rate = 200;
  int64_t wrong_tokens = 1'000;
  // Messages per second of the flooder.
  int64_t quota = 500;
  int in_flight = 64;
  double seconds = 10;
  int rounds = 5;
};

// "flood" is the flooder's token. The steady principal is the user of the Unix socket.
constexpr char kTokens[] =
    "[[token]]\nname = \"flooder\"\nsha256 = "
    "\"d8864644c15d33be9c0aef2d08c8fc105adc040de488b0116882a2cc6aa4492b\"\n";

std::string Rules(int64_t quota) {
  std::string text =
      "[[rule]]\nwho = [\"flooder\"]\nmay = [\"schedule\"]\ntopics = [\"flood\"]\n[[rule]]\n"
      "who = [\"unix:" +
      std::to_string(getuid()) +
      "\"]\nmay = [\"schedule\", \"read_payloads\", \"subscribe\", \"admin\", \"operate\"]\n"
      "topics = [\"*\"]\n";
  if (quota > 0) {
    text += "[[quota]]\nwho = [\"flooder\"]\nmessages_per_second = " + std::to_string(quota) + "\n";
  }
  return text;
}

std::unique_ptr<test::ServerProcess> Start(const test::TempDirectory& files, int64_t quota) {
  const std::string name = "access-" + std::to_string(quota) + ".toml";
  std::ofstream(files.Join(name)) << Rules(quota);
  std::ofstream(files.Join("tokens.toml")) << kTokens;
  auto server = std::make_unique<test::ServerProcess>(test::ServerProcess::Options{
      .daemon = test::kDaemon,
      .flags = {"--access-file=" + files.Join(name), "--tokens-file=" + files.Join("tokens.toml")},
      .tcp = true,
      .metrics = true,
      .where = test::TempDirectory::Where::kDisk,
      .unix_socket = true,
      .tls = {}});
  if (!server->Start()) {
    std::fprintf(stderr, "%s\n", server->error().c_str());
    std::exit(1);
  }
  return server;
}

// A channel of the flooder. gRPC sends tokens over local credentials on Unix sockets only.
Channel FlooderOf(const test::ServerProcess& server) {
  return grpc::CreateChannel(
      server.target(), grpc::CompositeChannelCredentials(grpc::experimental::LocalCredentials(UDS),
                                                         grpc::AccessTokenCredentials("flood")));
}

// Calls with wrong tokens, over TCP, until `stop`. Returns how many the server refused.
int64_t SendWrongTokens(const test::ServerProcess& server, int64_t rate,
                        const std::atomic<bool>& stop) {
  const auto stub = v1::Admin::NewStub(
      grpc::CreateChannel(server.tcp_target(), grpc::InsecureChannelCredentials()));
  const auto start = SteadyClock::now();
  int64_t refused = 0;
  for (int64_t sent = 0; !stop.load(); ++sent) {
    std::this_thread::sleep_until(start + std::chrono::microseconds(sent * 1'000'000 / rate));
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer wrong-" + std::to_string(sent));
    v1::ServerInfoResponse response;
    const grpc::Status status = stub->ServerInfo(&context, {}, &response);
    refused += status.error_code() == grpc::StatusCode::UNAUTHENTICATED ? 1 : 0;
  }
  return refused;
}

struct Health {
  std::vector<double> p50_ms;
  std::vector<double> p99_ms;
};

// Measures one round of the steady principal, with or without the flood.
void Measure(const Options& options, const test::ServerProcess& server, const std::string& topic,
             bool flood, Health* health) {
  Received received;
  std::atomic<bool> stop{false};
  LoadResult flooded;
  std::atomic<int64_t> refused{0};
  const auto listener = Listen(server, topic, 10'000, &received);
  std::vector<std::thread> threads;
  threads.emplace_back(Trickle, server.Connect(), topic, options.rate, &stop, int64_t{100});
  if (flood) {
    threads.emplace_back([&] {
      constexpr int64_t kDayMs = 86'400'000;
      MessageSource source("flood", kDayMs, kDayMs);
      flooded =
          ScheduleFor(FlooderOf(server), &source, options.in_flight, options.seconds, nullptr);
    });
    // A single caller that waits for each answer would fall behind the rate.
    constexpr int kCallers = 4;
    for (int i = 0; i < kCallers; ++i) {
      threads.emplace_back(
          [&] { refused += SendWrongTokens(server, options.wrong_tokens / kCallers, stop); });
    }
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  PrintLateness(topic.c_str(), &received);
  if (flood) {
    std::printf("  flood: %.0f/s accepted, %.0f/s refused; %.0f/s wrong tokens refused\n",
                flooded.per_second, static_cast<double>(flooded.errors) / options.seconds,
                static_cast<double>(refused.load()) / options.seconds);
  }
  std::fflush(stdout);
  const std::lock_guard<std::mutex> lock(received.mutex);
  health->p50_ms.push_back(Quantile(&received.lateness_ms, 0.5));
  health->p99_ms.push_back(Quantile(&received.lateness_ms, 0.99));
}

int Run(const Options& options) {
  const test::TempDirectory files(test::TempDirectory::Where::kMemory);
  const auto open = Start(files, 0);
  const auto bounded = Start(files, options.quota);
  std::map<std::string, Health> all;
  for (int round = 0; round < options.rounds; ++round) {
    const std::string number = std::to_string(round);
    Measure(options, *open, "alone-" + number, false, &all["alone"]);
    Measure(options, *open, "beside-" + number, true, &all["beside the flood"]);
    Measure(options, *bounded, "quota-" + number, true, &all["beside the flood with a quota"]);
  }
  for (auto& [name, health] : all) {
    std::printf("%s: median of the rounds: lateness p50 %.2f ms, p99 %.2f ms (%.2f to %.2f)\n",
                name.c_str(), Quantile(&health.p50_ms, 0.5), Quantile(&health.p99_ms, 0.5),
                Quantile(&health.p99_ms, 0), Quantile(&health.p99_ms, 1));
  }
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("What a principal that floods costs another one");
  Options options;
  app.add_option("--rate", options.rate, "messages per second of the steady principal");
  app.add_option("--wrong-tokens", options.wrong_tokens, "calls with a wrong token per second");
  app.add_option("--quota", options.quota, "messages per second of the flooder's quota");
  app.add_option("--in-flight", options.in_flight, "calls of the flooder at a time");
  app.add_option("--seconds", options.seconds, "length of each measurement");
  app.add_option("--rounds", options.rounds, "of which the median counts");
  CLI11_PARSE(app, argc, argv);
  PrintMachine(test::TempDirectory(test::TempDirectory::Where::kDisk).path());
  return Run(options);
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
