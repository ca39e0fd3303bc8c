// SPDX-License-Identifier: Apache-2.0
#include "server/api/call_table.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "duetime/v1/test_clock.pb.h"
#include "server/base/check.h"

namespace duetime::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::MethodDescriptor;

struct Row {
  std::string name;
  // Null: of the health service.
  const MethodDescriptor* method = nullptr;
};

const std::vector<Row>& Table() {
  static const auto* const table = [] {
    auto* rows = new std::vector<Row>{{"HealthCheck"}, {"HealthWatch"}};
    // By a message of each file, so that the linker keeps the file's descriptor.
    for (const auto* file :
         {v1::CallStreamRequest::descriptor()->file(), v1::ServerInfoRequest::descriptor()->file(),
          v1::GetClockRequest::descriptor()->file()}) {
      for (int i = 0; i < file->service(0)->method_count(); ++i) {
        const MethodDescriptor* const method = file->service(0)->method(i);
        rows->push_back({method->name(), method});
      }
    }
    DT_CHECK(rows->size() <= metrics::kRpcMethodsMax);
    return rows;
  }();
  return *table;
}

}  // namespace

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const Row& row : Table()) names.push_back(row.name);
  return names;
}

std::vector<RpcMethod> OurMethods() {
  std::vector<RpcMethod> methods;
  for (size_t i = 0; i < Table().size(); ++i) {
    if (Table()[i].method != nullptr) methods.push_back(static_cast<RpcMethod>(i));
  }
  return methods;
}

const char* NameOf(RpcMethod method) { return Table()[static_cast<size_t>(method)].name.c_str(); }

const MethodDescriptor& DescriptorOf(RpcMethod method) {
  const MethodDescriptor* const descriptor = Table()[static_cast<size_t>(method)].method;
  DT_CHECK(descriptor != nullptr);
  return *descriptor;
}

const v1::Call& CallOf(RpcMethod method) {
  return DescriptorOf(method).options().GetExtension(v1::call);
}

RpcMethod MethodOf(const Descriptor* request) {
  static const auto* const by_request = [] {
    auto* methods = new absl::flat_hash_map<const Descriptor*, RpcMethod>;
    for (const RpcMethod id : OurMethods()) methods->emplace(DescriptorOf(id).input_type(), id);
    return methods;
  }();
  const auto found = by_request->find(request);
  DT_CHECK(found != by_request->end());
  return found->second;
}

}  // namespace duetime::api
