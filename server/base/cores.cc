// SPDX-License-Identifier: Apache-2.0
#include "server/base/cores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace duetime::base {
namespace {

constexpr size_t kDefaultThreadsMax = 8;
constexpr size_t kThreadsThatFit = 4;

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The number of cores in the affinity mask, which is hexadecimal with commas; 0 if it is unknown.
size_t CoresOfMask(const std::string& process) {
  const std::string status = ReadText(process + "/status");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "Cpus_allowed:")) continue;
    size_t cores = 0;
    for (const char digit : line) {
      uint32_t bits = 0;
      if (absl::SimpleHexAtoi(std::string(1, digit), &bits)) {
        cores += static_cast<size_t>(std::popcount(bits));
      }
    }
    return cores;
  }
  return 0;
}

// The CPU time that a group may use for each second; infinite without a limit.
double LimitOf(const std::string& group) {
  double quota = 0;
  double period = 0;
  const std::vector<std::string> both =
      absl::StrSplit(ReadText(group + "/cpu.max"), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const bool version_2 = both.size() == 2;
  const std::string quota_text = version_2 ? both[0] : ReadText(group + "/cpu.cfs_quota_us");
  const std::string period_text = version_2 ? both[1] : ReadText(group + "/cpu.cfs_period_us");
  // No limit is "max", or -1.
  if (!absl::SimpleAtod(quota_text, &quota) || !absl::SimpleAtod(period_text, &period) ||
      quota <= 0 || period <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  return quota / period;
}

}  // namespace

std::vector<std::string> ControlGroups(const std::string& process, const std::string& root,
                                       absl::string_view controller) {
  std::vector<std::string> groups;
  const std::string text = ReadText(process + "/cgroup");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    // "0::/path", or of version 1 "3:cpu,cpuacct:/path".
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (!parts[1].empty() && !absl::c_linear_search(controllers, controller)) continue;
    const std::string top = parts[1].empty() ? root : absl::StrCat(root, "/", controller);
    std::string path = parts[2];
    while (!path.empty() && path != "/") {
      groups.push_back(top + path);
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    groups.push_back(top);
  }
  return groups;
}

size_t UsableCores(const std::string& process, const std::string& root) {
  size_t cores = CoresOfMask(process);
  if (cores == 0) cores = std::max(1U, std::thread::hardware_concurrency());
  for (const std::string& group : ControlGroups(process, root, "cpu")) {
    const double limit = std::ceil(LimitOf(group));
    if (limit < static_cast<double>(cores)) cores = static_cast<size_t>(limit);
  }
  return cores;
}

size_t ThreadsThatFit(size_t cores) { return std::max(kThreadsThatFit, 2 * cores); }

size_t DefaultThreads(size_t cores) { return std::clamp<size_t>(cores / 2, 1, kDefaultThreadsMax); }

}  // namespace duetime::base
