// SPDX-License-Identifier: Apache-2.0
//
// The generated services in the form the server uses: asynchronous, with raw bytes in and out. Raw,
// because generated code answers bytes that it cannot parse with UNIMPLEMENTED, and because then
// one parsed message per thread can be used again and again.
#pragma once

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace duetime::rpc {

using MessagesService =
    v1::Messages::WithRawMethod_Schedule<v1::Messages::WithRawMethod_ScheduleBatch<
        v1::Messages::WithRawMethod_Cancel<v1::Messages::WithRawMethod_Get<
            v1::Messages::WithRawMethod_Subscribe<v1::Messages::Service>>>>>;
using AdminService = v1::Admin::WithRawMethod_ServerInfo<v1::Admin::Service>;
using HealthService = grpc::health::v1::Health::WithRawMethod_Check<
    grpc::health::v1::Health::WithRawMethod_Watch<grpc::health::v1::Health::Service>>;
using ReflectionService =
    grpc::reflection::v1alpha::ServerReflection::WithRawMethod_ServerReflectionInfo<
        grpc::reflection::v1alpha::ServerReflection::Service>;

struct Services {
  MessagesService messages;
  AdminService admin;
  HealthService health;
  ReflectionService reflection;
};

}  // namespace duetime::rpc
