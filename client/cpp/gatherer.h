// SPDX-License-Identifier: Apache-2.0
//
// Gatherer: makes the calls Schedule, Cancel, Reschedule and Get of all threads on one stream.
// Internal to the client library.
#pragma once

#include <chrono>
#include <deque>
#include <grpcpp/grpcpp.h>
#include <memory>

#include "absl/base/thread_annotations.h"

#include "client/cpp/client_options.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "server/base/mutex.h"

namespace duetime::client {

// Stands in place of the stub of Messages: the methods have the stub's arguments and its errors.
// Many calls that travel together cost both sides less than calls of their own.
//
// Model: a call waits until the stream has written the frame before, then travels in the next one.
// A lone call leaves at once, and frames grow with the load, without a timer. One stream is open at
// a time. A call opens it, if the channel is connected; otherwise the call is a call of its own,
// which connects the channel.
//
// Calls of their own are also: each call with ClientOptions::separate_calls; a request over 64 KiB;
// all calls for 10 s after the server refused the stream, because the server is older or has too
// many streams.
//
// When a stream ends, the calls that the server has not taken go on the next stream. The other
// calls without an answer get the error of the stream. Their outcome is unknown.
//
// Memory: the waiting calls, and one frame of 1 MiB and one call. Thread-safe.
class Gatherer {
 public:
  Gatherer(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel);
  // Breaks the stream, and waits for its end. REQUIRES: all calls have returned.
  ~Gatherer();
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  // These block until the answer or the context's deadline. Nothing else of the context counts.
  grpc::Status Schedule(grpc::ClientContext* context, const v1::ScheduleRequest& request,
                        v1::ScheduleResponse* response);
  grpc::Status Cancel(grpc::ClientContext* context, const v1::CancelRequest& request,
                      v1::CancelResponse* response);
  grpc::Status Reschedule(grpc::ClientContext* context, const v1::RescheduleRequest& request,
                          v1::RescheduleResponse* response);
  grpc::Status Get(grpc::ClientContext* context, const v1::GetRequest& request,
                   v1::GetResponse* response);

  // The calls that wait for a frame.
  size_t waiting() const {
    const base::MutexLock lock(&mutex_);
    return waiting_.size();
  }

 private:
  class Stream;
  struct PendingCall;

  // `Method` says where the request and the answer are in the messages of the stream.
  template <typename Method, typename Request, typename Response>
  grpc::Status Call(const Method& method, grpc::ClientContext* context, const Request& request,
                    Response* response);

  // Makes the call on the stream, and waits for its outcome. Returns false if it must be a call of
  // its own.
  bool Run(PendingCall* call);
  // Lets the call wait for a frame. Returns false as Run.
  bool Add(PendingCall* call);
  // Removes a call whose caller waits no more.
  void Forget(PendingCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Moves waiting calls into the stream's frame. Returns true if the caller must then send it,
  // without the mutex.
  bool FillFrame() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAnswers(v1::CallStreamResponse* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Decides what becomes of the stream's calls, and deletes the stream.
  void OnEnd(const grpc::Status& status);

  const bool separate_calls_;
  // Calls wait until a member of a cell leads.
  const bool several_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Messages::Stub> stub_;

  mutable base::Mutex mutex_;
  base::CondVar stream_ended_;
  // Calls of threads that wait in Run, in order.
  std::deque<PendingCall*> waiting_ ABSL_GUARDED_BY(mutex_);
  // Null: none is open.
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  // No stream is opened before.
  std::chrono::steady_clock::time_point separate_until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::client
