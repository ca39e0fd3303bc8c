// SPDX-License-Identifier: Apache-2.0
//
// The frame of the programs that kill the daemon again and again: their options, and the life of
// the daemon from start to kill.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace duetime::crash {

struct KillOptions {
  std::string daemon = DUETIME_DAEMON;
  // How often the daemon is killed.
  int cycles = 0;
  uint64_t seed = std::random_device{}();
  int shards = 2;
};

// `cycles` is the default, which DUETIME_TEST_SCALE multiplies.
KillOptions DefaultKillOptions(int cycles);

// --cycles, --seed, --shards and --daemon.
void AddKillOptions(CLI::App* app, KillOptions* options);

// A daemon on a Unix socket that logs warnings, with `flags` beside the number of shards.
test::ServerProcess::Options DaemonOptions(
    const KillOptions& options, std::vector<std::string> flags,
    test::TempDirectory::Where where = test::TempDirectory::Where::kDisk);

// Kills the daemon during its start. No client talks to it.
void KillDuringStart(test::ServerProcess* server, std::mt19937_64* random);

// False, with a line of output, if the daemon does not start.
bool StartRun(test::ServerProcess* server, int run);

// Kills the daemon. False, with its log, if it had ended before.
bool KillRun(test::ServerProcess* server, int run);

}  // namespace duetime::crash
