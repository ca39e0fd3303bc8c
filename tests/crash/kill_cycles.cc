// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kill_cycles.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

namespace duetime::crash {

KillOptions DefaultKillOptions(int cycles) {
  KillOptions options;
  options.cycles = static_cast<int>(test::Scaled(cycles));
  return options;
}

void AddKillOptions(CLI::App* app, KillOptions* options) {
  app->add_option("--cycles", options->cycles, "How often the daemon is killed")
      ->check(CLI::Range(1, 1'000'000'000));
  app->add_option("--seed", options->seed, "Of everything random here")->envname("DUETIME_SEED");
  app->add_option("--shards", options->shards, "Of the daemon")->check(CLI::Range(1, 64));
  app->add_option("--daemon", options->daemon, "The program to kill");
}

test::ServerProcess::Options DaemonOptions(const KillOptions& options,
                                           std::vector<std::string> flags,
                                           test::TempDirectory::Where where) {
  flags.push_back("--shards=" + std::to_string(options.shards));
  flags.push_back("--log-level=warn");
  return {.daemon = options.daemon,
          .flags = std::move(flags),
          .tcp = false,
          .metrics = false,
          .where = where,
          .unix_socket = true,
          .tls = {}};
}

void KillDuringStart(test::ServerProcess* server, std::mt19937_64* random) {
  server->Launch();
  std::this_thread::sleep_for(std::chrono::milliseconds((*random)() % 100));
  server->Kill();
}

bool StartRun(test::ServerProcess* server, int run) {
  if (server->Start()) return true;
  std::printf("run %d: %s\n", run, server->error().c_str());
  return false;
}

bool KillRun(test::ServerProcess* server, int run) {
  const bool alive = server->running();
  server->Kill();
  if (!alive) {
    std::printf("run %d: the daemon had ended by itself\n%s\n", run, server->log().c_str());
  }
  return alive;
}

}  // namespace duetime::crash
