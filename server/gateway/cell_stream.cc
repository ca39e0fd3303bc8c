// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/cell_stream.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <memory>
#include <string>
#include <utility>

#include "server/gateway/gateway_worker.h"
#include "server/gateway/id_fields.h"
#include "server/rpc/message_io.h"

namespace duetime::gateway {

// The call. Life: deletes itself when its last operation has ended.
class CellStream::Call {
 public:
  Call(CellStream* stream, CellStreamOwner* owner, GatewayWorker* worker, size_t cell,
       const Passed& passed, const v1::SubscribeStart& start)
      : stream_(stream), owner_(owner), worker_(worker), cell_(cell), line_(&worker->lines(cell)) {
    passed.AddTo(&context_);
    context_.set_wait_for_ready(true);
    *start_.mutable_start() = start;
    call_ =
        line_.stub().PrepareCall(&context_, "/duetime.v1.Messages/Subscribe", worker->shell().cq());
    ++open_;
    call_->StartCall(&started_tag_);
  }

  void Leave() {
    stream_ = nullptr;
    context_.TryCancel();
    if (started_) Finish();
  }
  void Send(const v1::SubscribeRequest& request) {
    waiting_.MergeFrom(request);
    has_waiting_ = true;
    Write();
  }
  void HalfClose() {
    half_close_ = true;
    Write();
  }
  void ReadOn() {
    wants_read_ = true;
    Read();
  }

 private:
  void OnStarted(bool ok) {
    started_ = ok;
    --open_;
    // The queue may be shut down by now, so nothing further is begun.
    if (stream_ == nullptr) {
      delete this;
      return;
    }
    if (!ok) return Finish();
    // The first request holds nothing else.
    WriteNow(start_);
    Read();
  }

  void Write() {
    if (!started_ || writing_ || finishing_) return;
    if (!has_waiting_) {
      if (!half_close_ || std::exchange(half_closed_, true)) return;
      writing_ = true;
      ++open_;
      call_->WritesDone(&written_tag_);
      return;
    }
    has_waiting_ = false;
    WriteNow(waiting_);
    waiting_.Clear();
  }
  void WriteNow(const v1::SubscribeRequest& request) {
    writing_ = true;
    ++open_;
    rpc::SerializeResponse(request, &out_);
    call_->Write(out_, &written_tag_);
  }

  void OnWritten(bool ok) {
    writing_ = false;
    --open_;
    // The read, or the end, says why.
    if (ok) return Write();
    Finish();
  }

  void Read() {
    if (!started_ || !wants_read_ || reading_ || finishing_) return;
    wants_read_ = false;
    reading_ = true;
    ++open_;
    call_->Read(&in_, &read_tag_);
  }

  void OnRead(bool ok) {
    reading_ = false;
    --open_;
    if (!ok || stream_ == nullptr) return Finish();
    v1::SubscribeResponse response;
    if (!grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&in_, &response).ok()) {
      context_.TryCancel();
      return Finish();
    }
    ChangeIds(&response,
              [this](const std::string& text) { return worker_->context().map.Tag(cell_, text); });
    owner_->OnResponse(cell_, &response);
  }

  void Finish() {
    if (finishing_) return MaybeGo();
    finishing_ = true;
    ++open_;
    call_->Finish(&status_, &finished_tag_);
  }

  void OnFinished(bool) {
    finished_ = true;
    --open_;
    MaybeGo();
  }

  void MaybeGo() {
    if (!finished_ || open_ > 0) return;
    CellStream* const stream = stream_;
    CellStreamOwner* const owner = owner_;
    const size_t cell = cell_;
    const absl::Status status = worker_->context().ErrorOf(cell, status_, /*reads=*/false);
    delete this;
    if (stream == nullptr) return;
    stream->call_ = nullptr;
    owner->OnStreamEnd(cell, status);
  }

  // Null once nobody waits for the stream.
  CellStream* stream_;
  CellStreamOwner* const owner_;
  GatewayWorker* const worker_;
  const size_t cell_;
  Line line_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  grpc::Status status_;
  v1::SubscribeRequest start_;
  v1::SubscribeRequest waiting_;
  rpc::MemberTag<Call, &Call::OnStarted> started_tag_{this};
  rpc::MemberTag<Call, &Call::OnWritten> written_tag_{this};
  rpc::MemberTag<Call, &Call::OnRead> read_tag_{this};
  rpc::MemberTag<Call, &Call::OnFinished> finished_tag_{this};
  // Operations that have not ended.
  int open_ = 0;
  bool started_ = false;
  bool has_waiting_ = false;
  bool half_close_ = false;
  bool half_closed_ = false;
  bool wants_read_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
};

CellStream::CellStream(CellStreamOwner* owner, GatewayWorker* worker, size_t cell,
                       const Passed& passed, const v1::SubscribeStart& start)
    : call_(new Call(this, owner, worker, cell, passed, start)) {}

CellStream::~CellStream() {
  if (call_ != nullptr) call_->Leave();
}

void CellStream::Send(const v1::SubscribeRequest& request) {
  if (call_ != nullptr) call_->Send(request);
}

void CellStream::HalfClose() {
  if (call_ != nullptr) call_->HalfClose();
}

void CellStream::ReadOn() {
  if (call_ != nullptr) call_->ReadOn();
}

}  // namespace duetime::gateway
