// SPDX-License-Identifier: Apache-2.0
#include "client/cli/dev/child_server.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "client/cli/connection/connection.h"

namespace duetime::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr size_t kLinesMax = 20;
constexpr int kEndedBySignal = 128;
// As of a shell that finds no program.
constexpr int kNotRun = 127;

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot start the server: ", what, ": ",
                                             std::generic_category().message(errno)));
}

// Runs in the child, from fork to exec. Calls only functions that a child of a program with threads
// may call.
[[noreturn]] void Run(char* const* words, int log, pid_t parent) {
  // The parent may have ended before the call.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(kNotRun);
  // Ctrl-C at the terminal is for the parent, which ends the child in order.
  setpgid(0, 0);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(words[0], words);
  _exit(kNotRun);
}

}  // namespace

std::string FindProgram(const std::string& name) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  // This program is build/PRESET/client/cli/duetime of a source tree.
  std::vector<fs::path> folders = {here, (here / "../../server").lexically_normal()};
  const std::string path = EnvironmentOf("PATH");
  for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    folders.emplace_back(std::string(folder));
  }
  for (const fs::path& folder : folders) {
    const fs::path program = folder / name;
    if (fs::is_regular_file(program, error) && access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ChildServer>> ChildServer::Start(const std::string& program,
                                                                const Names& flags) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return Failed("pipe");
  Names words = {program};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Run(argv.data(), ends[1], parent);
  close(ends[1]);
  if (pid < 0) {
    absl::Status status = Failed("fork");
    close(ends[0]);
    return status;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ChildServer>(new ChildServer(pid, ends[0]));
}

ChildServer::~ChildServer() {
  if (!exit_code_.has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(log_);
}

std::optional<int> ChildServer::Look() {
  if (exit_code_.has_value()) return exit_code_;
  // Before the log is read, so that its last lines are there when the child has ended.
  int status = 0;
  const bool ended = waitpid(pid_, &status, WNOHANG) == pid_;
  char buffer[4096];
  for (ssize_t size = 0; (size = read(log_, buffer, sizeof(buffer))) > 0;) {
    line_.append(buffer, static_cast<size_t>(size));
    for (size_t end = 0; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1)) {
      lines_.push_back(line_.substr(0, end));
      if (lines_.size() > kLinesMax) lines_.pop_front();
      if (absl::StrContains(lines_.back(), " ready: ")) ready_ = lines_.back();
    }
  }
  if (ended) {
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kEndedBySignal + WTERMSIG(status);
  }
  return exit_code_;
}

std::optional<int> ChildServer::WaitUntilReady(Signals* signals) {
  while (!Look().has_value() && ready_.empty()) {
    if (signals->Wait(kPause) != 0) return Stop(signals);
  }
  return exit_code_;
}

int ChildServer::Stop(Signals* signals) {
  if (!exit_code_.has_value()) kill(pid_, SIGTERM);
  while (!Look().has_value()) {
    if (signals->Wait(kPause) != 0) kill(pid_, SIGKILL);
  }
  return *exit_code_;
}

std::string ChildServer::ReadyValue(absl::string_view name) const {
  for (absl::string_view word : absl::StrSplit(ready_, ' ')) {
    if (absl::ConsumePrefix(&word, name) && absl::ConsumePrefix(&word, "=")) {
      return std::string(word);
    }
  }
  return "";
}

std::string ChildServer::LastLines() const {
  std::string text;
  for (const std::string& line : lines_) absl::StrAppend(&text, "  ", line, "\n");
  return text;
}

}  // namespace duetime::cli
