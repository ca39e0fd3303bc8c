// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_stream.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/api/access/authorization.h"
#include "server/api/call_table.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::api {

void ScheduleStream::OnOpened() {
  ServingContext& context = api_->context();
  absl::Status status = caller_.Open(*server_context());
  // A client without any right must not hold a stream until its first frame.
  if (status.ok()) {
    status = CheckRights(context, caller_.caller(), MethodOf<v1::ScheduleStreamRequest>(),
                         v1::ScheduleStreamRequest::default_instance());
  }
  // Does not check the disk, which may recover while the stream lasts. Each frame checks it.
  if (status.ok()) status = context.Admit(CallKind::kSubscribe);
  if (!status.ok()) {
    caller_.AuditEnd(MethodOf<v1::ScheduleStreamRequest>(), "", status);
    return End(rpc::ToGrpcStatus(status));
  }
  status = Count(&context.schedule_streams, context.options.streams_max);
  if (!status.ok()) return End(rpc::ToGrpcStatus(status));
  trace_ = TraceContextOf(*server_context());
  StartRead();
}

void ScheduleStream::OnMessage(grpc::ByteBuffer* buffer) {
  if (closing_.has_value()) return;
  if (absl::Status status = HandleFrame(buffer); !status.ok()) {
    caller_.AuditEnd(MethodOf<v1::ScheduleStreamRequest>(), "", status);
    Close(rpc::ToGrpcStatus(status));
  }
  Pump();
}

absl::Status ScheduleStream::HandleFrame(grpc::ByteBuffer* buffer) {
  ServingContext& context = api_->context();
  const size_t bytes = buffer->Length();
  v1::ScheduleStreamRequest* request = ApiWorker::Reused<v1::ScheduleStreamRequest>(bytes);
  absl::Status status = ParseBatch(context.options.limits, buffer, request);
  if (!status.ok()) return status;
  const absl::Status admitted = context.Admit(CallKind::kSchedule);
  RefusedItems refused;
  if (admitted.ok()) {
    status = AuthorizeItems(context, caller_.caller(), *server_context(),
                            MethodOf<v1::ScheduleStreamRequest>(), *request, &refused);
  }
  if (!status.ok()) return status;
  if (!refused.empty()) {
    const uint64_t pause_ms = PaceRefusal(context, caller_.caller());
    if (pause_ms > 0) read_from_mono_ms_ = context.machine_clock->Read().mono_ms + pause_ms;
  }

  Frame& frame = frames_.emplace_back();
  frame.bytes = bytes;
  frame.first = messages_;
  messages_ += request->messages_size();
  bytes_ += bytes;
  if (!admitted.ok()) {
    frame.job.status = admitted;
    frame.job.items.resize(static_cast<size_t>(request->messages_size()));
    Answer(&frame);
    return absl::OkStatus();
  }
  ScheduleRouter& router = api_->router();
  router.Begin(static_cast<size_t>(request->messages_size()), &frame.job);
  frame.job.trace = trace_;
  frame.job.refused = std::move(refused);
  AddMessages(*request);
  if (!router.DropIfMissing(frame.job)) {
    PostFrame(&frame);
    return absl::OkStatus();
  }
  // Other streams reuse the parsed message while this stream waits.
  kept_ = std::make_unique<v1::ScheduleStreamRequest>(*request);
  AskForTopics();
  return absl::OkStatus();
}

void ScheduleStream::AddMessages(const v1::ScheduleStreamRequest& request) {
  for (int i = 0; i < request.messages_size(); ++i) {
    api_->router().Add(request.messages(i), i, &frames_.back().job);
  }
}

void ScheduleStream::AskForTopics() {
  const auto& messages = kept_->messages();
  const ScheduleRequests requests(messages.data(), static_cast<size_t>(messages.size()));
  asking_.emplace(api_, requests, &frames_.back().job);
  asking_->Start([this] { OnTopics(); });
}

void ScheduleStream::OnTopics() {
  Frame* const frame = &frames_.back();
  api_->router().BeginAgain(static_cast<size_t>(kept_->messages_size()), &frame->job);
  AddMessages(*kept_);
  // As in ScheduleBatch, another topic of the frame may have been deleted meanwhile.
  if (api_->router().DropIfMissing(frame->job)) return AskForTopics();
  kept_ = nullptr;
  PostFrame(frame);
  asking_.reset();
  Pump();
}

void ScheduleStream::PostFrame(Frame* frame) {
  frame->tag = api_->replies().Add(this);
  if (api_->router().Post(frame->tag, &frame->job)) return;
  api_->replies().Remove(frame->tag);
  Answer(frame);
}

void ScheduleStream::OnReply(uint16_t shard, protocol::Reply reply) {
  auto& scheduled = std::get<protocol::ScheduleReply>(reply);
  const auto found = std::find_if(frames_.begin(), frames_.end(), [&](const Frame& frame) {
    return frame.tag == scheduled.tag && !frame.done;
  });
  DT_CHECK(found != frames_.end());
  if (!api_->router().Take(shard, std::move(scheduled), &found->job)) return;
  api_->replies().Remove(found->tag);
  Answer(&*found);
  Pump();
}

void ScheduleStream::Answer(Frame* frame) {
  frame->done = true;
  const absl::Status& status = frame->job.status;
  if (status.ok()) return;
  if (absl::IsUnavailable(status)) return Close(rpc::ToGrpcStatus(status));
  for (ScheduledItem& item : frame->job.items) {
    if (item.error.ok()) item.error = status;
  }
}

void ScheduleStream::Pump() {
  if (ended() || writing()) return;
  if (!frames_.empty() && frames_.front().done) {
    Frame& frame = frames_.front();
    // The outcome of this frame is unknown, so this frame and the later frames get no answer.
    if (absl::IsUnavailable(frame.job.status)) return End(rpc::ToGrpcStatus(frame.job.status));
    v1::ScheduleStreamResponse* response =
        ApiWorker::Reused<v1::ScheduleStreamResponse>(frame.job.items.size() * sizeof(v1::Message));
    response->set_first(frame.first);
    api_->router().FillResults(frame.job, response->mutable_results());
    bytes_ -= frame.bytes;
    frames_.pop_front();
    StartWrite(*response);
    return ReadOn();
  }
  if (frames_.empty() && closing_.has_value()) return End(*closing_);
  ReadOn();
}

void ScheduleStream::ReadOn() {
  if (ended() || reading() || closing_.has_value() || asking_.has_value()) return;
  if (read_from_mono_ms_ != 0) return;  // OnSweep calls ReadOn again
  if (frames_.size() < kFramesMax && bytes_ < api_->context().options.limits.batch_bytes_max) {
    StartRead();
  }
}

void ScheduleStream::Close(const grpc::Status& status) {
  // The first reason counts.
  if (!closing_.has_value()) closing_ = status;
}

void ScheduleStream::OnReadsDone() {
  Close(grpc::Status::OK);
  Pump();
}

void ScheduleStream::OnWritten() { Pump(); }

void ScheduleStream::OnServingState() {
  if (ended()) return;
  const ServingContext& context = api_->context();
  switch (context.state.load()) {
    case ServingState::kStarting:
    case ServingState::kStandby:
    case ServingState::kServing:
      return;
    case ServingState::kStorageFailed:
      return End(rpc::ToGrpcStatus(context.FailedError()));
    case ServingState::kDraining:
      break;
  }
  Close(rpc::ToGrpcStatus(base::DrainingError()));
  if (context.ending.load()) {
    close_by_mono_ms_ =
        std::min(close_by_mono_ms_, context.machine_clock->Read().mono_ms + kEndingTimeoutMs);
  }
  Pump();
}

void ScheduleStream::OnSweep(base::Now now) {
  if (now.mono_ms >= close_by_mono_ms_) {
    // Not OK, because answers are missing.
    return End(closing_->ok() ? rpc::ToGrpcStatus(base::DrainingError()) : *closing_);
  }
  if (absl::Status status = caller_.Recheck(now); !status.ok() && !closing_.has_value()) {
    caller_.AuditEnd(MethodOf<v1::ScheduleStreamRequest>(), "", status);
    Close(rpc::ToGrpcStatus(status));
    Pump();
  }
  if (read_from_mono_ms_ != 0 && now.mono_ms >= read_from_mono_ms_) {
    read_from_mono_ms_ = 0;
    ReadOn();
  }
}

void ScheduleStream::OnEnded() {
  for (const Frame& frame : frames_) {
    if (!frame.done && frame.tag != protocol::CallTag{}) api_->replies().Remove(frame.tag);
  }
  asking_.reset();
  frames_.clear();
}

}  // namespace duetime::api
