// SPDX-License-Identifier: Apache-2.0
#include "tests/support/subprocess.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

struct Redirects {
  std::string in = "/dev/null";
  std::string out;
  std::string err;
};

// By its system call number, because this glibc's header does not declare it for C++.
int OpenPidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// Never returns in the child. The test has threads, so only async-signal-safe calls may stand
// between fork and exec. Everything else is prepared before.
pid_t Spawn(const std::vector<std::string>& argv, const Redirects& redirects,
            const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
  envp.push_back(nullptr);
  std::vector<std::string> words = argv;
  std::vector<char*> argp;
  for (std::string& word : words) argp.push_back(word.data());
  argp.push_back(nullptr);
  const int in = open(redirects.in.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = open(redirects.out.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int err =
      redirects.err == redirects.out
          ? fcntl(out, F_DUPFD_CLOEXEC, 3)
          : open(redirects.err.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execve(argp[0], argp.data(), envp.data());
    _exit(127);
  }
  close(in);
  close(out);
  close(err);
  return pid;
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& argv, const std::string& output_path,
                       const std::vector<std::pair<std::string, std::string>>& environment) {
  pid_ = Spawn(argv, {.out = output_path, .err = output_path}, environment);
  if (pid_ < 0) {
    ended_ = ExitStatus{};
    return;
  }
  pidfd_ = OpenPidfd(pid_);
}

Subprocess::~Subprocess() {
  Signal(SIGKILL);
  Wait(Millis(60'000));
  if (pidfd_ >= 0) close(pidfd_);
}

void Subprocess::Signal(int signal) {
  if (!ended_.has_value()) kill(pid_, signal);
}

std::optional<ExitStatus> Subprocess::Wait(Millis timeout) {
  if (ended_.has_value()) return ended_;
  pollfd waiting = {.fd = pidfd_, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) return std::nullopt;
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return std::nullopt;
  ended_ = WIFEXITED(status) ? ExitStatus{.code = WEXITSTATUS(status), .signal = 0}
                             : ExitStatus{.code = -1, .signal = WTERMSIG(status)};
  return ended_;
}

RunResult RunProgram(const std::vector<std::string>& argv, const std::string& input, Millis timeout,
                     const std::vector<std::pair<std::string, std::string>>& environment) {
  const TempDirectory directory;
  const Redirects files = {
      .in = directory.Join("in"), .out = directory.Join("out"), .err = directory.Join("err")};
  std::ofstream(files.in, std::ios::binary) << input;
  RunResult result;
  const pid_t pid = Spawn(argv, files, environment);
  if (pid < 0) return result;
  const int pidfd = OpenPidfd(pid);
  pollfd waiting = {.fd = pidfd, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  close(pidfd);
  result.exit = WIFEXITED(status) ? ExitStatus{.code = WEXITSTATUS(status), .signal = 0}
                                  : ExitStatus{.code = -1, .signal = WTERMSIG(status)};
  result.out = ReadWholeFile(files.out);
  result.err = ReadWholeFile(files.err);
  return result;
}

std::string ReadWholeFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t PeakResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  const std::string name = "VmHWM:";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size())) << 10;
  }
  return 0;
}

}  // namespace duetime::test
