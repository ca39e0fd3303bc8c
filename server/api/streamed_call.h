// SPDX-License-Identifier: Apache-2.0
//
// StreamedCall: one of the calls that travel on a CallStream. ParseFrame: the calls of a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <grpcpp/support/slice.h>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "server/api/request_limits.h"
#include "server/rpc/call.h"
#include "server/rpc/methods.h"

namespace duetime::api {

// The methods whose calls may travel on a stream, by the field of their request in
// v1::StreamedCall.
class StreamedMethods {
 public:
  // Of all methods of a server, by the types of their requests. REQUIRES: there is a method for
  // each, and its answer has the same field in v1::StreamedAnswer.
  explicit StreamedMethods(std::span<const rpc::UnaryMethod> all);

  // Null: there is none.
  const rpc::UnaryMethod* Find(int field) const {
    const auto index = static_cast<size_t>(field);
    return index < by_field_.size() ? by_field_[index] : nullptr;
  }

 private:
  std::vector<const rpc::UnaryMethod*> by_field_;
};

// A call of a frame. The views point into the frame.
struct ParsedCall {
  static constexpr uint64_t kNoTimeout = UINT64_MAX;

  int64_t number = 0;
  int field = 0;
  const rpc::UnaryMethod* method = nullptr;
  absl::string_view request;
  uint64_t timeout_ms = kNoTimeout;
  absl::string_view traceparent;
  absl::string_view tracestate;
};

// Finds the calls of a frame, which is a v1::CallStreamRequest, and checks no request. The cost
// does not depend on the bytes of the requests. MALFORMED_REQUEST, BATCH_TOO_LARGE.
absl::Status ParseFrame(absl::string_view frame, const StreamedMethods& methods,
                        const RequestLimits& limits, std::vector<ParsedCall>* calls);

// The object is used again for later calls. Thread safety: confined to the worker's thread.
class StreamedCall final : public rpc::Call {
 public:
  // The stream of the call.
  class Owner {
   public:
    virtual const grpc::ServerContext& context() const = 0;
    // The call is answered by this message, in this field of v1::StreamedAnswer.
    virtual void OnAnswer(StreamedCall* call, int field,
                          const google::protobuf::Message& answer) = 0;

   protected:
    ~Owner() = default;
  };

  StreamedCall(rpc::CqWorker* worker, Owner* owner) : rpc::Call(worker), owner_(owner) {}
  ~StreamedCall() { Abandon(); }
  StreamedCall(const StreamedCall&) = delete;
  StreamedCall& operator=(const StreamedCall&) = delete;

  // The call arrives. `frame` holds the bytes of `parsed`.
  void Begin(const ParsedCall& parsed, const grpc::Slice& frame, access::CallerPtr client);
  // Forgets the call. REQUIRES: it is finished.
  void Reset();

  int64_t number() const { return number_; }
  size_t bytes() const { return bytes_; }
  bool waiting() const { return waiting_; }

  using Call::Finish;
  void Finish(const google::protobuf::Message& response) override;
  void FinishWithError(const absl::Status& status) override;
  // Empty after the handler has returned or waits.
  grpc::ByteBuffer* request() override { return &request_; }
  const grpc::ServerContext& server_context() const override { return owner_->context(); }
  std::vector<absl::string_view> Metadata(absl::string_view name) const override;
  // Counted from the time of this call.
  gpr_timespec deadline() const override;

 private:
  Owner* const owner_;
  int64_t number_ = 0;
  int field_ = 0;
  size_t bytes_ = 0;
  bool waiting_ = false;
  uint64_t timeout_ms_ = ParsedCall::kNoTimeout;
  std::string traceparent_;
  std::string tracestate_;
  grpc::ByteBuffer request_;
};

}  // namespace duetime::api
