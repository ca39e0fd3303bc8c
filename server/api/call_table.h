// SPDX-License-Identifier: Apache-2.0
//
// The methods that the server serves: those of the health service, and those of the protos'
// services in the order of the protos. Read from the protos' descriptors, once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "google/protobuf/descriptor.h"

#include "duetime/v1/call.pb.h"
#include "server/metrics/rpc_stats.h"

namespace duetime::api {

using metrics::RpcMethod;

// The names of all methods, as in the protos; those of the health service have the prefix "Health".
std::vector<std::string> MethodNames();
// Those of our own services.
std::vector<RpcMethod> OurMethods();
// Lasts as long as the program.
const char* NameOf(RpcMethod method);

// REQUIRES, of both: it is a method of our own services.
const google::protobuf::MethodDescriptor& DescriptorOf(RpcMethod method);
// What the method needs and does.
const v1::Call& CallOf(RpcMethod method);

// The method with requests of this type. REQUIRES: there is one. O(1).
RpcMethod MethodOf(const google::protobuf::Descriptor* request);
template <typename Request>
RpcMethod MethodOf() {
  static const RpcMethod method = MethodOf(Request::descriptor());
  return method;
}

}  // namespace duetime::api
