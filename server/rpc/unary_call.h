// SPDX-License-Identifier: Apache-2.0
//
// UnaryCall: one call with one answer, from the moment it is asked for to the moment its object is
// used for the next.
#pragma once

#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/delivery/commands.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/completion_tag.h"
#include "storage/types.h"

namespace duetime::rpc {

class CqWorker;

// What the answer to a ScheduleRequest needs once the shard has replied.
struct ScheduledItem {
  absl::string_view topic;  // points into the registry
  uint64_t deliver_ms = 0;
  size_t payload_bytes = 0;
  absl::Status error;  // not OK: refused, the rest means nothing
};

// Model: Request() posts it to gRPC; gRPC completes the tag when a call has come; the worker's
// handlers read request() and, now or later, Finish() it; gRPC completes the tag again and the
// object goes back to the worker's free list. Each call is finished exactly once.
// Thread safety: confined to its worker's thread.
class UnaryCall final : public CompletionTag {
 public:
  // `tag` names this object in commands and effects.
  UnaryCall(CqWorker* worker, delivery::CallTag tag) : worker_(worker), tag_(tag) {}
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Asks gRPC for the next call of `method`. REQUIRES: fresh, or recycled; `method` is unary.
  void Request(metrics::RpcMethod method);

  void Complete(bool ok) override;

  // Answers the call. REQUIRES: it has arrived and is not finished.
  void Finish(const google::protobuf::Message& response);
  void FinishWithError(const absl::Status& status);

  metrics::RpcMethod method() const { return method_; }
  delivery::CallTag tag() const { return tag_; }
  grpc::ByteBuffer* request() { return &buffer_; }
  // True between arrival and Finish.
  bool waiting() const { return state_ == State::kWaiting; }

  // For the handlers, between the command and its reply.
  std::vector<ScheduledItem> items;
  std::vector<storage::TopicId> new_topics;
  storage::MessageId id;
  uint64_t accept_ms = 0;
  bool full_view = false;

 private:
  enum class State : uint8_t { kIdle, kRequested, kWaiting, kFinishing };

  void Recycle();
  void CountEnd(int code);

  CqWorker* const worker_;
  const delivery::CallTag tag_;
  State state_ = State::kIdle;
  metrics::RpcMethod method_{};
  uint64_t arrived_micros_ = 0;
  // gRPC wants a fresh context and writer for each call; the memory is this object's.
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> writer_;
  // First the request, then the response.
  grpc::ByteBuffer buffer_;
};

}  // namespace duetime::rpc
