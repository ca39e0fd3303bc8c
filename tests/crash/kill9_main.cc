// SPDX-License-Identifier: Apache-2.0
//
// The crash test. Kills the real daemon at random moments, again and again, under concurrent
// clients. At the end it drains the daemon and judges the history that the clients recorded.
//
//   kill9_test [--cycles=N] [--seed=N] [--shards=N] [--batch=N] [--memory] [--daemon=PATH]
//
// Memtables are small, so that kills meet flushes. With batches of hundreds each life of the daemon
// has thousands of messages. DUETIME_TEST_SCALE multiplies the default number of cycles.
//
// Exit code 0: no promise was broken and enough happened; 1: a promise was broken; 2: the test
// could not run.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>

#include "duetime/v1/admin.grpc.pb.h"
#include "tests/crash/kill9_clients.h"
#include "tests/crash/kill_cycles.h"
#include "tests/support/history_checker.h"
#include "tests/support/server_process.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;

struct Arguments {
  KillOptions kill = DefaultKillOptions(200);
  // The most messages in a Schedule call.
  int batch = 20;
  bool memory = false;
};

// Well above the longest nack (50 ms) and delay (300 ms) of the clients.
constexpr int64_t kQuietMs = 1'500;
constexpr int64_t kDrainTimeoutMs = 120'000;

// What all runs share.
struct Story {
  HistoryWriter history{test::HistoryPath()};
  AcceptedMessages accepted;
};

// One run of the daemon. Most runs are killed under load, some during the start, some during the
// drain.
bool RunOnce(test::ServerProcess* server, uint32_t run, int batch, std::mt19937_64* random,
             Story* story) {
  HistoryWriter& history = story->history;
  const uint64_t kind = (*random)() % 20;
  history.Add({.run = run, .what = What::kStart});
  if (kind == 0) {
    KillDuringStart(server, random);
    history.Add({.run = run, .what = What::kKill});
    return true;
  }
  if (!StartRun(server, static_cast<int>(run))) return false;
  Clients clients(server->target(), run, (*random)(), batch, &history, &story->accepted);
  std::this_thread::sleep_for(milliseconds(50 + (*random)() % 350));
  if (kind == 1) {
    history.Add({.run = run, .what = What::kStop});
    server->Terminate();
    std::this_thread::sleep_for(milliseconds((*random)() % 200));
  }
  history.Add({.run = run, .what = What::kKill});
  if (kind != 1) return KillRun(server, static_cast<int>(run));
  server->Kill();
  return true;
}

// The last run: delivers and acks every remaining message, then cancels every accepted message to
// learn its end.
bool Drain(test::ServerProcess* server, uint32_t run, Story* story) {
  HistoryWriter& history = story->history;
  history.Add({.run = run, .what = What::kStart});
  if (!StartRun(server, static_cast<int>(run))) return false;
  std::vector<std::unique_ptr<SubscriberClient>> subscribers;
  for (int topic = 0; topic < kTopics; ++topic) {
    subscribers.push_back(std::make_unique<SubscriberClient>(
        SubscriberClient::Where{.target = server->target(), .topic = TopicName(topic), .run = run},
        SubscriberHabits{.credit = 1'000, .acks = 100, .nacks = 0, .breaks = 0}, 1, &history));
  }
  const int64_t begun = SteadyMillis();
  const auto quiet = [&] {
    for (const auto& subscriber : subscribers) {
      if (SteadyMillis() - subscriber->last_received_ms() < kQuietMs) return false;
    }
    return !AnyOpen(server->Connect());
  };
  while (!quiet() && SteadyMillis() - begun < kDrainTimeoutMs) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  grpc::ClientContext context;
  v1::ServerInfoResponse info;
  const auto admin = v1::Admin::NewStub(server->Connect());
  const grpc::Status status = admin->ServerInfo(&context, {}, &info);
  subscribers.clear();
  history.Add({.run = run, .what = What::kDrained});
  const bool asked = AskAfterAll(server->Connect(), run, story->accepted, &history);
  const auto exit = server->Stop();
  std::printf("drain: in flight %lld, due %lld, exit code %d, %.1f s\n",
              static_cast<long long>(info.counts().in_flight()),
              static_cast<long long>(info.counts().due_ready()),
              exit.value_or(test::ExitStatus{}).code,
              static_cast<double>(SteadyMillis() - begun) / 1'000);
  return status.ok() && asked && exit.has_value() && exit->code == 0;
}

// Fewer events would mean that the run proves nothing.
test::Counts Least(int64_t cycles) {
  return {.scheduled = 20 * cycles,
          .cancelled = cycles,
          .cancel_in_flight = cycles / 10,
          .cancel_already = cycles,
          .cancel_settled = 9 * cycles,
          .unanswered = cycles / 2,
          .redelivered_by_later_run = cycles / 2,
          .acks_confirmed = 5 * cycles,
          .kills = cycles};
}

int Main(const Arguments& arguments) {
  const KillOptions& kill = arguments.kill;
  std::printf("seed %llu, %d cycles, %d shards, batches of %d, %s\n",
              static_cast<unsigned long long>(kill.seed), kill.cycles, kill.shards, arguments.batch,
              arguments.memory ? "in memory" : "on disk");
  std::fflush(stdout);
  std::mt19937_64 random(kill.seed);
  test::ServerProcess server(DaemonOptions(
      kill,
      {"--drain-grace-ms=300", "--low-watermark-period-ms=10", "--write-buffer-bytes=1MiB",
       "--wal-bytes-max=4MiB"},
      arguments.memory ? test::TempDirectory::Where::kMemory : test::TempDirectory::Where::kDisk));
  Story story;
  const int64_t begun = SteadyMillis();
  for (int run = 1; run <= kill.cycles; ++run) {
    if (!RunOnce(&server, static_cast<uint32_t>(run), arguments.batch, &random, &story)) {
      return KeepUnjudged(&story.history);
    }
    if (run % 50 == 0) {
      std::printf("%d cycles, %u messages, %.1f s\n", run, story.history.messages(),
                  static_cast<double>(SteadyMillis() - begun) / 1'000);
      std::fflush(stdout);
    }
  }
  if (!Drain(&server, static_cast<uint32_t>(kill.cycles) + 1, &story)) {
    return KeepUnjudged(&story.history);
  }
  const int code = JudgeAndKeep(&story.history, {.minimum = Least(kill.cycles)});
  std::printf("seed %llu\n", static_cast<unsigned long long>(kill.seed));
  return code;
}

}  // namespace
}  // namespace duetime::crash

int main(int argc, char** argv) {
  duetime::crash::Arguments arguments;
  CLI::App app("Kills the daemon again and again, and judges what its clients saw.");
  duetime::crash::AddKillOptions(&app, &arguments.kill);
  app.add_option("--batch", arguments.batch, "The most messages in a Schedule call")
      ->check(CLI::Range(1, 1'000));
  app.add_flag("--memory", arguments.memory,
               "Keep the data in memory: faster, but commits are hardly ever on their way");
  CLI11_PARSE(app, argc, argv);
  return duetime::crash::Main(arguments);
}
