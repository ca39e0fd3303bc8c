// SPDX-License-Identifier: Apache-2.0
//
// ScheduleFan: one ScheduleStream call of a gateway.
#pragma once

#include <cstdint>
#include <deque>
#include <grpcpp/support/byte_buffer.h>
#include <memory>

#include "duetime/v1/messages.pb.h"
#include "server/gateway/message_handlers.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::gateway {

// Sends each frame to the cells as batches, and answers the frames in their order. As the stream of
// a server, it reads nothing while kFramesMax frames wait. Thread safety: confined to the worker's
// thread.
class ScheduleFan final : public rpc::BidiStream {
 public:
  ScheduleFan(GatewayWorker* worker, rpc::CqWorker* shell);

  void OnServingState() override;

 private:
  static constexpr size_t kFramesMax = 16;
  static constexpr uint64_t kFirstFrameMs = 10'000;

  struct Frame {
    Frame(GatewayWorker* worker, uint64_t bytes)
        : charge(&worker->context(), bytes), batch(worker) {}

    OpenBytes charge;
    SplitSchedule batch;
    int64_t first = 0;
    bool answered = false;
  };

  void OnOpened() override;
  void OnMessage(grpc::ByteBuffer* buffer) override;
  void OnReadsDone() override;
  void OnWritten() override { Pump(); }
  void OnEnded() override { frames_.clear(); }
  void OnSweep(base::Now now) override;

  void Pump();
  // Ends the stream when all frames are answered.
  void Close(const absl::Status& status);

  GatewayWorker* const worker_;
  std::deque<std::unique_ptr<Frame>> frames_;
  int64_t messages_ = 0;
  uint64_t opened_mono_ms_ = 0;
  bool has_frame_ = false;
  bool closing_ = false;
  absl::Status last_;
};

}  // namespace duetime::gateway
