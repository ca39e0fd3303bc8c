// SPDX-License-Identifier: Apache-2.0
//
// Caller: makes a unary call with the deadline, the retries and the errors that this library
// promises. Internal to the client library.
#pragma once

#include <chrono>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "client/cpp/client_options.h"
#include "client/cpp/retry_budget.h"

namespace duetime::client {

// What a call does after UNAVAILABLE: repeat, or return because a repeat could do harm or give a
// misleading answer.
enum class OnUnavailable { kRepeat, kReturn };

// The call with such requests, or null.
const google::protobuf::MethodDescriptor* MethodOf(const google::protobuf::Message& request);

// The rule of the protos (call.proto) for the method with such requests. A request that the server
// recognises by a name has one, unless the caller of the library forbids a repeat.
OnUnavailable RuleOf(const google::protobuf::Message& request);

// Makes calls and repeats them by the rules of ClientOptions. Holds no state of a call, but the
// budget of repeats that the calls share. Thread-safe.
class Caller {
 public:
  // Waits between two tries in `channel`, so that gRPC connects meanwhile. `tokens`: of the budget,
  // at the start.
  Caller(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel,
         double tokens = RetryBudget::kTokensMax)
      : options_(options),
        channel_(channel),
        several_(HasSeveralAddresses(options.server.target)),
        budget_(std::chrono::steady_clock::now(), tokens) {}

  // Runs `call`, and repeats it until it succeeds, fails with an error that forbids a repeat, or
  // the deadline passes. The deadline is that of the options plus `extra`. Sets `tries` to the
  // number of tries.
  absl::Status Run(OnUnavailable on_unavailable,
                   const std::function<grpc::Status(grpc::ClientContext*)>& call, int* tries,
                   absl::Duration extra) const;

  // As Run, for one method of a stub. Without `repeat` it makes one try.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      const Request& request, int* tries = nullptr, absl::Duration extra = absl::ZeroDuration(),
      bool repeat = true) const {
    Response response;
    int tries_here = 0;
    const absl::Status status = Run(
        repeat ? RuleOf(request) : OnUnavailable::kReturn,
        [&](grpc::ClientContext* context) { return (stub->*method)(context, request, &response); },
        tries == nullptr ? &tries_here : tries, extra);
    if (!status.ok()) return status;
    return response;
  }

 private:
  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const bool several_;
  mutable RetryBudget budget_;
};

}  // namespace duetime::client
