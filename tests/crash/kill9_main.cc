// SPDX-License-Identifier: Apache-2.0
//
// The crash test. Kills the real daemon at random moments, again and again, under concurrent
// clients. At the end it drains the daemon and judges the history that the clients recorded.
//
//   kill9_test [--cycles=N] [--seed=N] [--shards=N] [--memory] [--daemon=PATH]
//
// DUETIME_TEST_SCALE multiplies the default number of cycles.
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
#include "tests/crash/kill9_history.h"
#include "tests/crash/kill9_recorder.h"
#include "tests/crash/kill_cycles.h"
#include "tests/support/server_process.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;

struct Arguments {
  KillOptions kill = DefaultKillOptions(200);
  bool memory = false;
};

// Well above the longest nack (50 ms) and delay (300 ms) of the clients.
constexpr int64_t kQuietMs = 1'500;
constexpr int64_t kDrainTimeoutMs = 120'000;

// One run of the daemon. Most runs are killed under load, some during the start, some during the
// drain.
bool RunOnce(test::ServerProcess* server, int run, std::mt19937_64* random, Recorder* recorder) {
  const uint64_t kind = (*random)() % 20;
  if (kind == 0) {
    KillDuringStart(server, random);
    return true;
  }
  if (!StartRun(server, run)) return false;
  Clients clients(server->target(), run, (*random)(), recorder);
  std::this_thread::sleep_for(milliseconds(50 + (*random)() % 350));
  if (kind == 1) {
    server->Terminate();
    std::this_thread::sleep_for(milliseconds((*random)() % 200));
  }
  if (kind != 1) return KillRun(server, run);
  server->Kill();
  return true;
}

// The last run: delivers and acks every remaining message, then cancels every accepted message to
// learn its end.
bool Drain(test::ServerProcess* server, int run, Recorder* recorder) {
  if (!StartRun(server, run)) return false;
  std::vector<std::unique_ptr<SubscriberClient>> subscribers;
  for (int topic = 0; topic < kTopics; ++topic) {
    subscribers.push_back(std::make_unique<SubscriberClient>(
        SubscriberClient::Where{.target = server->target(), .topic = TopicName(topic), .run = run},
        SubscriberHabits{.credit = 1'000, .acks = 100, .nacks = 0, .breaks = 0}, 1, recorder));
  }
  const int64_t begun = SteadyMillis();
  const auto quiet = [&] {
    for (const auto& subscriber : subscribers) {
      if (SteadyMillis() - subscriber->last_received_ms() < kQuietMs) return false;
    }
    return true;
  };
  while (!quiet() && SteadyMillis() - begun < kDrainTimeoutMs) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  grpc::ClientContext context;
  v1::ServerInfoResponse info;
  const auto admin = v1::Admin::NewStub(server->Connect());
  const grpc::Status status = admin->ServerInfo(&context, {}, &info);
  subscribers.clear();
  const bool asked = AskAfterAll(server->Connect(), run, recorder);
  const auto exit = server->Stop();
  std::printf("drain: in flight %lld, due %lld, exit code %d, %.1f s\n",
              static_cast<long long>(info.counts().in_flight()),
              static_cast<long long>(info.counts().due_ready()),
              exit.value_or(test::ExitStatus{}).code,
              static_cast<double>(SteadyMillis() - begun) / 1'000);
  return status.ok() && asked && exit.has_value() && exit->code == 0;
}

// Fewer events would mean that the run proves nothing.
bool EnoughHappened(int64_t cycles, const Tally& tally) {
  struct Minimum {
    const char* name;
    int64_t value;
    int64_t least;
  };
  bool enough = true;
  for (const Minimum& minimum :
       {Minimum{"scheduled", tally.scheduled, 20 * cycles},
        Minimum{"cancelled", tally.cancelled, cycles},
        Minimum{"acks confirmed", tally.acks_confirmed, 5 * cycles},
        Minimum{"redelivered by a later run", tally.redelivered_by_later_run, cycles / 2},
        Minimum{"calls and acks without an answer",
                tally.schedule_unknown + tally.cancel_unknown + tally.acks_unknown, cycles / 2},
        Minimum{"cancels that met a delivery", tally.cancel_in_flight, cycles / 10},
        Minimum{"cancels that met an end", tally.cancel_already + tally.cancel_settled,
                10 * cycles}}) {
    if (minimum.value >= minimum.least) continue;
    std::printf("too little happened: %s %lld, least %lld\n", minimum.name,
                static_cast<long long>(minimum.value), static_cast<long long>(minimum.least));
    enough = false;
  }
  return enough;
}

void Print(const Tally& tally) {
  std::printf(
      "scheduled %lld, without an answer %lld (of these delivered %lld), refused %lld\n"
      "cancelled %lld, already %lld, in flight %lld, settled %lld, not found %lld, without an "
      "answer %lld\n"
      "deliveries %lld, of these after a crash %lld; acks confirmed %lld, refused %lld, without an "
      "answer %lld\n",
      static_cast<long long>(tally.scheduled), static_cast<long long>(tally.schedule_unknown),
      static_cast<long long>(tally.unknown_delivered),
      static_cast<long long>(tally.schedule_refused), static_cast<long long>(tally.cancelled),
      static_cast<long long>(tally.cancel_already), static_cast<long long>(tally.cancel_in_flight),
      static_cast<long long>(tally.cancel_settled), static_cast<long long>(tally.cancel_not_found),
      static_cast<long long>(tally.cancel_unknown), static_cast<long long>(tally.deliveries),
      static_cast<long long>(tally.redelivered_by_later_run),
      static_cast<long long>(tally.acks_confirmed), static_cast<long long>(tally.acks_refused),
      static_cast<long long>(tally.acks_unknown));
}

int Main(const Arguments& arguments) {
  const KillOptions& kill = arguments.kill;
  std::printf("seed %llu, %d cycles, %d shards, %s\n", static_cast<unsigned long long>(kill.seed),
              kill.cycles, kill.shards, arguments.memory ? "in memory" : "on disk");
  std::fflush(stdout);
  std::mt19937_64 random(kill.seed);
  test::ServerProcess server(DaemonOptions(
      kill, {"--drain-grace-ms=300", "--low-watermark-period-ms=10"},
      arguments.memory ? test::TempDirectory::Where::kMemory : test::TempDirectory::Where::kDisk));
  Recorder recorder;
  const int64_t begun = SteadyMillis();
  for (int run = 1; run <= kill.cycles; ++run) {
    if (!RunOnce(&server, run, &random, &recorder)) return 2;
    if (run % 50 == 0) {
      std::printf("%d cycles, %zu messages, %.1f s\n", run, recorder.size(),
                  static_cast<double>(SteadyMillis() - begun) / 1'000);
      std::fflush(stdout);
    }
  }
  if (!Drain(&server, kill.cycles + 1, &recorder)) return 2;
  const std::vector<MessageHistory> history = recorder.TakeHistory();
  const Tally tally = Count(history);
  Print(tally);
  const std::vector<Violation> violations = Check(history);
  for (size_t i = 0; i < violations.size() && i < 20; ++i) {
    std::printf("message %zu: %s: %s\n", violations[i].message, violations[i].rule.c_str(),
                violations[i].text.c_str());
  }
  std::printf("%zu broken promises, seed %llu\n", violations.size(),
              static_cast<unsigned long long>(kill.seed));
  if (!violations.empty()) return 1;
  return EnoughHappened(kill.cycles, tally) ? 0 : 2;
}

}  // namespace
}  // namespace duetime::crash

int main(int argc, char** argv) {
  duetime::crash::Arguments arguments;
  CLI::App app("Kills the daemon again and again, and judges what its clients saw.");
  duetime::crash::AddKillOptions(&app, &arguments.kill);
  app.add_flag("--memory", arguments.memory,
               "Keep the data in memory: faster, but commits are hardly ever on their way");
  CLI11_PARSE(app, argc, argv);
  return duetime::crash::Main(arguments);
}
