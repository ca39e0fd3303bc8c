// SPDX-License-Identifier: Apache-2.0
//
// The linearizability check. Concurrent clients schedule, replace, move, cancel, read, receive and
// settle under a few keys, while the test kills the real daemon again and again. For each key the
// check searches for an order in which every answer is right.
//
//   linear_test [--cycles=N] [--seed=N] [--shards=N] [--keys=N] [--threads=N] [--daemon=PATH]
//
// Exit code 0: every key has such an order, and enough happened; 1: a key has none; 2: the test
// could not run.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>

#include "tests/crash/kill_cycles.h"
#include "tests/crash/linear_check.h"
#include "tests/crash/linear_clients.h"
#include "tests/support/server_process.h"

namespace duetime::linear {
namespace {

using std::chrono::milliseconds;

struct Arguments {
  crash::KillOptions kill = crash::DefaultKillOptions(60);
  int keys = 6;
  int threads = 5;
};

// Longer than the longest delay of the clients, apart from delays of an hour.
constexpr int64_t kQuietUs = 1'000'000;
constexpr int64_t kDrainTimeoutUs = 60'000'000;

bool RunOnce(const Arguments& arguments, int number, std::mt19937_64* random,
             test::ServerProcess* server, Recorder* recorder) {
  if ((*random)() % 12 == 0) {
    crash::KillDuringStart(server, random);
    recorder->EndRun();
    return true;
  }
  if (!crash::StartRun(server, number)) return false;
  Callers callers(server->target(), arguments.threads, (*random)(), recorder);
  // In half of the runs, calls reach the messages of earlier runs before any subscriber takes them.
  if ((*random)() % 2 == 0) std::this_thread::sleep_for(milliseconds((*random)() % 200));
  Receiver first(server->target(), {}, (*random)(), recorder);
  Receiver second(server->target(), {}, (*random)(), recorder);
  std::this_thread::sleep_for(milliseconds(300 + (*random)() % 1'200));
  const bool alive = crash::KillRun(server, number);
  callers.Stop();
  first.Stop();
  second.Stop();
  recorder->EndRun();
  return alive;
}

// The last run, which ends every message.
bool Drain(test::ServerProcess* server, int number, Recorder* recorder) {
  if (!crash::StartRun(server, number)) return false;
  Receiver receiver(server->target(), {.acks = 100, .nacks = 0}, 1, recorder);
  const auto stub = v1::Messages::NewStub(server->Connect());
  for (int key = 0; key < recorder->keys(); ++key) {
    if (!EndKey(stub.get(), key, recorder)) return false;
  }
  const int64_t begun_us = NowMicros();
  while (NowMicros() - receiver.last_us() < kQuietUs) {
    if (NowMicros() - begun_us > kDrainTimeoutUs) return false;
    std::this_thread::sleep_for(milliseconds(20));
  }
  receiver.Stop();
  recorder->EndRun();
  return true;
}

// Prints the event counts. Returns false if too little happened to prove anything.
bool EnoughHappened(int cycles, const Recorder& recorder) {
  struct Minimum {
    const char* name;
    Kind kind;
    Answer answer;
    int64_t least;
  };
  const int64_t some = cycles / 4;
  bool enough = true;
  for (const Minimum& minimum :
       {Minimum{"created", Kind::kSchedule, Answer::kCreated, 4 * some},
        Minimum{"replaced", Kind::kSchedule, Answer::kReplaced, 4 * some},
        Minimum{"unchanged", Kind::kSchedule, Answer::kUnchanged, some},
        Minimum{"content mismatch", Kind::kSchedule, Answer::kMismatch, some},
        Minimum{"nothing to replace", Kind::kSchedule, Answer::kNothingToReplace, some},
        Minimum{"schedule without an answer", Kind::kSchedule, Answer::kUnknown, some},
        Minimum{"rescheduled", Kind::kReschedule, Answer::kDone, some},
        Minimum{"reschedule, etag mismatch", Kind::kReschedule, Answer::kEtagMismatch, some},
        Minimum{"reschedule, in flight", Kind::kReschedule, Answer::kInFlight, some},
        Minimum{"cancelled", Kind::kCancel, Answer::kDone, some},
        Minimum{"cancel, in flight", Kind::kCancel, Answer::kInFlight, some},
        Minimum{"cancel, settled", Kind::kCancel, Answer::kSettled, some},
        Minimum{"cancel, already cancelled", Kind::kCancel, Answer::kAlreadyCancelled, some},
        Minimum{"get", Kind::kGet, Answer::kFound, 4 * some},
        Minimum{"deliveries", Kind::kDeliver, Answer::kFound, 4 * some},
        Minimum{"acks confirmed", Kind::kAck, Answer::kConfirmed, 2 * some},
        Minimum{"acks refused", Kind::kAck, Answer::kLeaseLost, 0},
        Minimum{"acks without an answer", Kind::kAck, Answer::kUnknown, 0},
        Minimum{"nacks confirmed", Kind::kNack, Answer::kConfirmed, some}}) {
    const int64_t count = recorder.Count(minimum.kind, minimum.answer);
    std::printf("%s %lld\n", minimum.name, static_cast<long long>(count));
    if (count >= minimum.least) continue;
    std::printf("too little happened: at least %lld\n", static_cast<long long>(minimum.least));
    enough = false;
  }
  return enough;
}

// Returns the exit code.
int Judge(const std::vector<std::vector<Run>>& histories) {
  int code = 0;
  for (size_t key = 0; key < histories.size(); ++key) {
    const Verdict verdict = Check(histories[key]);
    std::printf("key %zu: %zu steps, longest stretch %zu\n", key, verdict.steps, verdict.longest);
    switch (verdict.result) {
      case Verdict::Result::kLinearizable:
        continue;
      case Verdict::Result::kNotLinearizable:
        std::printf("NOT LINEARIZABLE, %s", verdict.text.c_str());
        code = 1;
        continue;
      case Verdict::Result::kLost:
        std::printf("LOST, %s\n", verdict.text.c_str());
        code = 1;
        continue;
      case Verdict::Result::kTooLarge:
        std::printf("TOO LARGE to be judged, %s", verdict.text.c_str());
        if (code == 0) code = 2;
        continue;
    }
  }
  return code;
}

int Main(const Arguments& arguments) {
  const crash::KillOptions& kill = arguments.kill;
  std::printf("DUETIME_SEED=%llu, %d cycles, %d shards, %d keys, %d threads\n",
              static_cast<unsigned long long>(kill.seed), kill.cycles, kill.shards, arguments.keys,
              arguments.threads);
  std::fflush(stdout);
  std::mt19937_64 random(kill.seed);
  test::ServerProcess server(DaemonOptions(
      kill, {"--low-watermark-period-ms=10", "--claim-ahead-ms=200", "--claim-renew-ms=100"}));
  Recorder recorder(arguments.keys);
  const int64_t begun_us = NowMicros();
  for (int number = 1; number <= kill.cycles; ++number) {
    if (!RunOnce(arguments, number, &random, &server, &recorder)) return 2;
  }
  if (!Drain(&server, kill.cycles + 1, &recorder)) return 2;
  std::printf("%.1f s\n", static_cast<double>(NowMicros() - begun_us) / 1e6);
  const int code = Judge(recorder.TakeHistories());
  std::printf("%.1f s with the check; DUETIME_SEED=%llu\n",
              static_cast<double>(NowMicros() - begun_us) / 1e6,
              static_cast<unsigned long long>(kill.seed));
  const bool enough = EnoughHappened(kill.cycles, recorder);
  return code != 0 || enough ? code : 2;
}

}  // namespace
}  // namespace duetime::linear

int main(int argc, char** argv) {
  duetime::linear::Arguments arguments;
  CLI::App app("Looks for an order that explains what clients were told while the daemon died.");
  duetime::crash::AddKillOptions(&app, &arguments.kill);
  app.add_option("--keys", arguments.keys, "That the clients share")->check(CLI::Range(1, 1'000));
  app.add_option("--threads", arguments.threads, "Clients that call")->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  return duetime::linear::Main(arguments);
}
