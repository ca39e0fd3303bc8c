// SPDX-License-Identifier: Apache-2.0
//
// Tries a cell under faults. Three members share a log on three real brokers. Members, brokers and
// links fail one after the other, while clients schedule, move, cancel, read, receive and settle.
// At the end the test drains the cell and judges the history that the clients recorded.
//
//   tests/cells/brokers.sh run build/release/tests/cells/cell_faults_test [--takeovers=N]
//   [--seed=N]
//       [--shards=N] [--only=FAULT ...] [--out=DIR]
//
// Each kind of fault happens at least once, and then again until enough members have taken over.
//
// Exit code 0: no promise was broken and enough happened; 1: a promise was broken; 2: the test
// could not run; 77: there are no brokers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/cells/trial.h"

namespace duetime::cells {
namespace {

struct Arguments {
  TrialOptions trial;
  int takeovers = 20;
  // Empty: all.
  std::vector<std::string> only;
};

bool Wanted(const Arguments& arguments, const Fault& fault) {
  return arguments.only.empty() || std::find(arguments.only.begin(), arguments.only.end(),
                                             fault.name) != arguments.only.end();
}

// The first round has each fault. Each later one has the faults that change the leader, and one of
// the others, because a fault of a broker takes half a minute.
std::vector<Fault> Round(const Arguments& arguments, bool first, std::mt19937_64* random) {
  std::vector<Fault> round;
  std::vector<Fault> others;
  for (const Fault& fault : AllFaults()) {
    if (!Wanted(arguments, fault)) continue;
    (first || fault.changes_leader ? round : others).push_back(fault);
  }
  if (!others.empty()) round.push_back(others[(*random)() % others.size()]);
  std::shuffle(round.begin(), round.end(), *random);
  return round;
}

// Fewer events would mean that the run proves nothing.
test::Counts Least(int64_t takeovers) {
  return {.scheduled = 200 * takeovers,
          .rescheduled = takeovers,
          .cancelled = 5 * takeovers,
          .cancel_already = 10 * takeovers,
          .cancel_settled = 100 * takeovers,
          .unanswered = takeovers,
          .gets = 50 * takeovers,
          .gets_pending = 10 * takeovers,
          .redelivered_by_later_run = takeovers / 4,
          .acks_confirmed = 100 * takeovers};
}

int Main(const Arguments& arguments) {
  const auto rig = Rig::Open();
  if (rig == nullptr) return RefuseToRun();
  Trial trial(arguments.trial, rig.get());
  if (!trial.Begin()) return trial.GiveUp();
  for (bool first = true; first || trial.takeovers() < arguments.takeovers; first = false) {
    for (const Fault& fault : Round(arguments, first, trial.random())) {
      if (!first && trial.takeovers() >= arguments.takeovers) break;
      if (!trial.Cause(fault)) return trial.GiveUp();
    }
  }
  return trial.End(Least(arguments.takeovers));
}

}  // namespace
}  // namespace duetime::cells

int main(int argc, char** argv) {
  duetime::cells::Arguments arguments;
  // A short time, because a member without a directory fetches a checkpoint only if the beginning
  // of the log is gone.
  arguments.trial.log_keep_ms = 3'000;
  CLI::App app("Tries a cell under faults, and judges what its clients saw.");
  duetime::cells::AddTrialOptions(&app, &arguments.trial);
  app.add_option("--takeovers", arguments.takeovers, "How often another member leads at least")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--only", arguments.only, "Names of faults; without it, all");
  CLI11_PARSE(app, argc, argv);
  return duetime::cells::Main(arguments);
}
