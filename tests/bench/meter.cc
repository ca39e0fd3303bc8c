// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/meter.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/statfs.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "tests/support/http_get.h"

namespace duetime::bench {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string KindOfThread(absl::string_view name) {
  const std::pair<const char*, const char*> kinds[] = {
      {"rpc-", "gRPC"},          {"grpc", "gRPC"},        {"default-exec", "gRPC"},
      {"resolver-exec", "gRPC"}, {"dt-engine", "engine"}, {"dt-committer", "committer"},
      {"rocksdb:", "RocksDB"},
  };
  for (const auto& [prefix, kind] : kinds) {
    if (absl::StartsWith(name, prefix)) return kind;
  }
  return "other";
}

// CPU seconds of the threads that run, by kind.
std::map<std::string, double> CpuByThread(int pid) {
  std::map<std::string, double> seconds;
  std::error_code ignored;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, ignored)) {
    double nanos = 0;
    std::ifstream(task.path() / "schedstat") >> nanos;
    seconds[KindOfThread(ReadText(task.path() / "comm"))] += nanos / 1e9;
  }
  return seconds;
}

double Sum(const std::map<std::string, double>& seconds) {
  double sum = 0;
  for (const auto& [kind, of_kind] : seconds) sum += of_kind;
  return sum;
}

// The sum of a metric over its labels.
double Metric(absl::string_view page, absl::string_view name) {
  double sum = 0;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    const char after = line.size() > name.size() ? line[name.size()] : '\0';
    double value = 0;
    const absl::string_view last = line.substr(line.rfind(' ') + 1);
    if ((after == ' ' || after == '{') && absl::SimpleAtod(last, &value)) sum += value;
  }
  return sum;
}

double WrittenBytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/io");
  std::string name;
  double value = 0;
  while (file >> name >> value) {
    if (name == "write_bytes:") return value;
  }
  return 0;
}

}  // namespace

double ServerMicros(const Spent& spent, double operations) {
  return Sum(spent.thread_cpu_s) / operations * 1e6;
}

uint64_t DirectoryBytes(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  }
  return bytes;
}

double ProcessCpuSeconds(int pid) { return Sum(CpuByThread(pid)); }

Meter::Meter(const test::ServerProcess& server) : server_(server) { Take(); }

Spent Meter::Read() const {
  Spent spent;
  spent.thread_cpu_s = CpuByThread(server_.pid());
  spent.client_cpu_s = ProcessCpuSeconds(getpid());
  const std::string page = test::HttpGet(server_.metrics_port(), "/metrics");
  spent.records = Metric(page, "duetime_commit_records_total");
  spent.record_bytes = Metric(page, "duetime_commit_bytes_total");
  spent.syncs = Metric(page, "duetime_commit_syncs_total");
  spent.disk_bytes = WrittenBytes(server_.pid());
  return spent;
}

Spent Meter::Take() {
  const auto now = SteadyClock::now();
  Spent spent = Read();
  const Spent all = spent;
  spent.seconds = std::chrono::duration<double>(now - start_).count();
  spent.client_cpu_s -= before_.client_cpu_s;
  for (auto& [kind, seconds] : spent.thread_cpu_s) seconds -= before_.thread_cpu_s[kind];
  spent.records -= before_.records;
  spent.record_bytes -= before_.record_bytes;
  spent.syncs -= before_.syncs;
  spent.disk_bytes -= before_.disk_bytes;
  before_ = all;
  start_ = SteadyClock::now();
  return spent;
}

void PrintSpentHead() {
  std::printf("%-34s %9s %7s | %6s %6s %9s %7s %6s | %7s | %7s %7s %7s %7s\n", "per operation",
              "each s", "server", "gRPC", "engine", "committer", "RocksDB", "other", "client",
              "records", "bytes", "on disk", "syncs");
}

void PrintSpent(const char* name, const Spent& spent, double operations) {
  const auto us = [&](const char* kind) {
    const auto found = spent.thread_cpu_s.find(kind);
    return found == spent.thread_cpu_s.end() ? 0 : found->second / operations * 1e6;
  };
  std::printf(
      "%-34s %9.0f %7.2f | %6.2f %6.2f %9.2f %7.2f %6.2f | %7.2f | %7.2f %7.0f %7.0f %7.4f\n", name,
      operations / spent.seconds, ServerMicros(spent, operations), us("gRPC"), us("engine"),
      us("committer"), us("RocksDB"), us("other"), spent.client_cpu_s / operations * 1e6,
      spent.records / operations, spent.record_bytes / operations, spent.disk_bytes / operations,
      spent.syncs / operations);
  std::fflush(stdout);
}

void PrintMachine(const std::string& directory) {
  struct statfs disk = {};
  statfs(directory.c_str(), &disk);
  const std::pair<long, const char*> types[] = {{0xEF53, "ext4"},
                                                {0x58465342, "xfs"},
                                                {0x9123683E, "btrfs"},
                                                {0x01021994, "tmpfs (memory)"},
                                                {0x794C7630, "overlay"}};
  const char* type = "another file system";
  for (const auto& [magic, name] : types) {
    if (disk.f_type == magic) type = name;
  }
  const std::string path = directory + "/sync-time";
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  const std::array<char, 4096> block = {};
  std::vector<double> times_ms;
  for (int i = 0; i < 200; ++i) {
    const auto start = SteadyClock::now();
    if (write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
        fdatasync(fd) != 0) {
      std::perror(path.c_str());
      std::exit(1);
    }
    times_ms.push_back(SecondsSince(start) * 1e3);
  }
  close(fd);
  unlink(path.c_str());
  std::printf("%u cores; data on %s; append of 4 KiB and fdatasync: p50 %.3f ms, p99 %.3f ms\n",
              std::thread::hardware_concurrency(), type, Quantile(&times_ms, 0.5),
              Quantile(&times_ms, 0.99));
}

}  // namespace duetime::bench
