// SPDX-License-Identifier: Apache-2.0
//
// The generated services in the form the server uses: asynchronous, with raw bytes in and out. Raw,
// because generated code answers bytes that it cannot parse with UNIMPLEMENTED, and because then
// one parsed message per thread can be used again and again.
#pragma once

#include <array>
#include <cstddef>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <span>

#include "google/protobuf/descriptor.h"

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/base/check.h"
#include "server/metrics/rpc_stats.h"

namespace duetime::rpc {

// A generated service of which some methods are served; the generated code answers the others with
// UNIMPLEMENTED. The generated way to say this is one template around another for each method, in
// which no method can be chosen at run time.
template <typename Generated>
class RawService final : public Generated::Service {
 public:
  using Writer = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;
  using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  // REQUIRES: the service has methods of these names.
  RawService(std::span<const metrics::RpcMethod> unary,
             std::span<const metrics::RpcMethod> streams) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        Generated::service_full_name());
    DT_CHECK(service != nullptr);
    index_.fill(-1);
    for (const auto methods : {unary, streams}) {
      for (const metrics::RpcMethod method : methods) {
        const auto* found = service->FindMethodByName(metrics::NameOf(method));
        DT_CHECK(found != nullptr);
        index_[static_cast<size_t>(method)] = found->index();
        this->MarkMethodRaw(found->index());
      }
    }
  }

  bool Serves(metrics::RpcMethod method) const { return index_[static_cast<size_t>(method)] >= 0; }

  // Ask for the next call of a method. REQUIRES: it is served, and of this kind.
  void RequestUnary(metrics::RpcMethod method, grpc::ServerContext* context,
                    grpc::ByteBuffer* request, Writer* writer, grpc::ServerCompletionQueue* cq,
                    void* tag) {
    this->RequestAsyncUnary(index_[static_cast<size_t>(method)], context, request, writer, cq, cq,
                            tag);
  }
  void RequestStream(metrics::RpcMethod method, grpc::ServerContext* context, Stream* stream,
                     grpc::ServerCompletionQueue* cq, void* tag) {
    this->RequestAsyncBidiStreaming(index_[static_cast<size_t>(method)], context, stream, cq, cq,
                                    tag);
  }

 private:
  // The number of each served method within its service; -1 for others.
  std::array<int, metrics::kRpcMethodCount> index_{};
};

using MessagesService = RawService<v1::Messages>;
using AdminService = RawService<v1::Admin>;
using HealthService = grpc::health::v1::Health::WithRawMethod_Check<
    grpc::health::v1::Health::WithRawMethod_Watch<grpc::health::v1::Health::Service>>;
using ReflectionService =
    grpc::reflection::v1alpha::ServerReflection::WithRawMethod_ServerReflectionInfo<
        grpc::reflection::v1alpha::ServerReflection::Service>;

// The methods that are served, by service.
inline constexpr std::array kMessagesUnary = {
    metrics::RpcMethod::kSchedule,
    metrics::RpcMethod::kScheduleBatch,
    metrics::RpcMethod::kCancel,
    metrics::RpcMethod::kCancelBatch,
    metrics::RpcMethod::kReschedule,
    metrics::RpcMethod::kGet,
    metrics::RpcMethod::kList,
    metrics::RpcMethod::kExplain,
    metrics::RpcMethod::kPull,
    metrics::RpcMethod::kSettle,
    metrics::RpcMethod::kCreateRecurrence,
    metrics::RpcMethod::kGetRecurrence,
    metrics::RpcMethod::kListRecurrences,
    metrics::RpcMethod::kUpdateRecurrence,
    metrics::RpcMethod::kPauseRecurrence,
    metrics::RpcMethod::kResumeRecurrence,
    metrics::RpcMethod::kDeleteRecurrence,
    metrics::RpcMethod::kPreviewRecurrence,
};
inline constexpr std::array kMessagesStreams = {
    metrics::RpcMethod::kScheduleStream,
    metrics::RpcMethod::kSubscribe,
};
inline constexpr std::array kAdminUnary = {
    metrics::RpcMethod::kServerInfo,         metrics::RpcMethod::kCreateTopic,
    metrics::RpcMethod::kGetTopic,           metrics::RpcMethod::kListTopics,
    metrics::RpcMethod::kUpdateTopic,        metrics::RpcMethod::kDeleteTopic,
    metrics::RpcMethod::kForecast,           metrics::RpcMethod::kStartBulk,
    metrics::RpcMethod::kGetOperation,       metrics::RpcMethod::kListOperations,
    metrics::RpcMethod::kCancelOperation,    metrics::RpcMethod::kPauseTopic,
    metrics::RpcMethod::kResumeTopic,        metrics::RpcMethod::kCreateSubscription,
    metrics::RpcMethod::kGetSubscription,    metrics::RpcMethod::kListSubscriptions,
    metrics::RpcMethod::kUpdateSubscription, metrics::RpcMethod::kDeleteSubscription,
};

struct Services {
  MessagesService messages{kMessagesUnary, kMessagesStreams};
  AdminService admin{kAdminUnary, {}};
  HealthService health;
  ReflectionService reflection;
};

}  // namespace duetime::rpc
