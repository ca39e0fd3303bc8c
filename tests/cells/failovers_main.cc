// SPDX-License-Identifier: Apache-2.0
//
// Measures how long a cell does not serve after a fault, under load: from the last message that a
// member accepted before to the first one after, and the same for deliveries and for calls through
// the client library. Also judges the history of its clients.
//
//   tests/cells/brokers.sh run build/release/tests/cells/failovers_test [--kills=N] [--others=N]
//       [--seed=N] [--shards=N] [--out=DIR]
//
// Exit code 0: no promise was broken, and each outage was at most 20 s after a fault of a leader;
// 1: one was not; 2: the test could not run; 77: there are no brokers.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/cells/trial.h"

namespace duetime::cells {
namespace {

struct Arguments {
  TrialOptions trial;
  int kills = 20;
  int others = 5;
};

constexpr int64_t kOutageMaxMs = 20'000;
// Of kill -9, at p95. It depends on the machine, so it is printed only.
constexpr int64_t kAimMs = 3'000;

std::vector<Fault> Plan(const Arguments& arguments) {
  std::vector<Fault> plan(static_cast<size_t>(arguments.kills), FaultOf("kill the leader"));
  for (const char* name : {"stop the leader", "pause the leader", "cut the leader from the brokers",
                           "cut the leader from everything", "kill the leading broker",
                           "cut the leading broker", "kill two of three brokers"}) {
    plan.insert(plan.end(), static_cast<size_t>(arguments.others), FaultOf(name));
  }
  return plan;
}

bool InTime(const std::vector<Outage>& outages) {
  bool good = true;
  std::vector<int64_t> kills;
  for (const Outage& outage : outages) {
    const Fault& fault = FaultOf(outage.fault);
    if (outage.fault == "kill the leader") kills.push_back(outage.accepted_ms);
    if (!fault.changes_leader || outage.accepted_ms <= kOutageMaxMs) continue;
    std::printf("%s: nothing was accepted for %lld ms\n", outage.fault.c_str(),
                static_cast<long long>(outage.accepted_ms));
    good = false;
  }
  const int64_t p95_ms = Percentile(kills, 95);
  std::printf("kill the leader: p95 %lld ms; the aim is %lld ms%s\n",
              static_cast<long long>(p95_ms), static_cast<long long>(kAimMs),
              p95_ms <= kAimMs ? "" : ": MISSED");
  return good;
}

int Main(const Arguments& arguments) {
  const auto rig = Rig::Open();
  if (rig == nullptr) return RefuseToRun();
  Trial trial(arguments.trial, rig.get());
  if (!trial.Begin()) return trial.GiveUp();
  for (const Fault& fault : Plan(arguments)) {
    if (!trial.Cause(fault)) return trial.GiveUp();
  }
  const int code = trial.End({.acks_confirmed = arguments.kills});
  const bool in_time = InTime(trial.outages());
  return code == 0 && !in_time ? 1 : code;
}

}  // namespace
}  // namespace duetime::cells

int main(int argc, char** argv) {
  duetime::cells::Arguments arguments;
  CLI::App app("Measures how long a cell does not serve after a fault.");
  duetime::cells::AddTrialOptions(&app, &arguments.trial);
  app.add_option("--kills", arguments.kills, "How often the leader is killed")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--others", arguments.others, "How often each other fault happens")
      ->check(CLI::Range(0, 100'000));
  CLI11_PARSE(app, argc, argv);
  return duetime::cells::Main(arguments);
}
