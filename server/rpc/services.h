// SPDX-License-Identifier: Apache-2.0
//
// gRPC services in the form that the server uses: asynchronous, with raw bytes in and out.
// Generated code would answer bytes that it cannot parse with UNIMPLEMENTED. Raw bytes also let
// each thread reuse one parsed message.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/methods.h"

namespace duetime::rpc {

using Writer = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;
using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// One service, made from its descriptor at run time. The generated class would nest one template
// per method at compile time.
class RawService final : public grpc::Service {
 public:
  explicit RawService(std::string full_name) : full_name_(std::move(full_name)) {}

  const std::string& full_name() const { return full_name_; }

  // Serves a method. Returns its index. REQUIRES: it is one of this service, of this kind; the gRPC
  // server has not been started.
  int Serve(const google::protobuf::MethodDescriptor& method, bool streams);

  // Request the next call of a method. REQUIRES: Serve was called for the method, with this kind.
  void RequestUnary(int index, grpc::ServerContext* context, grpc::ByteBuffer* request,
                    Writer* writer, grpc::ServerCompletionQueue* cq, void* tag) {
    RequestAsyncUnary(index, context, request, writer, cq, cq, tag);
  }
  void RequestStream(int index, grpc::ServerContext* context, Stream* stream,
                     grpc::ServerCompletionQueue* cq, void* tag) {
    RequestAsyncBidiStreaming(index, context, stream, cq, cq, tag);
  }

 private:
  const std::string full_name_;
  // gRPC keeps pointers to the paths.
  std::deque<std::string> paths_;
};

using HealthService = grpc::health::v1::Health::WithRawMethod_Check<
    grpc::health::v1::Health::WithRawMethod_Watch<grpc::health::v1::Health::Service>>;
using ReflectionService =
    grpc::reflection::v1alpha::ServerReflection::WithRawMethod_ServerReflectionInfo<
        grpc::reflection::v1alpha::ServerReflection::Service>;

// All services of the server: those of the API, health, and reflection.
class Services {
 public:
  explicit Services(const ServedMethods& served);

  void RequestUnary(metrics::RpcMethod method, grpc::ServerContext* context,
                    grpc::ByteBuffer* request, Writer* writer, grpc::ServerCompletionQueue* cq,
                    void* tag);
  void RequestStream(metrics::RpcMethod method, grpc::ServerContext* context, Stream* stream,
                     grpc::ServerCompletionQueue* cq, void* tag);

  // The names of the API's services.
  const std::vector<std::string>& names() const { return names_; }
  std::vector<std::unique_ptr<RawService>>& raw() { return raw_; }

  HealthService health;
  ReflectionService reflection;

 private:
  struct Served {
    RawService* service = nullptr;
    int index = 0;
  };

  void Serve(metrics::RpcMethod id, const google::protobuf::MethodDescriptor* method, bool streams);

  const std::vector<std::string> names_;
  std::vector<std::unique_ptr<RawService>> raw_;
  std::array<Served, metrics::kRpcMethodsMax> served_;
};

}  // namespace duetime::rpc
