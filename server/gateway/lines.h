// SPDX-License-Identifier: Apache-2.0
//
// Lines: the connections to a cell for calls that stay open for long.
#pragma once

#include <cstddef>
#include <functional>
#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <list>
#include <memory>
#include <utility>

namespace duetime::gateway {

// A server takes 1,000 open calls on one connection. So streams and waiting calls do not use the
// one for all other calls, and have as many as they need. An unused connection stays for the next
// ones. Thread safety: confined to the worker's thread.
class Lines {
 public:
  explicit Lines(std::function<std::shared_ptr<grpc::Channel>()> open) : open_(std::move(open)) {}

 private:
  friend class Line;
  static constexpr size_t kCallsMax = 500;

  struct Connection {
    explicit Connection(const std::shared_ptr<grpc::Channel>& channel) : stub(channel) {}

    grpc::GenericStub stub;
    size_t calls = 0;
  };

  Connection* Take() {
    for (Connection& connection : connections_) {
      if (connection.calls < kCallsMax) return &connection;
    }
    return &connections_.emplace_back(open_());
  }

  const std::function<std::shared_ptr<grpc::Channel>()> open_;
  std::list<Connection> connections_;
};

// A place for one call, while it lives. `lines` outlives it.
class Line {
 public:
  explicit Line(Lines* lines) : connection_(lines->Take()) { ++connection_->calls; }
  ~Line() { --connection_->calls; }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  grpc::GenericStub& stub() { return connection_->stub; }

 private:
  Lines::Connection* const connection_;
};

}  // namespace duetime::gateway
