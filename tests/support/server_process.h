// SPDX-License-Identifier: Apache-2.0
//
// ServerProcess: the built daemon, run by a test on a data directory of its own.
#pragma once

#include <filesystem>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/channel.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {

// Starts, stops, kills and restarts the daemon. It listens on a Unix socket and, if asked, on
// loopback ports chosen by the system. The log of all runs is kept.
//
// Each wait is for an event, with a deadline. Thread safety: one thread at a time.
class ServerProcess {
 public:
  struct Options {
    // Path of the program. The build of the tests sets it.
    std::string daemon;
    // More flags, for example "--shards=3".
    std::vector<std::string> flags;
    // Also listen on a loopback port; see tcp_target().
    bool tcp = false;
    // Serve metrics on a loopback port; see metrics_port().
    bool metrics = false;
    // Where the data directory is. On a disk a sync takes real time.
    TempDirectory::Where where = TempDirectory::Where::kMemory;
    // Listen on a Unix socket. Without it, health checks use the loopback port, with `tls`.
    bool unix_socket = true;
    client::ServerAddress tls;
    // Added to the environment of the test.
    std::vector<std::pair<std::string, std::string>> environment{};
  };

  // With DUETIME_TEST_CELLS=N in the environment of the test, the daemon is a gateway, and N
  // single servers behind it have the flags and the data.
  explicit ServerProcess(Options options);
  // Kills the daemon.
  ~ServerProcess() = default;

  // Starts the daemon and does not wait. The daemon creates a missing store.
  void Launch();
  // Starts the daemon and waits until it is SERVING. Returns false, with a message in error(), on a
  // timeout or if it exits.
  bool Start(Millis timeout = Millis(30'000));
  // Sends SIGTERM and waits for the end. Returns nullopt on a timeout.
  std::optional<ExitStatus> Stop(Millis timeout = Millis(30'000));
  void Terminate() { process_->Signal(15); }
  std::optional<ExitStatus> Wait(Millis timeout) { return process_->Wait(timeout); }
  // Sends SIGKILL and waits for the end.
  void Kill();
  bool running() { return process_ != nullptr && process_->running(); }
  pid_t pid() const { return process_->pid(); }

  const std::string& error() const { return error_; }
  std::vector<std::string>& flags() { return options_.flags; }
  std::vector<std::pair<std::string, std::string>>& environment() { return options_.environment; }
  // The command line for a run on this data directory.
  std::vector<std::string> CommandLine() const;
  std::string data_dir() const { return directory_.Join("data"); }
  const TempDirectory& directory() const { return directory_; }
  // "unix:..."
  std::string target() const { return "unix:" + directory_.Join("s"); }
  // "127.0.0.1:port". Known once the daemon serves.
  std::string tcp_target() const { return tcp_target_; }
  int metrics_port() const { return metrics_port_; }
  // The daemon's log so far; empty if a test has put a pipe in its place.
  std::string log() const;
  std::string OwnLog() const {
    const std::string path = directory_.Join("log");
    return std::filesystem::is_fifo(path) ? "" : ReadWholeFile(path);
  }

  // A new connection to the Unix socket.
  std::shared_ptr<grpc::Channel> Connect() const;
  bool IsServing(grpc::Channel* channel) const;

 private:
  void MakeCells();
  void ReadPorts();

  Options options_;
  TempDirectory directory_;
  // Of a gateway.
  std::vector<std::unique_ptr<ServerProcess>> cells_;
  std::unique_ptr<Subprocess> process_;
  std::string error_;
  std::string tcp_target_;
  int metrics_port_ = 0;
  // Offset in the log at which this run begins.
  size_t log_start_ = 0;
};

}  // namespace duetime::test
