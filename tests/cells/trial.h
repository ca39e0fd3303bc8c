// SPDX-License-Identifier: Apache-2.0
//
// Trial: a cell under clients, from the start of its members to the judgement of the history.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cells/clients.h"
#include "tests/cells/faults.h"
#include "tests/cells/leaderships.h"
#include "tests/cells/members.h"
#include "tests/cells/rig.h"
#include "tests/support/history_checker.h"
#include "tests/support/paths.h"

namespace duetime::cells {

struct TrialOptions {
  std::string daemon = test::kDaemon;
  uint64_t seed = std::random_device{}();
  int shards = 2;
  // See Members::Options.
  int64_t log_keep_ms = 3'600'000;
  // Gets the logs of the members and, if the trial fails, the history.
  std::string out = "build/cells";
  std::string topic = "duetime.cell";
};

// Adds --daemon, --seed, --shards, --out and --topic.
void AddTrialOptions(CLI::App* app, TrialOptions* options);

// Thread safety: one thread at a time.
class Trial {
 public:
  // REQUIRES: `rig` lives longer.
  Trial(const TrialOptions& options, Rig* rig);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Starts the members and the clients. Returns false, and prints why, if the cell does not serve.
  bool Begin();
  // Causes a fault; see cells::Cause. Returns false if the trial cannot go on.
  bool Cause(const Fault& fault);
  // How often another member began to lead.
  int64_t takeovers() { return leaderships_.count() - 1; }
  std::mt19937_64* random() { return &random_; }
  const std::vector<Outage>& outages() const { return outages_; }

  // Drains the cell, waits for the messages through the gateway, asks each member for the end of
  // each message, and judges the history. Prints the outages. Returns the exit code of the test, as
  // JudgeFiles.
  int End(const test::Counts& minimum);
  // For a trial that could not go on: keeps the history. Returns 2.
  int GiveUp();

 private:
  bool Drain();
  bool AskLeader();
  // Lets each member lead in turn, and asks it.
  bool AskAllMembers();

  const TrialOptions options_;
  std::mt19937_64 random_;
  test::HistoryWriter history_;
  Members members_;
  Leaderships leaderships_;
  World world_;
  const Cell cell_;
  std::unique_ptr<Clients> clients_;
  std::vector<Outage> outages_;
};

// Prints why the test cannot run outside of `brokers.sh run`. Returns 77.
int RefuseToRun();

}  // namespace duetime::cells
