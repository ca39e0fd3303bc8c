// SPDX-License-Identifier: Apache-2.0
//
// CellCall: one unary call of a gateway to a cell.
#pragma once

#include <coroutine>
#include <cstdint>
#include <grpcpp/server_context.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/rpc/call.h"

namespace grpc {
class ClientContext;
}

namespace duetime::gateway {

class GatewayWorker;

// Whether a method changes nothing, by its request or response.
bool ReadsOnly(const google::protobuf::Descriptor& type);

// What a client's call passes on to its calls of cells. Immutable.
struct Passed {
  // The client's token and trace context: authorization, traceparent, tracestate.
  std::vector<std::pair<std::string, std::string>> metadata;
  // When the calls end, on the steady clock.
  uint64_t until_mono_ms = 0;
  // For calls that wait for messages: they have one attempt, fail at once if the cell is away, and
  // use a connection for such calls.
  bool once = false;
  // The call may be made again when its outcome is not known: the cell recognises the repeat.
  bool repeats = false;

  void AddTo(grpc::ClientContext* context) const;
};

// A call to a cell ends before the client's own, so that there is time to name a cell that did not
// answer. `extra_ms`: how much longer than gateway_wait_ms it may take.
Passed PassedOf(const GatewayWorker& worker, const rpc::Call& client, uint64_t extra_ms = 0);
Passed PassedOf(const GatewayWorker& worker, const grpc::ServerContext& stream);
// For the gateway's own calls.
Passed OwnPassed(const GatewayWorker& worker);

// Calls the method of the request's type (ScheduleRequest: Schedule) at the leader of the cell. If
// another member becomes the leader, asks that one; this is safe, because NOT_LEADER means that
// nothing was changed. With Passed::repeats, also asks again after any other UNAVAILABLE. A call
// that only reads does not wait for a cell that is away. Ids in the answer get the name of the
// cell; ids in the request must be the cell's own. The destructor cancels the call. Thread safety:
// confined to the worker's thread.
class CellCall {
 public:
  // Begins the call. `response` outlives this object; it is set before the end is told.
  CellCall(GatewayWorker* worker, size_t cell, Passed passed,
           const google::protobuf::Message& request, google::protobuf::Message* response);
  ~CellCall();
  CellCall(const CellCall&) = delete;
  CellCall& operator=(const CellCall&) = delete;

  // REQUIRES: the call has ended.
  const absl::Status& status() const { return status_; }
  size_t cell() const { return cell_; }

  // Called once, at the end, if set by then.
  absl::AnyInvocable<void()> on_end;

  // co_await gives status().
  bool await_ready() const { return ended_; }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  absl::Status await_resume() const { return status_; }

 private:
  class Attempts;

  void End(absl::Status status);

  const size_t cell_;
  bool ended_ = false;
  absl::Status status_;
  std::coroutine_handle<> waiting_;
  // Owns itself. Null once it has ended.
  Attempts* attempts_ = nullptr;
};

}  // namespace duetime::gateway
