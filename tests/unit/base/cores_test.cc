// SPDX-License-Identifier: Apache-2.0
#include "server/base/cores.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

#include "tests/support/temp_directory.h"

namespace duetime::base {
namespace {

constexpr char kEveryCore[] = "ffffffff,ffffffff,ffffffff,ffffffff";

struct Case {
  const char* name;
  const char* mask;
  const char* groups;
  std::map<std::string, std::string> files;
  size_t cores;
};
const Case kCases[] = {
    {"a whole machine", kEveryCore, "0::/\n", {}, 128},
    {"an affinity mask", "00000000,0000f00f", "0::/\n", {}, 8},
    {"a container sees its own group as the root",
     kEveryCore,
     "0::/\n",
     {{"cpu.max", "100000 100000"}},
     1},
    {"a part of a core", kEveryCore, "0::/\n", {{"cpu.max", "20000 100000"}}, 1},
    {"one core and a part", kEveryCore, "0::/\n", {{"cpu.max", "150000 100000"}}, 2},
    {"no limit", "ff", "0::/a\n", {{"cpu.max", "max 100000"}, {"a/cpu.max", "max 100000"}}, 8},
    {"a service of systemd",
     kEveryCore,
     "0::/system.slice/duetimed.service\n",
     {{"system.slice/cpu.max", "max 100000"},
      {"system.slice/duetimed.service/cpu.max", "400000 100000"}},
     4},
    {"a group above",
     kEveryCore,
     "0::/a/b/c\n",
     {{"a/cpu.max", "300000 100000"}, {"a/b/c/cpu.max", "800000 100000"}},
     3},
    {"another group", kEveryCore, "0::/a\n", {{"b/cpu.max", "100000 100000"}}, 128},
    {"a mask below the limit", "3", "0::/\n", {{"cpu.max", "400000 100000"}}, 2},
    {"version 1",
     kEveryCore,
     "4:memory:/m\n3:cpu,cpuacct:/docker/x\n",
     {{"cpu/docker/x/cpu.cfs_quota_us", "250000\n"},
      {"cpu/docker/x/cpu.cfs_period_us", "50000\n"},
      {"cpu/cpu.cfs_quota_us", "-1\n"},
      {"cpu/cpu.cfs_period_us", "100000\n"},
      {"memory/m/cpu.max", "100000 100000"}},
     5},
    {"a container of version 1 sees its own group as the root",
     kEveryCore,
     "3:cpu:/docker/x\n0::/\n",
     {{"cpu/cpu.cfs_quota_us", "200000"}, {"cpu/cpu.cfs_period_us", "100000"}},
     2},
    {"no sense", "f", "x\n0::/\n", {{"cpu.max", "0 0"}}, 4},
};

TEST(CoresTest, TheLeastLimitOfTheProcessCounts) {
  for (const Case& one : kCases) {
    const test::TempDirectory directory;
    const auto write = [&](const std::string& path, const std::string& text) {
      const std::filesystem::path file = directory.Join(path);
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text;
    };
    write("proc/status", std::string("Name:\tx\nCpus_allowed:\t") + one.mask + "\n");
    write("proc/cgroup", one.groups);
    for (const auto& [path, text] : one.files) write("groups/" + path, text);
    EXPECT_EQ(UsableCores(directory.Join("proc"), directory.Join("groups")), one.cores) << one.name;
  }
}

TEST(CoresTest, ThisProcessHasCores) {
  const test::TempDirectory empty;
  EXPECT_GE(UsableCores(), 1u);
  EXPECT_GE(UsableCores(empty.path(), empty.path()), UsableCores());
}

TEST(CoresTest, HalfTheCoresAreTheDefault) {
  const std::map<size_t, size_t> threads = {{1, 1}, {2, 1}, {3, 1}, {4, 2}, {16, 8}, {128, 8}};
  for (const auto& [cores, expected] : threads) EXPECT_EQ(DefaultThreads(cores), expected) << cores;
}

}  // namespace
}  // namespace duetime::base
