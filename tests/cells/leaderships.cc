// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/leaderships.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace duetime::cells {
namespace {

// "... cell: b leads epoch 7"; see server/daemon/cell.cc.
constexpr char kLeads[] = " leads epoch ";

}  // namespace

Leaderships::Leaderships(const std::vector<std::string>& logs) {
  for (const std::string& path : logs) logs_.push_back({.path = path, .file = -1, .rest = {}});
}

Leaderships::~Leaderships() {
  for (const Log& log : logs_) {
    if (log.file >= 0) ::close(log.file);
  }
}

void Leaderships::ReadLocked(Log* log) {
  if (log->file < 0) log->file = ::open(log->path.c_str(), O_RDONLY | O_CLOEXEC);
  if (log->file < 0) return;
  char buffer[4'096];
  for (ssize_t size = 0; (size = ::read(log->file, buffer, sizeof(buffer))) > 0;) {
    log->rest.append(buffer, static_cast<size_t>(size));
  }
  size_t begin = 0;
  for (size_t end = 0; (end = log->rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = log->rest.substr(begin, end - begin);
    const size_t found = line.find(kLeads);
    if (found == std::string::npos || line.find("cell: ") == std::string::npos) continue;
    const char* const number = line.c_str() + found + sizeof(kLeads) - 1;
    log->newest = static_cast<uint32_t>(std::strtoul(number, nullptr, /*base=*/10));
    ++count_;
  }
  log->rest.erase(0, begin);
}

void Leaderships::ReadAllLocked() {
  for (Log& log : logs_) ReadLocked(&log);
}

uint32_t Leaderships::NewestOf(int member) {
  const std::lock_guard lock(mutex_);
  Log& log = logs_[static_cast<size_t>(member)];
  ReadLocked(&log);
  return log.newest;
}

uint32_t Leaderships::Newest() {
  const std::lock_guard lock(mutex_);
  ReadAllLocked();
  uint32_t newest = 0;
  for (const Log& log : logs_) newest = std::max(newest, log.newest);
  return newest;
}

int Leaderships::Leader() {
  const std::lock_guard lock(mutex_);
  ReadAllLocked();
  int leader = -1;
  uint32_t newest = 0;
  for (size_t i = 0; i < logs_.size(); ++i) {
    if (logs_[i].newest <= newest) continue;
    newest = logs_[i].newest;
    leader = static_cast<int>(i);
  }
  return leader;
}

int64_t Leaderships::count() {
  const std::lock_guard lock(mutex_);
  ReadAllLocked();
  return count_;
}

}  // namespace duetime::cells
