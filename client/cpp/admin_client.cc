// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/admin_client.h"

#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/cpp/caller.h"
#include "client/cpp/random_id.h"

namespace duetime::client {

class AdminClient::Impl {
 public:
  Impl(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel)
      : caller_(options, channel), channel_(channel) {}

  // Makes the call as the generated stub would.
  absl::Status Run(const google::protobuf::MethodDescriptor& method,
                   const google::protobuf::Message& request,
                   google::protobuf::Message* response) const {
    using google::protobuf::MessageLite;
    const std::string path = absl::StrCat("/", method.service()->full_name(), "/", method.name());
    const grpc::internal::RpcMethod rpc(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    const auto call = [&](grpc::ClientContext* context) {
      return grpc::internal::BlockingUnaryCall<MessageLite, MessageLite>(
          channel_.get(), rpc, context, request, response);
    };
    int tries = 0;
    return caller_.Run(RuleOf(request), call, &tries, absl::ZeroDuration());
  }

 private:
  const Caller caller_;
  const std::shared_ptr<grpc::Channel> channel_;
};

AdminClient::AdminClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AdminClient::~AdminClient() = default;

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Create(const ClientOptions& options) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<AdminClient>(new AdminClient(std::make_unique<Impl>(options, *channel)));
}

absl::Status AdminClient::Call(const google::protobuf::Message& request,
                               google::protobuf::Message* response) {
  const auto* const method = MethodOf(request);
  if (method == nullptr ||
      method->service()->file() != v1::ServerInfoRequest::descriptor()->file() ||
      method->output_type() != response->GetDescriptor()) {
    return absl::InvalidArgumentError(absl::StrCat("no call of the service Admin has a ",
                                                   request.GetDescriptor()->name(), " and a ",
                                                   response->GetDescriptor()->name()));
  }
  return Run(request, response);
}

absl::Status AdminClient::Run(const google::protobuf::Message& request,
                              google::protobuf::Message* response) {
  const auto* const bulk = dynamic_cast<const v1::StartBulkRequest*>(&request);
  if (bulk == nullptr || !bulk->name().empty() || bulk->dry_run()) {
    return impl_->Run(*MethodOf(request), request, response);
  }
  v1::StartBulkRequest named = *bulk;
  named.set_name(RandomId().Next());
  return impl_->Run(*MethodOf(request), named, response);
}

}  // namespace duetime::client
