// SPDX-License-Identifier: Apache-2.0
//
// GatewayCallStream: a CallStream of a gateway. Each of its calls goes to its own cell, so a cell
// that does not answer holds up no call to another one.
#pragma once

#include <cstdint>

#include "server/api/call_stream.h"
#include "server/gateway/gateway_worker.h"

namespace duetime::gateway {

// Thread safety: confined to the worker's thread.
class GatewayCallStream final : public api::CallStream {
 public:
  GatewayCallStream(GatewayWorker* gateway, rpc::CqWorker* shell);

 private:
  // A gateway checks no rights, so a stream without a frame does not stay.
  static constexpr uint64_t kFirstFrameMs = 10'000;

  absl::Status Open() override;
  absl::Status Recheck(base::Now now) override;
  absl::Status Serving() override { return context_->Admit(/*begins_work=*/false); }
  size_t streams_max() const override { return context_->streams_max; }
  // A gateway has no audit log.
  void OnRefused(const absl::Status&) override {}

  GatewayContext* const context_;
  uint64_t opened_mono_ms_ = 0;
};

}  // namespace duetime::gateway
