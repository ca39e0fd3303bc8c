// SPDX-License-Identifier: Apache-2.0
//
// Leaderships: which member led in which epoch, by the logs of the members.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace duetime::cells {

// A member writes to its log that it leads an epoch before it serves in the epoch. So after an
// answer of a member, the log has the epoch of the answer.
//
// Each call reads what the logs have gained. Thread-safe.
class Leaderships {
 public:
  // Files that members append to. They need not exist yet.
  explicit Leaderships(const std::vector<std::string>& logs);
  ~Leaderships();
  Leaderships(const Leaderships&) = delete;
  Leaderships& operator=(const Leaderships&) = delete;

  // The newest epoch that the member has led, or any member has; 0 without one.
  uint32_t NewestOf(int member);
  uint32_t Newest();
  // The member that led the newest epoch, or -1.
  int Leader();
  // The number of epochs that had a leader.
  int64_t count();

 private:
  struct Log {
    std::string path;
    int file = -1;
    // A line that is not complete yet.
    std::string rest;
    uint32_t newest = 0;
  };
  void ReadLocked(Log* log);
  void ReadAllLocked();

  std::mutex mutex_;
  // mutex_ guards all members below.
  std::vector<Log> logs_;
  int64_t count_ = 0;
};

}  // namespace duetime::cells
