// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the programs that kill the daemon again and again: their options, and one run of the
// daemon from start to kill.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace duetime::crash {

struct KillOptions {
  std::string daemon = test::kDaemon;
  // The number of kills.
  int cycles = 0;
  uint64_t seed = std::random_device{}();
  int shards = 2;
};

// `cycles` is the default number of kills, multiplied by DUETIME_TEST_SCALE.
KillOptions DefaultKillOptions(int cycles);

// Adds --cycles, --seed, --shards and --daemon.
void AddKillOptions(CLI::App* app, KillOptions* options);

// A daemon on a Unix socket that logs warnings, with `flags` after the number of shards.
test::ServerProcess::Options DaemonOptions(
    const KillOptions& options, std::vector<std::string> flags,
    test::TempDirectory::Where where = test::TempDirectory::Where::kDisk);

// Kills the daemon during its start. No client talks to it.
void KillDuringStart(test::ServerProcess* server, std::mt19937_64* random);

// Returns false and prints a line if the daemon does not start.
bool StartRun(test::ServerProcess* server, int run);

// Kills the daemon. Returns false and prints its log if it had already ended.
bool KillRun(test::ServerProcess* server, int run);

}  // namespace duetime::crash
