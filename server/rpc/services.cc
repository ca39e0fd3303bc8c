// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/services.h"

#include <algorithm>
#include <grpcpp/impl/rpc_service_method.h>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"

namespace duetime::rpc {

using grpc::internal::RpcServiceMethod;

int RawService::Serve(const google::protobuf::MethodDescriptor& method, bool streams) {
  DT_CHECK_EQ(method.service()->full_name(), full_name_);
  DT_CHECK_EQ(method.client_streaming() && method.server_streaming(), streams);
  const auto type = streams ? RpcServiceMethod::BIDI_STREAMING : RpcServiceMethod::NORMAL_RPC;
  const std::string& path = paths_.emplace_back(absl::StrCat("/", full_name_, "/", method.name()));
  const int index = static_cast<int>(paths_.size()) - 1;
  AddMethod(new RpcServiceMethod(path.c_str(), type, nullptr));  // AddMethod takes ownership
  MarkMethodRaw(index);
  return index;
}

Services::Services(const ServedMethods& served) : names_(served.services) {
  for (const std::string& name : names_) raw_.push_back(std::make_unique<RawService>(name));
  for (const UnaryMethod& method : served.unary) Serve(method.id, method.descriptor, false);
  for (const StreamMethod& method : served.streams) Serve(method.id, method.descriptor, true);
}

void Services::Serve(metrics::RpcMethod id, const google::protobuf::MethodDescriptor* method,
                     bool streams) {
  DT_CHECK(method != nullptr);
  const auto found = std::find_if(raw_.begin(), raw_.end(), [&](const auto& candidate) {
    return candidate->full_name() == method->service()->full_name();
  });
  DT_CHECK(found != raw_.end());
  Served& entry = served_[static_cast<size_t>(id)];
  DT_CHECK(entry.service == nullptr);
  entry = {.service = found->get(), .index = (*found)->Serve(*method, streams)};
}

void Services::RequestUnary(metrics::RpcMethod method, grpc::ServerContext* context,
                            grpc::ByteBuffer* request, Writer* writer,
                            grpc::ServerCompletionQueue* cq, void* tag) {
  if (method == kHealthCheck) {
    return health.RequestCheck(context, request, writer, cq, cq, tag);
  }
  const Served& entry = served_[static_cast<size_t>(method)];
  DT_CHECK(entry.service != nullptr);
  entry.service->RequestUnary(entry.index, context, request, writer, cq, tag);
}

void Services::RequestStream(metrics::RpcMethod method, grpc::ServerContext* context,
                             Stream* stream, grpc::ServerCompletionQueue* cq, void* tag) {
  const Served& entry = served_[static_cast<size_t>(method)];
  DT_CHECK(entry.service != nullptr);
  entry.service->RequestStream(entry.index, context, stream, cq, tag);
}

}  // namespace duetime::rpc
