// SPDX-License-Identifier: Apache-2.0
//
// BidiStream: the operations of a bidirectional stream, and the life of its object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/rpc/completion_tag.h"
#include "server/rpc/methods.h"
#include "server/rpc/session.h"
#include "server/rpc/stream_count.h"

namespace duetime::rpc {

// Keeps gRPC's rules for a stream: at most one read and one write at a time, Finish only when no
// write is outstanding, and no deletion before every operation has ended. The subclass implements
// the protocol.
//
// Life: CqWorker::RequestStream makes and posts the object. OnOpened runs when a call arrives.
// OnMessage, OnReadsDone and OnWritten run as operations end. Each of them may call End(). The
// worker deletes the object after the last operation. Thread safety: confined to the worker's
// thread.
class BidiStream : public Session {
 public:
  BidiStream(const BidiStream&) = delete;
  BidiStream& operator=(const BidiStream&) = delete;

  void Sweep(base::Now now) override;

  // The tag of the request to gRPC. If `method` is not null, the metrics count the call, and its
  // opening requests the next call. Reflection passes null.
  CompletionTag* RequestTag(const StreamMethod* method) {
    method_ = method;
    return &request_tag_;
  }
  grpc::ServerContext* server_context() { return &context_; }
  const grpc::ServerContext* server_context() const { return &context_; }
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream() { return &stream_; }

 protected:
  explicit BidiStream(CqWorker* worker) : worker_(worker), stream_(&context_) {}

  // A call has arrived.
  virtual void OnOpened() = 0;
  // A read has ended with a message in `buffer`.
  virtual void OnMessage(grpc::ByteBuffer* buffer) = 0;
  // A read has ended without a message: the client has half-closed, cancelled, or is gone.
  virtual void OnReadsDone() = 0;
  // The transport has taken the write; the next write may begin.
  virtual void OnWritten() = 0;
  // The stream has ended, by End() or a failed write. No other function but the destructor follows.
  virtual void OnEnded() = 0;
  virtual void OnSweep(base::Now now) = 0;

  // REQUIRES for both: not ended, and no operation of the same kind is outstanding.
  void StartRead();
  void StartWrite(const google::protobuf::Message& message);
  // The same for the encoded bytes of a message.
  void StartWrite(std::string message);
  // Ends the call with `status` as soon as no write is outstanding. Cancels the call if a write
  // takes longer than kStuckMs. Idempotent: the first status counts.
  void End(const grpc::Status& status);

  // Counts the stream among those of its kind while it lives, and as long as anything keeps
  // `count`. STREAM_LIMIT.
  absl::Status Count(std::atomic<uint64_t>* open, size_t max) {
    count_ = std::make_shared<StreamCount>(open, max);
    return count_->status();
  }
  const std::shared_ptr<StreamCount>& count() const { return count_; }

  // True while the object may not be deleted, although no operation is outstanding.
  virtual bool Busy() const { return false; }
  // Deletes the object if nothing is outstanding, and it is not busy; touch nothing afterwards.
  void MaybeGo();

  bool reading() const { return reading_; }
  bool writing() const { return writing_; }
  bool ended() const { return ended_; }
  CqWorker& worker() { return *worker_; }

 private:
  static constexpr uint64_t kStuckMs = 2'000;

  void OnRequestDone(bool ok);
  void OnReadDone(bool ok);
  void OnWriteDone(bool ok);
  void OnFinishDone(bool ok);
  void StartFinish();

  CqWorker* const worker_;
  const StreamMethod* method_ = nullptr;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
  grpc::Status end_status_;
  MemberTag<BidiStream, &BidiStream::OnRequestDone> request_tag_{this};
  MemberTag<BidiStream, &BidiStream::OnReadDone> read_tag_{this};
  MemberTag<BidiStream, &BidiStream::OnWriteDone> write_tag_{this};
  MemberTag<BidiStream, &BidiStream::OnFinishDone> finish_tag_{this};
  std::shared_ptr<StreamCount> count_;
  uint64_t stuck_at_mono_ms_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool cut_off_ = false;
};

}  // namespace duetime::rpc
