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

#include "server/api/access/stream_caller.h"
#include "server/api/api_worker.h"
#include "server/api/messages/asked_topics.h"
#include "server/api/messages/schedule_router.h"
#include "server/protocol/replies.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::api {

// Takes frames of messages, works on several frames at a time, and answers them in order.
//
// Each frame is a job, as a batch is. The stream reads nothing while kFramesMax frames, or frames
// with the bytes of one batch, wait for their answers to be written. gRPC's flow control then slows
// the client, so a client that reads answers slowly occupies bounded memory. The stream also reads
// nothing for a while after access control refused messages of many frames (access::Meter). If a
// frame is invalid or the server drains, the stream first answers the frames before. If the storage
// fails, the stream ends at once. Thread safety: confined to the worker's thread.
class ScheduleStream final : public rpc::BidiStream, public ReplySink {
 public:
  ScheduleStream(ApiWorker* api, rpc::CqWorker* worker)
      : rpc::BidiStream(worker), api_(api), caller_(&api->context()) {}

  // Takes a shard's reply to one of the frames.
  void OnReply(uint16_t shard, protocol::Reply reply) override;

  void OnServingState() override;

 private:
  static constexpr size_t kFramesMax = 16;
  // The time for the last answers when the server ends. The shards have answered by then.
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

  // Starts the job of one frame. An error ends the stream.
  absl::Status HandleFrame(grpc::ByteBuffer* buffer);
  // Asks the catalog for the missing topics of the last frame.
  void AskForTopics();
  // Continues the last frame after the catalog's answers.
  void OnTopics();
  // Adds the messages of the last frame to its job.
  void AddMessages(const v1::ScheduleStreamRequest& request);
  void PostFrame(Frame* frame);
  // Marks the frame as done. An error of the whole frame becomes the error of each message, or ends
  // the stream.
  void Answer(Frame* frame);
  // Reads no more, and ends with `status` when every open message is answered.
  void Close(const grpc::Status& status);
  void Pump();
  void ReadOn();

  ApiWorker* const api_;
  StreamCaller caller_;
  std::deque<Frame> frames_;
  // The bytes of the frames that are not answered.
  size_t bytes_ = 0;
  // The number of messages in all frames so far.
  int64_t messages_ = 0;
  // Set while the last frame waits for its topics. The stream then reads nothing, because frames
  // take effect in order.
  std::optional<AskedTopics> asking_;
  std::unique_ptr<v1::ScheduleStreamRequest> kept_;
  // Of the stream's metadata, for every message.
  TraceContext trace_;
  // The stream reads nothing before the first sweep from this time on. 0: it reads.
  uint64_t read_from_mono_ms_ = 0;
  std::optional<grpc::Status> closing_;
  uint64_t close_by_mono_ms_ = UINT64_MAX;
};

}  // namespace duetime::api
