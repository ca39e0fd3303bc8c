// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/schedule_fan.h"

#include <utility>

#include "server/api/request_validation.h"
#include "server/base/error.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::gateway {

ScheduleFan::ScheduleFan(GatewayWorker* worker, rpc::CqWorker* shell)
    : rpc::BidiStream(shell), worker_(worker) {}

void ScheduleFan::OnOpened() {
  GatewayContext& context = worker_->context();
  absl::Status status = context.Admit(/*begins_work=*/true);
  if (status.ok()) status = Count(&context.schedule_streams, context.streams_max);
  if (!status.ok()) return End(rpc::ToGrpcStatus(status));
  opened_mono_ms_ = context.clock->Read().mono_ms;
  StartRead();
}

void ScheduleFan::OnSweep(base::Now now) {
  // Nobody has shown a right yet.
  if (!has_frame_ && now.mono_ms - opened_mono_ms_ >= kFirstFrameMs) {
    Close(absl::DeadlineExceededError("no frame within 10 s"));
  }
}

void ScheduleFan::OnServingState() {
  if (worker().ending()) return End(rpc::ToGrpcStatus(base::DrainingError()));
  if (!worker_->context().Admit(/*begins_work=*/true).ok()) Close(base::DrainingError());
}

void ScheduleFan::OnMessage(grpc::ByteBuffer* buffer) {
  has_frame_ = true;
  auto frame = std::make_unique<Frame>(worker_, buffer->Length());
  v1::ScheduleBatchRequest request;
  // The frames of a stream and the batches of a call have the same bytes.
  absl::Status status = api::ParseBatch(worker_->context().limits, buffer, &request);
  if (!status.ok()) return Close(status);
  if (closing_) return;
  frame->first = messages_;
  messages_ += request.messages_size();
  if (const absl::Status room = frame->charge.status(); room.ok()) {
    AddAll(*worker_, &request, &frame->batch);
  } else {
    for (int i = 0; i < request.messages_size(); ++i) frame->batch.Refuse(room);
  }
  Frame* const added = frame.get();
  frames_.push_back(std::move(frame));
  added->batch.Begin(PassedOf(*worker_, *server_context()), [this, added] {
    added->answered = true;
    Pump();
  });
  if (!ended() && !reading() && frames_.size() < kFramesMax) StartRead();
}

void ScheduleFan::OnReadsDone() { Close(absl::OkStatus()); }

void ScheduleFan::Close(const absl::Status& status) {
  if (ended()) return;
  if (!std::exchange(closing_, true)) last_ = status;
  Pump();
}

void ScheduleFan::Pump() {
  if (ended() || writing()) return;
  if (frames_.empty()) {
    if (closing_) return End(rpc::ToGrpcStatus(last_));
  } else if (frames_.front()->answered) {
    v1::ScheduleBatchResponse results;
    frames_.front()->batch.TakeResults(&results);
    v1::ScheduleStreamResponse response;
    response.mutable_results()->Swap(results.mutable_results());
    response.set_first(frames_.front()->first);
    frames_.pop_front();
    StartWrite(response);
  }
  if (!ended() && !reading() && !closing_ && frames_.size() < kFramesMax) StartRead();
}

}  // namespace duetime::gateway
