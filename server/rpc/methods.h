// SPDX-License-Identifier: Apache-2.0
//
// The interface between the gRPC shell and the API that it serves: tables of methods, and one
// object of the API for each thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/metrics/rpc_stats.h"

namespace google::protobuf {
class MethodDescriptor;
}

namespace duetime::rpc {

// The methods of the health service: the first names of metrics::RpcStats.
inline constexpr metrics::RpcMethod kHealthCheck{0};
inline constexpr metrics::RpcMethod kHealthWatch{1};

class BidiStream;
class Call;
class CqWorker;

// The API on one thread of the shell. Thread safety: confined to the worker's thread.
class WorkerApp {
 public:
  virtual ~WorkerApp() = default;
  // Called after the tasks of one wake-up.
  virtual void OnTasksDone() = 0;
  // Called when the serving state has changed, or when shutdown has begun.
  virtual void OnServingState() = 0;
  // Called about once a second.
  virtual void OnSweep() = 0;
};

// A method with one request and one response.
struct UnaryMethod {
  metrics::RpcMethod id = {};
  // Null: of the health service.
  const google::protobuf::MethodDescriptor* descriptor = nullptr;
  // Answers the call, now or later.
  void (*run)(WorkerApp& app, Call& call) = nullptr;
  // The number of requests that each worker posts. It covers the calls that can arrive between two
  // turns of the worker's thread. Further calls wait inside gRPC, without a bound.
  int requests_posted = 10;
  // True if the call must learn that its client has gone (Call::gone). The notice costs each
  // call one more event of the queue. Such calls wait by design, so SlowLog leaves them out.
  bool watch_client = false;
};

// A method with a stream of requests and a stream of responses.
struct StreamMethod {
  metrics::RpcMethod id;
  const google::protobuf::MethodDescriptor* descriptor;
  std::unique_ptr<BidiStream> (*make)(WorkerApp& app, CqWorker& worker);
};

// The API. The tables outlive the server. A method of `services` without a row is answered with
// UNIMPLEMENTED.
struct ServedMethods {
  std::vector<std::string> services;
  std::span<const UnaryMethod> unary;
  std::span<const StreamMethod> streams;
  std::function<std::unique_ptr<WorkerApp>(CqWorker&)> make_app;
};

}  // namespace duetime::rpc
