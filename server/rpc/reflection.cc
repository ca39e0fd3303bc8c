// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/reflection.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

#include "server/base/error.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetError(grpc::StatusCode code, const std::string& text, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(code);
  response->mutable_error_response()->set_error_message(text);
}

// `file` and everything that it imports, each once.
void AnswerFile(const FileDescriptor* file, ServerReflectionResponse* response) {
  if (file == nullptr) return SetError(grpc::StatusCode::NOT_FOUND, "no such file", response);
  absl::flat_hash_set<const FileDescriptor*> seen = {file};
  std::vector<const FileDescriptor*> files = {file};
  for (size_t i = 0; i < files.size(); ++i) {
    google::protobuf::FileDescriptorProto proto;
    files[i]->CopyTo(&proto);
    proto.SerializeToString(
        response->mutable_file_descriptor_response()->add_file_descriptor_proto());
    const FileDescriptor* current = files[i];
    for (int d = 0; d < current->dependency_count(); ++d) {
      if (seen.insert(current->dependency(d)).second) files.push_back(current->dependency(d));
    }
  }
}

void AnswerExtensionNumbers(const std::string& type, ServerReflectionResponse* response) {
  const Descriptor* message = Pool().FindMessageTypeByName(type);
  if (message == nullptr) return SetError(grpc::StatusCode::NOT_FOUND, "no such type", response);
  auto* answer = response->mutable_all_extension_numbers_response();
  answer->set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    answer->add_extension_number(extension->number());
  }
}

void AnswerExtension(const grpc::reflection::v1alpha::ExtensionRequest& request,
                     ServerReflectionResponse* response) {
  const Descriptor* message = Pool().FindMessageTypeByName(request.containing_type());
  const FieldDescriptor* extension =
      message == nullptr ? nullptr
                         : Pool().FindExtensionByNumber(message, request.extension_number());
  AnswerFile(extension == nullptr ? nullptr : extension->file(), response);
}

}  // namespace

void AnswerReflection(const std::vector<std::string>& services,
                      const ServerReflectionRequest& request, ServerReflectionResponse* response) {
  response->set_valid_host(request.host());
  *response->mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) {
        response->mutable_list_services_response()->add_service()->set_name(name);
      }
      for (const char* name : {grpc::health::v1::Health::service_full_name(),
                               grpc::reflection::v1alpha::ServerReflection::service_full_name()}) {
        response->mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case ServerReflectionRequest::kFileByFilename:
      return AnswerFile(Pool().FindFileByName(request.file_by_filename()), response);
    case ServerReflectionRequest::kFileContainingSymbol:
      return AnswerFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                        response);
    case ServerReflectionRequest::kFileContainingExtension:
      return AnswerExtension(request.file_containing_extension(), response);
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      return AnswerExtensionNumbers(request.all_extension_numbers_of_type(), response);
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      return SetError(grpc::StatusCode::INVALID_ARGUMENT, "no question", response);
  }
}

void ReflectionStream::Request(CqWorker* worker) {
  auto* fresh = new ReflectionStream(worker);  // freed by its request tag or by the worker
  worker->services().reflection.RequestServerReflectionInfo(
      fresh->server_context(), fresh->stream(), worker->cq(), worker->cq(),
      fresh->RequestTag(nullptr));
}

void ReflectionStream::OnOpened() {
  if (!worker().ending()) Request(&worker());
  if (worker().sessions() > kSessionsMax) {
    return End(ToGrpcStatus(base::OverloadedError("list of streams", kSessionsMax)));
  }
  if (worker().ending()) return OnServingState();
  StartRead();
}

void ReflectionStream::OnMessage(grpc::ByteBuffer* buffer) {
  ServerReflectionRequest request;
  if (absl::Status status = ParseRequest(buffer, &request); !status.ok()) {
    return End(ToGrpcStatus(status));
  }
  ServerReflectionResponse response;
  AnswerReflection(worker().services().names(), request, &response);
  StartWrite(response);
}

void ReflectionStream::OnWritten() { StartRead(); }

void ReflectionStream::OnReadsDone() { End(grpc::Status::OK); }

void ReflectionStream::OnServingState() {
  if (worker().ending()) End(ToGrpcStatus(base::DrainingError()));
}

void ReflectionStream::OnEnded() {}

void ReflectionStream::OnSweep(base::Now now) { static_cast<void>(now); }

}  // namespace duetime::rpc
