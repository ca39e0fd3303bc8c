// SPDX-License-Identifier: Apache-2.0
//
// GatewayWorker: the gateway on one thread of the gRPC shell.
#pragma once

#include <cstddef>
#include <grpcpp/generic/generic_stub.h>
#include <memory>
#include <vector>

#include "server/gateway/gateway_context.h"
#include "server/gateway/lines.h"
#include "server/rpc/cq_worker.h"

namespace duetime::gateway {

class Reconciler;

// Thread safety: confined to the worker's thread.
class GatewayWorker final : public rpc::WorkerApp {
 public:
  GatewayWorker(GatewayContext* context, rpc::CqWorker* shell);
  ~GatewayWorker() override;
  GatewayWorker(const GatewayWorker&) = delete;
  GatewayWorker& operator=(const GatewayWorker&) = delete;

  GatewayContext& context() const { return *context_; }
  rpc::CqWorker& shell() const { return *shell_; }
  const CellMap& map() const { return context_->map; }
  grpc::GenericStub& stub(size_t cell) { return stubs_[cell]; }

  // For calls that stay open for long.
  Lines& lines(size_t cell) { return lines_[cell]; }

  // The cell for the next message without a name: in turn, those that can be reached first.
  size_t NextCell();

  void OnTasksDone() override {}
  void OnServingState() override;
  void OnSweep() override;

 private:
  static constexpr uint64_t kServeAfterMs = 3'000;

  GatewayContext* const context_;
  rpc::CqWorker* const shell_;
  std::vector<grpc::GenericStub> stubs_;
  std::vector<Lines> lines_;
  size_t turn_;
  // Of the first worker; null in the others.
  std::unique_ptr<Reconciler> reconciler_;
};

}  // namespace duetime::gateway
