// SPDX-License-Identifier: Apache-2.0
//
// Call: one request and its one answer, as handlers see them.
#pragma once

#include <coroutine>
#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "server/access/caller.h"
#include "server/rpc/methods.h"

namespace duetime::rpc {

class CqWorker;

// The values of the client's metadata of this name. The views live as long as `context`.
std::vector<absl::string_view> MetadataOf(const grpc::ServerContext& context,
                                          absl::string_view name);

// A call of its own (UnaryCall), or one of those that travel on a stream. Each call is finished
// exactly once. Thread safety: confined to its worker's thread.
class Call {
 public:
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Answers the call, with `response` or with the error. REQUIRES: it has arrived and is not
  // finished.
  void Finish(const absl::Status& status, const google::protobuf::Message& response) {
    if (status.ok()) {
      Finish(response);
    } else {
      FinishWithError(status);
    }
  }
  virtual void Finish(const google::protobuf::Message& response) = 0;
  virtual void FinishWithError(const absl::Status& status) = 0;

  virtual grpc::ByteBuffer* request() = 0;
  // The connection and the metadata of the call, or of its stream. REQUIRES: the call has arrived.
  virtual const grpc::ServerContext& server_context() const = 0;
  // The values of the client's metadata of this name. The views live as long as the call.
  virtual std::vector<absl::string_view> Metadata(absl::string_view name) const {
    return MetadataOf(server_context(), name);
  }
  // How long the client waits, on any of gRPC's clocks.
  virtual gpr_timespec deadline() const { return server_context().raw_deadline(); }

  const UnaryMethod& method() const { return *method_; }
  CqWorker& worker() { return *worker_; }
  // True once the client has gone. Always false without watch_client.
  bool gone() const { return gone_; }
  // Destroys the coroutine that works on the call, wherever it waits.
  void Abandon() {
    if (task) std::exchange(task, {}).destroy();
  }

  // The coroutine of the call, while it waits. The coroutine resets the handle when it ends.
  std::coroutine_handle<> task;
  // Called when the client has gone. The coroutine sets and resets it.
  absl::AnyInvocable<void()> on_gone;
  // The client. Null if access control is off. The API sets it, or the stream of the call.
  access::CallerPtr caller;
  // The API has checked the client's rights for this request.
  bool authorized = false;
  // The answer leaves that much later, if there is room for it. The API sets it if it refuses the
  // call or a part of it.
  uint64_t delay_ms = 0;
  // What the call is about, for the audit log. The API sets it.
  struct Subject {
    std::string topic;
    std::string object;
  };
  std::optional<Subject> subject;
  // Called once, when the answer is known, with the status. May be empty.
  absl::AnyInvocable<void(const absl::Status&)> on_end;

 protected:
  explicit Call(CqWorker* worker) : worker_(worker) {}
  ~Call() { Abandon(); }

  // Counts the arrival of a call of this method.
  void BeginCall(const UnaryMethod* method);
  // Counts the answer, and logs it if it was slow.
  void EndCall(const absl::Status& status);
  // Forgets the call, so that the object can be used for another one.
  void ResetCall();

  CqWorker* const worker_;
  const UnaryMethod* method_ = nullptr;
  bool gone_ = false;

 private:
  void LogSlow(const absl::Status& status, uint64_t micros, uint64_t now_micros);

  uint64_t arrived_micros_ = 0;
};

}  // namespace duetime::rpc
