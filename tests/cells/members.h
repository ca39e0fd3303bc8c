// SPDX-License-Identifier: Apache-2.0
//
// Members: the daemons of a cell, each on its own host of the rig, and a gateway to them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/cells/rig.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_directory.h"

namespace duetime::cells {

// Starts, pauses and kills the members. A member's log is kept over all its runs.
//
// Thread safety: one thread at a time.
class Members {
 public:
  struct Options {
    std::string daemon;
    // The topic of the cell.
    std::string topic;
    int shards = 2;
    // The knob cell_log_keep_ms.
    int64_t log_keep_ms = 3'600'000;
    // Holds the logs.
    std::string out;
  };
  explicit Members(Options options);
  // Kills them.
  ~Members() = default;

  // A member without a data directory begins empty.
  void Start(int member);
  // Starts a gateway to the members on the clients' host. The destructor ends it.
  void StartGateway();
  void Kill(int member);
  // Sends SIGTERM and waits for the end. Returns false, and prints why, if the member does not end
  // in time with exit code 0.
  bool Terminate(int member);
  void Pause(int member);
  void Resume(int member);
  // Removes the data directory of a member that does not run.
  void Wipe(int member);
  // Returns false, and prints the end of its log, if the member has ended by itself.
  bool Alive(int member);
  // The same of the gateway. Returns true if it has not been started.
  bool GatewayAlive();

  // Whether the member's log has named a leader since its start. A member that needs a checkpoint
  // fetches it first.
  bool NamesLeader(int member);
  // How often a directory was removed, and how often a member then began to fetch a checkpoint.
  int64_t wipes() const { return wipes_; }
  int64_t fetches() const;
  std::vector<std::string> logs() const;

 private:
  std::string DataDirectory(int member) const;
  // `name` is that of a member's host, or "gateway".
  std::string LogOf(const std::string& name) const;
  std::string Log(int member) const;
  // As Alive.
  bool Runs(test::Subprocess* process, const std::string& name) const;

  struct LastStart {
    // Where its log begins.
    size_t log = 0;
    bool names_leader = false;
  };

  const Options options_;
  const test::TempDirectory directory_{test::TempDirectory::Where::kDisk};
  std::array<std::unique_ptr<test::Subprocess>, kMembers> processes_;
  std::array<LastStart, kMembers> starts_{};
  int64_t wipes_ = 0;
  std::unique_ptr<test::Subprocess> gateway_;
};

}  // namespace duetime::cells
