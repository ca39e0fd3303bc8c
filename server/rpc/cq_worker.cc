// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/cq_worker.h"

#include <algorithm>
#include <grpc/support/time.h>
#include <pthread.h>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/health.h"
#include "server/rpc/reflection.h"
#include "server/rpc/schedule_stream.h"
#include "server/rpc/session.h"
#include "server/rpc/subscriber_stream.h"

namespace duetime::rpc {
namespace {

// A call for which no request is posted waits inside gRPC, unbounded; so there are enough of them
// for what can arrive between two turns of the thread.
constexpr int kRequestsPosted = 100;
constexpr int kRareRequestsPosted = 10;
constexpr uint64_t kSweepMsMax = 1'000;

// How often sessions are looked at: often enough for the heartbeat that is configured.
uint64_t SweepMs(uint64_t heartbeat_ms) {
  return std::clamp<uint64_t>(heartbeat_ms / 2, 10, kSweepMsMax);
}

}  // namespace

CqWorker::CqWorker(ServingContext* context, Services* services, size_t index,
                   std::unique_ptr<grpc::ServerCompletionQueue> cq)
    : context_(context),
      services_(services),
      index_(index),
      cq_(std::move(cq)),
      streams_(uint64_t{index} << kWorkerShift),
      // Workers begin at different slots, so that they do not load the shards in step.
      handlers_({.context = context,
                 .run_here = [this](std::function<void()> task) { RunHere(std::move(task)); },
                 .new_tag = [this] { return NewTag(); },
                 .streams = &streams_,
                 .set_alarm = [this](uint64_t ms, grpc::Alarm* alarm,
                                     CompletionTag* tag) { SetAlarm(ms, alarm, tag); }},
                static_cast<uint32_t>(index * 1'597) % storage::MessageId::kSlotCount) {
  DT_CHECK_LT(index, kWorkersMax);
}

CqWorker::~CqWorker() {
  if (queue_shut_) return;
  // Never started: nothing was posted, but a queue must be shut down and drained all the same.
  cq_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (cq_->Next(&tag, &ok)) {
  }
}

void CqWorker::Start() {
  for (const metrics::RpcMethod method : kMessagesUnary) {
    for (int i = 0; i < kRequestsPosted; ++i) RequestUnary(method);
  }
  for (int i = 0; i < kRareRequestsPosted; ++i) {
    for (const metrics::RpcMethod method : kAdminUnary) RequestUnary(method);
    RequestUnary(metrics::RpcMethod::kHealthCheck);
    RequestSubscribe();
    RequestScheduleStream();
    RequestWatch();
    RequestReflection();
  }
  ArmSweep();
  thread_ = std::thread([this] { Run(); });
  const std::string name = absl::StrCat("rpc-", index_);
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

void CqWorker::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (cq_->Next(&tag, &ok)) {
    static_cast<CompletionTag*>(tag)->Complete(ok);
    if (stop_seen_) EndIfIdle();
  }
}

// ---- From other threads ------------------------------------------------------------------------

void CqWorker::Push(uint16_t shard, delivery::Effects effects) {
  base::MutexLock lock(&mutex_);
  if (closed_) return;
  inbox_.push_back({.shard = shard, .effects = std::move(effects)});
  WakeLocked();
}

void CqWorker::RunHere(std::function<void()> task) {
  base::MutexLock lock(&mutex_);
  if (closed_) return;
  tasks_.push_back(std::move(task));
  WakeLocked();
}

void CqWorker::Wake() {
  base::MutexLock lock(&mutex_);
  WakeLocked();
}

void CqWorker::WakeLocked() {
  // Set under the lock: the queue must not be shut down in between, nor the alarm set twice.
  if (closed_ || waking_) return;
  waking_ = true;
  wake_alarm_.Set(cq_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &wake_tag_);
}

void CqWorker::Stop(uint64_t grace_ms) {
  base::MutexLock lock(&mutex_);
  stopping_ = true;
  stop_grace_ms_ = grace_ms;
  WakeLocked();
}

void CqWorker::Join() {
  if (thread_.joinable()) thread_.join();
}

// ---- The thread --------------------------------------------------------------------------------

void CqWorker::OnWake(bool ok) {
  static_cast<void>(ok);
  bool stopping = false;
  uint64_t grace_ms = 0;
  {
    base::MutexLock lock(&mutex_);
    waking_ = false;
    std::swap(batch_, inbox_);
    std::swap(task_batch_, tasks_);
    stopping = stopping_;
    grace_ms = stop_grace_ms_;
  }
  for (Parcel& parcel : batch_) Carry(parcel.shard, std::move(parcel.effects));
  batch_.clear();
  for (const auto& task : task_batch_) task();
  task_batch_.clear();
  streams_.PumpTouched();

  const ServingState state = context_->state.load();
  const bool ending = Ending();
  if (state != seen_state_ || ending != seen_ending_) {
    seen_state_ = state;
    seen_ending_ = ending;
    for (auto& [session, owner] : sessions_) session->OnServingState();
    handlers_.pulls().OnServingState();
  }
  if (stopping && !stop_seen_) {
    stop_seen_ = true;
    abandon_at_mono_ms_ = context_->clock->Read().mono_ms + grace_ms;
  }
}

void CqWorker::CarrySchedules(uint16_t shard, std::vector<delivery::ScheduleReply> replies) {
  for (auto& reply : replies) {
    if (!IsFrame(reply.tag)) {
      handlers_.OnScheduleReply(CallOf(reply.tag), shard, std::move(reply));
      continue;
    }
    const auto found = frames_.find(static_cast<uint64_t>(reply.tag));
    // Of a stream that has ended: nobody is left to tell.
    if (found != frames_.end()) found->second->OnReply(shard, std::move(reply));
  }
}

void CqWorker::Carry(uint16_t shard, delivery::Effects effects) {
  CarrySchedules(shard, std::move(effects.schedules));
  for (const auto& reply : effects.cancels) {
    handlers_.lifecycle().OnCancelReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.reschedules) {
    handlers_.lifecycle().OnRescheduleReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.gets) {
    handlers_.lifecycle().OnGetReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.inspects) {
    handlers_.queries().OnInspectReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.objects) {
    if (reply.tag == kNobody) continue;
    handlers_.topics().OnObjectReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.topics) {
    handlers_.topics().OnTopicReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.operations) {
    handlers_.operations().OnOperationReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.recurrences) {
    handlers_.recurrences().OnRecurrenceReply(CallOf(reply.tag), reply);
  }
  for (const auto& reply : effects.subscriptions) {
    handlers_.subscription_changes().OnReply(reply);
  }
  for (const auto& reply : effects.settles) {
    if (StreamSink* stream = streams_.Touch(reply.stream)) stream->AddSettles(reply);
  }
  if (!effects.frames.empty()) {
    const base::Now now = context_->clock->Read();
    for (auto& frame : effects.frames) {
      if (StreamSink* stream = streams_.Touch(frame.stream)) {
        stream->AddDeliveries(now, std::move(frame.deliveries));
      }
    }
  }
  for (const auto& reply : effects.subscription_gauges) {
    handlers_.subscriptions().OnInspectReply(CallOf(reply.tag), reply);
  }
  // Behind the frames: a Pull asks so whether everything has come.
  for (const auto& reply : effects.echoes) handlers_.pulls().OnEcho(CallOf(reply.tag));
}

UnaryCall* CqWorker::CallOf(delivery::CallTag tag) {
  const uint64_t index = static_cast<uint64_t>(tag) & ((uint64_t{1} << kWorkerShift) - 1);
  DT_CHECK_LT(index, calls_.size());
  return &calls_[index];
}

void CqWorker::ArmSweep() {
  SetAlarm(SweepMs(context_->options.heartbeat_ms), &sweep_alarm_, &sweep_tag_);
}

void CqWorker::SetAlarm(uint64_t ms, grpc::Alarm* alarm, CompletionTag* tag) {
  // Not the realtime clock: a step of it would stretch or shorten the time.
  const gpr_timespec deadline = gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(static_cast<int64_t>(ms), GPR_TIMESPAN));
  alarm->Set(cq_.get(), deadline, tag);
}

void CqWorker::OnSweep(bool ok) {
  if (!ok || queue_shut_) return;  // cancelled: the worker ends
  const base::Now now = context_->clock->Read();
  for (auto& [session, owner] : sessions_) session->Sweep(now);
  handlers_.pulls().OnSweep();
  if (stop_seen_ && now.mono_ms >= abandon_at_mono_ms_) AbandonWaitingCalls();
  ArmSweep();
}

void CqWorker::AbandonWaitingCalls() {
  {
    // From here on replies are dropped, so that none can meet a call object that is used again.
    base::MutexLock lock(&mutex_);
    closed_ = true;
    inbox_.clear();
    tasks_.clear();
  }
  handlers_.pulls().Abandon();
  for (UnaryCall& call : calls_) {
    if (call.waiting()) call.FinishWithError(base::DrainingError());
  }
}

void CqWorker::EndIfIdle() {
  if (open_ > 0 || queue_shut_) return;
  {
    base::MutexLock lock(&mutex_);
    closed_ = true;
    inbox_.clear();
    tasks_.clear();
  }
  queue_shut_ = true;
  sweep_alarm_.Cancel();
  cq_->Shutdown();
}

// ---- Calls and sessions ------------------------------------------------------------------------

void CqWorker::RequestUnary(metrics::RpcMethod method) {
  if (free_.empty()) {
    const uint64_t tag = uint64_t{index_} << kWorkerShift | calls_.size();
    calls_.emplace_back(this, delivery::CallTag{tag});
    free_.push_back(&calls_.back());
  }
  UnaryCall* call = free_.back();
  free_.pop_back();
  call->Request(method);
}

void CqWorker::OnCallArrived(UnaryCall* call) {
  ++open_;
  if (!Ending()) RequestUnary(call->method());
  handlers_.Handle(call);
}

void CqWorker::OnSessionOpened(std::unique_ptr<Session> session) {
  ++open_;
  Session* key = session.get();
  sessions_.emplace(key, std::move(session));
}

void CqWorker::OnSessionEnded(Session* session) {
  --open_;
  DT_CHECK_EQ(sessions_.erase(session), 1u);
}

delivery::CallTag CqWorker::AddFrame(ScheduleStream* stream) {
  const delivery::CallTag tag = NewTag();
  frames_.emplace(static_cast<uint64_t>(tag), stream);
  return tag;
}

delivery::CallTag CqWorker::NewTag() {
  return delivery::CallTag{uint64_t{index_} << kWorkerShift | kFrameBit | next_frame_++};
}

void CqWorker::RemoveFrame(delivery::CallTag tag) { frames_.erase(static_cast<uint64_t>(tag)); }

void CqWorker::RequestScheduleStream() {
  if (!Ending()) ScheduleStream::Request(this);
}

void CqWorker::RequestSubscribe() {
  if (!Ending()) SubscriberStream::Request(this);
}

void CqWorker::RequestWatch() {
  if (!Ending()) HealthWatch::Request(this);
}

void CqWorker::RequestReflection() {
  if (!Ending()) ReflectionStream::Request(this);
}

}  // namespace duetime::rpc
