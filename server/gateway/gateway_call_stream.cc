// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/gateway_call_stream.h"

#include "server/gateway/unary.h"

namespace duetime::gateway {
namespace {

const api::StreamedMethods& Methods() {
  static const auto* const methods = new api::StreamedMethods(UnaryMethods());
  return *methods;
}

}  // namespace

GatewayCallStream::GatewayCallStream(GatewayWorker* gateway, rpc::CqWorker* shell)
    : api::CallStream(gateway, shell, &Methods(), &gateway->context().limits),
      context_(&gateway->context()) {}

absl::Status GatewayCallStream::Open() {
  opened_mono_ms_ = context_->clock->Read().mono_ms;
  return absl::OkStatus();
}

absl::Status GatewayCallStream::Recheck(base::Now now) {
  if (taken() > 0 || now.mono_ms - opened_mono_ms_ < kFirstFrameMs) return absl::OkStatus();
  return absl::DeadlineExceededError("no frame within 10 s");
}

}  // namespace duetime::gateway
