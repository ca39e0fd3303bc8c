// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/bidi_stream.h"

#include <grpcpp/support/slice.h>
#include <memory>
#include <utility>

#include "server/base/check.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/message_io.h"

namespace duetime::rpc {

void BidiStream::OnRequestDone(bool ok) {
  // Until here the outstanding request owned the object.
  std::unique_ptr<BidiStream> self(this);
  if (!ok) return;  // the server shuts down
  worker_->OnSessionOpened(std::move(self));
  if (method_ != nullptr) {
    worker_->RequestStream(method_);
    worker_->state().stats->of(method_->id).Start();
  }
  OnOpened();
}

void BidiStream::StartRead() {
  DT_CHECK(!reading_ && !ended_);
  reading_ = true;
  stream_.Read(&read_buffer_, &read_tag_);
}

void BidiStream::StartWrite(const google::protobuf::Message& message) {
  DT_CHECK(!writing_ && !ended_);
  writing_ = true;
  SerializeResponse(message, &write_buffer_);
  stream_.Write(write_buffer_, &write_tag_);
}

void BidiStream::StartWrite(std::string message) {
  DT_CHECK(!writing_ && !ended_);
  writing_ = true;
  // gRPC keeps the string, and frees it when it is sent.
  auto* const kept = new std::string(std::move(message));
  const grpc::Slice slice(
      kept->data(), kept->size(), [](void* string) { delete static_cast<std::string*>(string); },
      kept);
  write_buffer_ = grpc::ByteBuffer(&slice, 1);
  stream_.Write(write_buffer_, &write_tag_);
}

void BidiStream::End(const grpc::Status& status) {
  if (ended_) return;
  ended_ = true;
  end_status_ = status;
  if (method_ != nullptr) worker_->state().stats->of(method_->id).End(status.error_code());
  OnEnded();
  if (!writing_) {
    StartFinish();
  } else {
    stuck_at_mono_ms_ = worker_->state().machine_clock->Read().mono_ms + kStuckMs;
  }
}

void BidiStream::StartFinish() {
  finishing_ = true;
  stream_.Finish(end_status_, &finish_tag_);
}

void BidiStream::OnReadDone(bool ok) {
  reading_ = false;
  if (ended_) return MaybeGo();
  if (ok) {
    OnMessage(&read_buffer_);
  } else {
    OnReadsDone();
  }
}

void BidiStream::OnWriteDone(bool ok) {
  writing_ = false;
  if (ended_) return StartFinish();
  // A write fails only when the call is over: cancelled, or the connection is gone.
  if (!ok) return End(grpc::Status::CANCELLED);
  OnWritten();
}

void BidiStream::OnFinishDone(bool ok) {
  static_cast<void>(ok);  // the call is over in any case
  finishing_ = false;
  finished_ = true;
  MaybeGo();
}

void BidiStream::MaybeGo() {
  if (finished_ && !reading_ && !writing_ && !Busy()) worker_->OnSessionEnded(this);
}

void BidiStream::Sweep(base::Now now) {
  if (!ended_) return OnSweep(now);
  if (writing_ && !cut_off_ && now.mono_ms >= stuck_at_mono_ms_) {
    cut_off_ = true;
    context_.TryCancel();
  }
}

}  // namespace duetime::rpc
