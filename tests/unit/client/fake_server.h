// SPDX-License-Identifier: Apache-2.0
//
// FakeServer: the public API on a socket, with scripted answers.
#pragma once

#include <functional>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/message.h"

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "server/base/mutex.h"

namespace duetime::client {

using ServerStream = grpc::ServerReaderWriter<v1::SubscribeResponse, v1::SubscribeRequest>;
using ScheduleServerStream =
    grpc::ServerReaderWriter<v1::ScheduleStreamResponse, v1::ScheduleStreamRequest>;
using CallServerStream = grpc::ServerReaderWriter<v1::CallStreamResponse, v1::CallStreamRequest>;

// A server in this process, on a Unix socket in its own directory, whose answers the test scripts.
// A call without a scripted answer is UNIMPLEMENTED. gRPC's threads call the functions. REQUIRES:
// the public members are set before Start.
class FakeServer final : private v1::Messages::Service, private v1::Admin::Service {
 public:
  using AnyAnswer =
      std::function<grpc::Status(const google::protobuf::Message&, google::protobuf::Message*)>;

  FakeServer();
  // Stops the server.
  ~FakeServer() override;

  // Answers the unary call with this request type by `answer(request, response)`.
  template <typename Request, typename Response>
  void On(std::function<grpc::Status(const Request&, Response*)> answer) {
    OnType(Request::descriptor(),
           [answer = std::move(answer)](const google::protobuf::Message& request,
                                        google::protobuf::Message* response) {
             return answer(static_cast<const Request&>(request), static_cast<Response*>(response));
           });
  }
  // As On, by the type of the request.
  void OnType(const google::protobuf::Descriptor* request, AnyAnswer answer) {
    const base::MutexLock lock(&mutex_);
    answers_[request->full_name()] = std::move(answer);
  }
  // Answers the call with this response each time.
  template <typename Request, typename Response>
  void Answer(Response fixed) {
    On<Request, Response>([fixed = std::move(fixed)](const Request&, Response* response) {
      *response = fixed;
      return grpc::Status::OK;
    });
  }

  // The requests of this type so far, in order.
  template <typename Request>
  std::vector<Request> Seen() const {
    const base::MutexLock lock(&mutex_);
    std::vector<Request> seen;
    for (const auto& request : seen_) {
      if (request->GetDescriptor() == Request::descriptor()) {
        seen.push_back(static_cast<const Request&>(*request));
      }
    }
    return seen;
  }

  // The remaining time until the last unary call's deadline, when the server received the call.
  absl::Duration last_patience() const {
    const base::MutexLock lock(&mutex_);
    return last_patience_;
  }

  // Functions that run for the length of a stream and return its status.
  std::function<grpc::Status(ServerStream*, grpc::ServerContext*)> on_subscribe;
  std::function<grpc::Status(ScheduleServerStream*)> on_schedule_stream;
  std::function<grpc::Status(CallServerStream*)> on_call_stream;

  // The most calls at once on one connection. 0: gRPC's default.
  int streams_max = 0;

  void Start();
  // Breaks every call. Start may follow.
  void Stop();
  std::string target() const { return "unix:" + directory_ + "/s"; }

 private:
  grpc::Status Unary(grpc::ServerContext* context, const google::protobuf::Message& request,
                     google::protobuf::Message* response);

#define DUETIME_FAKE(name)                                                     \
  grpc::Status name(grpc::ServerContext* context, const v1::name##Request* in, \
                    v1::name##Response* out) override {                        \
    return Unary(context, *in, out);                                           \
  }
  DUETIME_FAKE(Schedule)
  DUETIME_FAKE(ScheduleBatch)
  DUETIME_FAKE(Cancel)
  DUETIME_FAKE(CancelBatch)
  DUETIME_FAKE(Reschedule)
  DUETIME_FAKE(Get)
  DUETIME_FAKE(List)
  DUETIME_FAKE(Explain)
  DUETIME_FAKE(CreateRecurrence)
  DUETIME_FAKE(GetRecurrence)
  DUETIME_FAKE(ListRecurrences)
  DUETIME_FAKE(UpdateRecurrence)
  DUETIME_FAKE(PauseRecurrence)
  DUETIME_FAKE(ResumeRecurrence)
  DUETIME_FAKE(DeleteRecurrence)
  DUETIME_FAKE(PreviewRecurrence)
  DUETIME_FAKE(Pull)
  DUETIME_FAKE(Settle)
  DUETIME_FAKE(ServerInfo)
  DUETIME_FAKE(CreateTopic)
  DUETIME_FAKE(GetTopic)
  DUETIME_FAKE(ListTopics)
  DUETIME_FAKE(UpdateTopic)
  DUETIME_FAKE(DeleteTopic)
  DUETIME_FAKE(PauseTopic)
  DUETIME_FAKE(ResumeTopic)
  DUETIME_FAKE(CreateSubscription)
  DUETIME_FAKE(GetSubscription)
  DUETIME_FAKE(ListSubscriptions)
  DUETIME_FAKE(ListStreams)
  DUETIME_FAKE(EndStream)
  DUETIME_FAKE(UpdateSubscription)
  DUETIME_FAKE(DeleteSubscription)
  DUETIME_FAKE(Forecast)
  DUETIME_FAKE(CheckAccess)
  DUETIME_FAKE(StartBulk)
  DUETIME_FAKE(GetOperation)
  DUETIME_FAKE(ListOperations)
  DUETIME_FAKE(CancelOperation)
  DUETIME_FAKE(StartBackup)
  DUETIME_FAKE(ReadBackup)
  DUETIME_FAKE(EndBackup)
  DUETIME_FAKE(HandOver)
#undef DUETIME_FAKE
  grpc::Status Subscribe(grpc::ServerContext*, ServerStream*) override;
  grpc::Status ScheduleStream(grpc::ServerContext*, ScheduleServerStream*) override;
  grpc::Status CallStream(grpc::ServerContext*, CallServerStream*) override;

  std::string directory_;
  mutable base::Mutex mutex_;
  // Scripted answers by the full name of the request type.
  std::map<std::string, AnyAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<google::protobuf::Message>> seen_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_patience_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

// An error in the form of a duetime server's errors.
grpc::Status MakeServerError(grpc::StatusCode code, const std::string& reason, int retry_ms = 0);

}  // namespace duetime::client
