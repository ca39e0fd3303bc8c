// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/members.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace duetime::cells {
namespace {

constexpr test::Millis kStopTimeout(30'000);
constexpr size_t kLogShown = 4'000;
constexpr char kGatewayName[] = "gateway";

}  // namespace

Members::Members(Options options) : options_(std::move(options)) {}

std::string Members::DataDirectory(int member) const { return directory_.Join(MemberHost(member)); }
std::string Members::LogOf(const std::string& name) const {
  return options_.out + "/" + name + ".log";
}
std::string Members::Log(int member) const { return LogOf(MemberHost(member)); }

std::vector<std::string> Members::logs() const {
  std::vector<std::string> logs;
  logs.reserve(kMembers);
  for (int member = 0; member < kMembers; ++member) logs.push_back(Log(member));
  return logs;
}

void Members::Start(int member) {
  const std::string data = DataDirectory(member);
  std::vector<std::string> command = {
      "/usr/bin/env", "ip", "netns", "exec", MemberHost(member), options_.daemon,
      "--data-dir=" + data, "--listen=" + MemberAddress(member), "--insecure-nonloopback",
      "--metrics-listen=", "--disk-free-min-bytes=0", "--shards=" + std::to_string(options_.shards),
      "--cell-brokers=" + Rig::brokers(), "--cell-topic=" + options_.topic,
      "--cell-member=" + MemberHost(member), "--cell-address=" + MemberAddress(member),
      "--cell-log-keep-ms=" + std::to_string(options_.log_keep_ms),
      // Subscribers of the test notice a silent member by it.
      "--heartbeat-ms=500", "--drain-grace-ms=300"};
  if (!std::filesystem::exists(data)) command.emplace_back("--init");
  starts_[static_cast<size_t>(member)] = {.log = test::ReadWholeFile(Log(member)).size()};
  auto& process = processes_[static_cast<size_t>(member)];
  process = std::make_unique<test::Subprocess>(command, Log(member));
}

void Members::StartGateway() {
  gateway_ = std::make_unique<test::Subprocess>(
      std::vector<std::string>{
          options_.daemon, std::string("--listen=") + kGatewayAddress, "--insecure-nonloopback",
          "--metrics-listen=",
          std::string("--gateway-cells=") + kCellName + " 0-16383 " + CellTarget(),
          "--heartbeat-ms=500"},
      LogOf(kGatewayName));
}

void Members::Kill(int member) {
  auto& process = processes_[static_cast<size_t>(member)];
  process->Signal(SIGKILL);
  process->Wait(kStopTimeout);
}

bool Members::Terminate(int member) {
  auto& process = processes_[static_cast<size_t>(member)];
  process->Signal(SIGTERM);
  const auto exit = process->Wait(kStopTimeout);
  if (exit.has_value() && exit->code == 0) return true;
  std::printf("%s did not stop: exit code %d, signal %d\n", MemberHost(member).c_str(),
              exit.value_or(test::ExitStatus{}).code, exit.value_or(test::ExitStatus{}).signal);
  return false;
}

void Members::Pause(int member) { processes_[static_cast<size_t>(member)]->Signal(SIGSTOP); }
void Members::Resume(int member) { processes_[static_cast<size_t>(member)]->Signal(SIGCONT); }

void Members::Wipe(int member) {
  ++wipes_;
  std::error_code ignored;
  std::filesystem::remove_all(DataDirectory(member), ignored);
}

bool Members::NamesLeader(int member) {
  LastStart& start = starts_[static_cast<size_t>(member)];
  if (!start.names_leader) {
    start.names_leader =
        test::ReadWholeFile(Log(member)).find(" the leader is ", start.log) != std::string::npos;
  }
  return start.names_leader;
}

int64_t Members::fetches() const {
  int64_t count = 0;
  for (const std::string& file : logs()) {
    const std::string log = test::ReadWholeFile(file);
    for (size_t at = 0; (at = log.find(" fetches a checkpoint", at)) != std::string::npos; ++at) {
      ++count;
    }
  }
  return count;
}

bool Members::Alive(int member) {
  return Runs(processes_[static_cast<size_t>(member)].get(), MemberHost(member));
}

bool Members::GatewayAlive() { return gateway_ == nullptr || Runs(gateway_.get(), kGatewayName); }

bool Members::Runs(test::Subprocess* process, const std::string& name) const {
  if (process->running()) return true;
  const std::string log = test::ReadWholeFile(LogOf(name));
  std::printf("%s has ended by itself:\n%s\n", name.c_str(),
              log.substr(log.size() - std::min(log.size(), kLogShown)).c_str());
  return false;
}

}  // namespace duetime::cells
