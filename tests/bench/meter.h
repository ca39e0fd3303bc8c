// SPDX-License-Identifier: Apache-2.0
//
// Meter: what a server and its client spend on a load, and the disk on which they run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/bench/load.h"
#include "tests/support/server_process.h"

namespace duetime::bench {

// Sums over a time.
struct Spent {
  double seconds = 0;
  double client_cpu_s = 0;
  // CPU of the server by kind of thread: gRPC, engine, committer, RocksDB, other.
  std::map<std::string, double> thread_cpu_s;
  // What the journal got.
  double records = 0;
  double record_bytes = 0;
  double syncs = 0;
  // What the kernel wrote for the server: log, flushes and compactions.
  double disk_bytes = 0;
};

// Thread safety: one thread at a time.
class Meter {
 public:
  // REQUIRES: the server serves metrics, and outlives the meter.
  explicit Meter(const test::ServerProcess& server);

  // Returns the cost of the load since the last call, or since the constructor.
  Spent Take();

 private:
  Spent Read() const;

  const test::ServerProcess& server_;
  SteadyClock::time_point start_;
  Spent before_;
};

// Prints the columns of PrintSpent.
void PrintSpentHead();
// Prints the rate of `operations`, and what each of them cost.
void PrintSpent(const char* name, const Spent& spent, double operations);

// CPU of the server for each of `operations`, in microseconds.
double ServerMicros(const Spent& spent, double operations);

// The sizes of all files in a directory and below.
uint64_t DirectoryBytes(const std::string& directory);

// CPU seconds of the threads of a process that run.
double ProcessCpuSeconds(int pid);

// Prints the cores, the file system of `directory`, and how long it takes there to sync an append
// of 4 KiB.
void PrintMachine(const std::string& directory);

}  // namespace duetime::bench
