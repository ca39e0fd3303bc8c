// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/one_cell.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "server/api/call_table.h"
#include "server/api/unary.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/gateway/ask.h"
#include "server/gateway/gateway_context.h"
#include "server/rpc/message_io.h"

namespace duetime::gateway {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& FieldOf(const Message& message, const char* name) {
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(name);
  DT_CHECK(field != nullptr);
  return *field;
}

std::string TextOf(const Message& message, const char* name) {
  return message.GetReflection()->GetString(message, &FieldOf(message, name));
}

const Message& PartOf(const Message& message, const char* name) {
  return message.GetReflection()->GetMessage(message, &FieldOf(message, name));
}

size_t CellOfRecurrence(const GatewayWorker& worker, const Message& request) {
  const bool whole = request.GetDescriptor()->FindFieldByName("recurrence") != nullptr;
  return worker.map().OfName("", TextOf(whole ? PartOf(request, "recurrence") : request, "name"));
}

bool LeadsToOneCell(v1::CallRoute route) {
  return route == v1::CALL_ROUTE_MESSAGE || route == v1::CALL_ROUTE_RECURRENCE ||
         route == v1::CALL_ROUTE_ANY;
}

std::unique_ptr<Message> NewMessage(const Descriptor* type) {
  auto* const factory = google::protobuf::MessageFactory::generated_factory();
  return std::unique_ptr<Message>(factory->GetPrototype(type)->New());
}

rpc::CallTask PassOn(GatewayWorker& worker, rpc::Call& call) {
  const auto& method = api::DescriptorOf(call.method().id);
  const std::unique_ptr<Message> request = NewMessage(method.input_type());
  const std::unique_ptr<Message> response = NewMessage(method.output_type());
  const OpenBytes bytes(&worker.context(), call.request()->Length() + kCallBytes);
  absl::Status status = bytes.status();
  if (status.ok()) status = worker.context().Admit(/*begins_work=*/false);
  if (status.ok()) status = rpc::ParseRequest(call.request(), request.get());
  if (status.ok()) {
    const v1::CallRoute route = api::CallOf(call.method().id).route();
    const absl::StatusOr<size_t> cell = CellOf(worker, route, request.get());
    status = cell.status();
    if (status.ok()) {
      const Passed passed = PassedOf(worker, call);
      status = co_await Ask(worker, passed, *cell, *request, response.get());
    }
  }
  call.Finish(status, *response);
}

void Run(rpc::WorkerApp& app, rpc::Call& call) { PassOn(static_cast<GatewayWorker&>(app), call); }

}  // namespace

absl::StatusOr<size_t> CellOfMessage(GatewayWorker& worker, Message* request) {
  const google::protobuf::Reflection* const reflection = request->GetReflection();
  if (reflection->HasField(*request, &FieldOf(*request, "key"))) {
    const Message& key = PartOf(*request, "key");
    return worker.map().OfName(TextOf(key, "topic"), TextOf(key, "key"));
  }
  const FieldDescriptor& id = FieldOf(*request, "message_id");
  if (!reflection->HasField(*request, &id)) return worker.NextCell();
  auto located = worker.map().Locate(reflection->GetString(*request, &id));
  if (!located.ok()) {
    return api::Invalid(
        "INVALID_MESSAGE_ID", "message_id",
        "through a gateway, an id begins with the name of a cell and a dot, as in \"a.06c...\"");
  }
  reflection->SetString(request, &id, std::move(located->text));
  return located->cell;
}

absl::StatusOr<size_t> CellOf(GatewayWorker& worker, v1::CallRoute route, Message* request) {
  DT_CHECK(LeadsToOneCell(route));
  if (route == v1::CALL_ROUTE_MESSAGE) return CellOfMessage(worker, request);
  if (route == v1::CALL_ROUTE_RECURRENCE) return CellOfRecurrence(worker, *request);
  return worker.NextCell();
}

std::vector<rpc::UnaryMethod> OneCellMethods() {
  std::vector<rpc::UnaryMethod> methods;
  for (const metrics::RpcMethod id : api::OurMethods()) {
    if (!LeadsToOneCell(api::CallOf(id).route())) continue;
    methods.push_back({.id = id,
                       .descriptor = &api::DescriptorOf(id),
                       .run = &Run,
                       .requests_posted = api::RequestsPosted(id)});
  }
  return methods;
}

}  // namespace duetime::gateway
