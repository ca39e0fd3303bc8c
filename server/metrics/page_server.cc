// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/page_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/base/check.h"
#include "server/base/clock.h"

namespace duetime::metrics {
namespace {

constexpr size_t kRequestBytesMax = 8 << 10;
constexpr int kListenBacklog = 128;
// The pause when the process is out of file descriptors.
constexpr uint64_t kAcceptPauseMs = 100;

uint64_t NowMs() { return base::ReadMicros() / 1'000; }

std::string Answer(const char* status, absl::string_view body) {
  return absl::StrCat("HTTP/1.1 ", status,
                      "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"
                      "\r\nContent-Length: ",
                      body.size(), "\r\nConnection: close\r\n\r\n", body);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(Options options) {
  std::unique_ptr<PageServer> server(new PageServer(std::move(options)));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

absl::Status PageServer::Listen() {
  const std::string& address = options_.address;
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > UINT16_MAX) {
    return absl::UnavailableError("no port");
  }
  const std::string host(absl::StripPrefix(absl::StripSuffix(address.substr(0, colon), "]"), "["));
  auto opened = base::ListenOn(host, static_cast<uint16_t>(port), kListenBacklog);
  if (!opened.ok()) return opened.status();
  sockets_ = *std::move(opened);
  std::array<int, 2> fds{-1, -1};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("pipe: ", std::system_category().message(errno)));
  }
  stop_read_fd_ = fds[0];
  stop_write_fd_ = fds[1];
  return absl::OkStatus();
}

PageServer::~PageServer() {
  if (stop_write_fd_ >= 0) close(stop_write_fd_);
  if (thread_.joinable()) thread_.join();
  for (const Connection& connection : connections_) close(connection.fd);
  if (stop_read_fd_ >= 0) close(stop_read_fd_);
  for (const base::ListenSocket& socket : sockets_) close(socket.fd);
}

std::vector<std::string> PageServer::addresses() const {
  std::vector<std::string> addresses;
  for (const base::ListenSocket& socket : sockets_) addresses.push_back(socket.address);
  return addresses;
}

void PageServer::Run() {
  pthread_setname_np(pthread_self(), "dt-metrics");
  while (Wait()) {
  }
}

bool PageServer::Wait() {
  const uint64_t before_ms = NowMs();
  const bool accepting = before_ms >= accept_from_ms_;
  std::vector<pollfd> polled;
  polled.push_back({.fd = stop_read_fd_, .events = POLLIN, .revents = 0});
  for (const base::ListenSocket& socket : sockets_) {
    polled.push_back({.fd = accepting ? socket.fd : -1, .events = POLLIN, .revents = 0});
  }
  uint64_t wake_ms = accepting ? UINT64_MAX : accept_from_ms_;
  for (const Connection& connection : connections_) {
    const auto events = static_cast<int16_t>(connection.answer == nullptr ? POLLIN : POLLOUT);
    polled.push_back({.fd = connection.fd, .events = events, .revents = 0});
    wake_ms = std::min(wake_ms, connection.deadline_ms);
  }
  const int timeout_ms =
      wake_ms == UINT64_MAX ? -1 : static_cast<int>(std::max(wake_ms, before_ms) - before_ms);
  if (poll(polled.data(), polled.size(), timeout_ms) < 0) {
    DT_CHECK_EQ(errno, EINTR);
    return true;
  }
  if (polled[0].revents != 0) return false;
  const uint64_t now_ms = NowMs();
  page_ = nullptr;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (polled[1 + sockets_.size() + i].revents != 0) Advance(now_ms, &connections_[i]);
    if (!connections_[i].over && now_ms >= connections_[i].deadline_ms) Cut(&connections_[i]);
  }
  std::erase_if(connections_, [](const Connection& connection) {
    if (connection.over) close(connection.fd);
    return connection.over;
  });
  for (size_t i = 0; i < sockets_.size(); ++i) {
    if (polled[1 + i].revents != 0) Accept(sockets_[i].fd, now_ms);
  }
  return true;
}

void PageServer::Accept(int listen_fd, uint64_t now_ms) {
  for (size_t accepted = 0; accepted < options_.connections_max; ++accepted) {
    const int fd = accept4(listen_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        accept_from_ms_ = now_ms + kAcceptPauseMs;
      }
      return;
    }
    if (connections_.size() == options_.connections_max) {
      Cut(&connections_.front());
      close(connections_.front().fd);
      connections_.pop_front();
    }
    connections_.push_back({.fd = fd, .deadline_ms = now_ms + options_.request_ms, .request = ""});
  }
}

void PageServer::Cut(Connection* connection) {
  connection->over = true;
  if (options_.on_cut) options_.on_cut();
}

void PageServer::Advance(uint64_t now_ms, Connection* connection) {
  if (connection->answer == nullptr) Read(now_ms, connection);
  if (connection->answer != nullptr) Write(connection);
}

void PageServer::Read(uint64_t now_ms, Connection* connection) {
  std::array<char, kRequestBytesMax> buffer{};
  const ssize_t size = recv(connection->fd, buffer.data(), buffer.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    connection->over = true;
    return;
  }
  std::string& request = connection->request;
  request.append(buffer.data(), static_cast<size_t>(size));
  if (absl::StrContains(request, "\r\n\r\n")) {
    connection->answer = AnswerTo(request);
  } else if (request.size() >= kRequestBytesMax) {
    connection->answer = std::make_shared<const std::string>(
        Answer("431 Request Header Fields Too Large", "the request is too long\n"));
  } else {
    return;
  }
  connection->deadline_ms = now_ms + options_.answer_ms;
}

std::shared_ptr<const std::string> PageServer::AnswerTo(absl::string_view request) {
  if (!absl::ConsumePrefix(&request, "GET ")) {
    return std::make_shared<const std::string>(
        Answer("405 Method Not Allowed", "only GET is served here\n"));
  }
  const absl::string_view path = request.substr(0, request.find_first_of(" ?\r"));
  std::string paths = options_.path;
  for (const Options::Probe& probe : options_.probes) {
    absl::StrAppend(&paths, " ", probe.path);
    if (path != probe.path) continue;
    const std::string trouble = probe.trouble();
    return std::make_shared<const std::string>(
        trouble.empty() ? Answer("200 OK", "ok\n")
                        : Answer("503 Service Unavailable", absl::StrCat(trouble, "\n")));
  }
  if (path != options_.path) {
    return std::make_shared<const std::string>(
        Answer("404 Not Found", absl::StrCat("served here: ", paths, "\n")));
  }
  if (page_ == nullptr) {
    page_ = std::make_shared<const std::string>(Answer("200 OK", options_.render()));
  }
  return page_;
}

void PageServer::Write(Connection* connection) {
  const absl::string_view rest = absl::string_view(*connection->answer).substr(connection->sent);
  const ssize_t size = send(connection->fd, rest.data(), rest.size(), MSG_NOSIGNAL);
  if (size < 0) {
    connection->over = errno != EAGAIN && errno != EINTR;
    return;
  }
  connection->sent += static_cast<size_t>(size);
  connection->over = connection->sent == connection->answer->size();
}

}  // namespace duetime::metrics
