// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/rpc_bridge.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

#include "client/cli/console/http_error.h"
#include "client/cli/json.h"
#include "client/cpp/error.h"
#include "duetime/v1/call.pb.h"

namespace duetime::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;

constexpr char kPackage[] = "duetime.v1.";

// Only methods of the package: other services of gRPC are linked in, too.
const MethodDescriptor* FindMethod(absl::string_view path) {
  if (!absl::StartsWith(path, kPackage) || std::count(path.begin(), path.end(), '/') != 1)
    return nullptr;
  return DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(path, {{"/", "."}}));
}

std::unique_ptr<Message> NewMessage(const Descriptor* type) {
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

}  // namespace

absl::StatusOr<std::string> RpcBridge::Call(absl::string_view path, const std::string& json,
                                            const std::string& token) const {
  const MethodDescriptor* method = FindMethod(path);
  if (method == nullptr) {
    return MakeError(absl::StatusCode::kUnimplemented, "METHOD_UNKNOWN", "there is no such call");
  }
  if (method->client_streaming() || method->server_streaming()) {
    return MakeError(
        absl::StatusCode::kUnimplemented, "METHOD_STREAMS",
        absl::StrCat(method->full_name(), " is a stream; the console makes unary calls"));
  }
  if (read_only_ && method->options().GetExtension(v1::call).repeat() != v1::CALL_REPEAT_READ) {
    return MakeError(absl::StatusCode::kPermissionDenied, "CONSOLE_READ_ONLY",
                     "this console was started with --read-only: it changes nothing");
  }
  const std::unique_ptr<Message> request = NewMessage(method->input_type());
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, request.get());
  if (!parsed.ok()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                     absl::StrCat("not the JSON of ", method->input_type()->full_name(), ": ",
                                  std::string(parsed.message())));
  }
  const std::unique_ptr<Message> response = NewMessage(method->output_type());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline_));
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  grpc::TemplatedGenericStub<Message, Message> stub(channel_);
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, absl::StrCat("/", path), {}, request.get(), response.get(),
                 [&done](const grpc::Status& status) { done.set_value(status); });
  const absl::Status status = client::ToAbslStatus(done.get_future().get());
  if (!status.ok()) return status;
  return JsonLine(*response);
}

}  // namespace duetime::cli
