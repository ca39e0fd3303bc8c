// SPDX-License-Identifier: Apache-2.0
//
// gRPC's server reflection on our own queues. Debian's libgrpc++_reflection is not used, because it
// is a synchronous service. It would add polling threads to the server, and gRPC would assign some
// of our connections to these threads.
#pragma once

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::rpc {

// Answers one request of the reflection protocol from the descriptors linked into this program.
// `services`: the names of the API's services. A pure function without gRPC.
void AnswerReflection(const std::vector<std::string>& services,
                      const grpc::reflection::v1alpha::ServerReflectionRequest& request,
                      grpc::reflection::v1alpha::ServerReflectionResponse* response);

// One ServerReflectionInfo call: reads a request, writes its answer, reads the next. Thread safety:
// confined to the worker's thread.
class ReflectionStream final : public BidiStream {
 public:
  explicit ReflectionStream(CqWorker* worker) : BidiStream(worker) {}

  // Asks gRPC for the next call. The object then owns itself until a call arrives.
  static void Request(CqWorker* worker);

  void OnServingState() override;

 private:
  // The maximum number of sessions on one worker. Beyond it, calls are refused.
  static constexpr size_t kSessionsMax = 10'000;

  void OnOpened() override;
  void OnMessage(grpc::ByteBuffer* buffer) override;
  void OnReadsDone() override;
  void OnWritten() override;
  void OnEnded() override;
  void OnSweep(base::Now now) override;
};

}  // namespace duetime::rpc
