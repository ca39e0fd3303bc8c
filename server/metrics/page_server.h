// SPDX-License-Identifier: Apache-2.0
//
// PageServer: one page over HTTP, for readers that may be slow or hostile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/listen_sockets.h"

namespace duetime::metrics {

// Answers GET of one page and of some probes, from one thread that never waits for a single
// connection. Each connection gets one answer and is then closed.
//
// Guarantees: (1) a connection that has not sent its request in time, or does not read its answer
// in time, is closed; (2) beyond `connections_max` the oldest connection is closed, so that slow
// readers do not shut out others; (3) readers that ask at the same moment share one page. Memory:
// at most `connections_max` pages and 8 KiB for each connection.
class PageServer {
 public:
  struct Options {
    // host:port. A name stands for all its addresses; port 0 lets the system choose.
    std::string address = {};
    std::string path = {};
    size_t connections_max = 64;
    // From the connection to the end of its request, and from there to the end of the answer.
    uint64_t request_ms = 5'000;
    uint64_t answer_ms = 10'000;
    // Paths with short answers. `trouble` returns an empty text, and the answer is 200 "ok", or the
    // reason for a 503. The server's thread calls it.
    struct Probe {
      std::string path;
      std::function<std::string()> trouble;
    };
    std::vector<Probe> probes = {};
    // Makes the page. The server's thread calls it.
    std::function<std::string()> render = {};
    // Called for each connection that is closed before its answer, by guarantee 1 or 2. May be
    // empty.
    std::function<void()> on_cut = {};
  };

  // UNAVAILABLE if the server cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(Options options);
  // Closes all connections and ends the thread.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // The port in use.
  uint16_t port() const { return sockets_.front().port; }
  // The bound addresses with that port.
  std::vector<std::string> addresses() const;

 private:
  struct Connection {
    int fd = -1;
    uint64_t deadline_ms = 0;
    std::string request;
    // Null until the request is complete.
    std::shared_ptr<const std::string> answer = nullptr;
    size_t sent = 0;
    bool over = false;
  };

  explicit PageServer(Options options) : options_(std::move(options)) {}
  absl::Status Listen();
  void Run();
  // Waits until there is something to do. Returns false if the server must stop.
  bool Wait();
  void Accept(int listen_fd, uint64_t now_ms);
  // Reads and writes what the connection allows now.
  void Advance(uint64_t now_ms, Connection* connection);
  void Read(uint64_t now_ms, Connection* connection);
  void Write(Connection* connection);
  std::shared_ptr<const std::string> AnswerTo(absl::string_view request);
  void Cut(Connection* connection);

  const Options options_;
  // Constant while the thread runs.
  std::vector<base::ListenSocket> sockets_;
  // A pipe. The thread stops at its end of file.
  int stop_read_fd_ = -1;
  int stop_write_fd_ = -1;
  // Confined to the thread. Oldest first.
  std::deque<Connection> connections_;
  // The page of this round.
  std::shared_ptr<const std::string> page_;
  // No new connections until then, because the process is out of file descriptors.
  uint64_t accept_from_ms_ = 0;
  std::thread thread_;
};

}  // namespace duetime::metrics
