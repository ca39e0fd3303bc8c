// SPDX-License-Identifier: Apache-2.0
//
// ScheduleStream: one ScheduleStream call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"

#include "server/api/api_worker.h"
#include "server/api/messages/asked_topics.h"
#include "server/api/messages/schedule_job.h"
#include "server/protocol/replies.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::api {

// Takes frames of messages, works on several at a time, and answers them in order.
//
// Each frame is a job of its own, as a batch is. While kFramesMax of them, or the bytes of one
// batch, are not answered and written, nothing more is read; gRPC's flow control then holds the
// client back, and what a slow reader of answers can hold here is bounded. What ends the stream (a
// frame that is not in order, a drain, a failure of the storage) waits until the frames before it
// are answered. Thread safety: confined to the worker's thread.
class ScheduleStream final : public rpc::BidiStream, public ReplySink {
 public:
  ScheduleStream(ApiWorker* api, rpc::CqWorker* worker) : rpc::BidiStream(worker), api_(api) {}
  ~ScheduleStream() override;

  // From a shard, for one of the frames.
  void OnReply(uint16_t shard, protocol::Reply reply) override;

  void OnServingState() override;

 private:
  static constexpr size_t kFramesMax = 16;
  // When the server ends: shards have answered by then, only the way out is left.
  static constexpr uint64_t kEndingTimeoutMs = 500;

  struct Frame {
    protocol::CallTag tag{};
    ScheduleJob job;
    size_t bytes = 0;
    int64_t first = 0;
    bool done = false;
  };

  void OnOpened() override;
  void OnMessage(grpc::ByteBuffer* buffer) override;
  void OnReadsDone() override;
  void OnWritten() override;
  void OnEnded() override;
  void OnSweep(base::Now now) override;

  // An error ends the stream.
  absl::Status HandleFrame(grpc::ByteBuffer* buffer);
  // Asks the catalog for the missing topics of the last frame.
  void AskForTopics();
  // The catalog has answered.
  void OnTopics();
  // Adds the messages of the last frame to its job.
  void AddMessages(const v1::ScheduleStreamRequest& request);
  void PostFrame(Frame* frame);
  // What the frame as a whole was refused with: an error of each message, or the end of the stream.
  void Settle(Frame* frame);
  // Reads no more, and ends with `status` when every open message is answered.
  void Close(const grpc::Status& status);
  void Pump();
  void ReadOn();

  ApiWorker* const api_;
  std::deque<Frame> frames_;
  // Of the frames that are not answered.
  size_t bytes_ = 0;
  // Messages of all frames so far.
  int64_t messages_ = 0;
  // The last frame waits for its topics, and nothing more is read: frames take effect in order.
  std::optional<AskedTopics> asking_;
  std::unique_ptr<v1::ScheduleStreamRequest> kept_;
  bool counted_ = false;
  std::optional<grpc::Status> closing_;
  uint64_t close_by_mono_ms_ = UINT64_MAX;
};

}  // namespace duetime::api
