// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/cq_worker.h"

#include <grpc/support/time.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/error.h"
#include "server/rpc/bidi_stream.h"
#include "server/rpc/grpc_time.h"
#include "server/rpc/health.h"
#include "server/rpc/reflection.h"

namespace duetime::rpc {
namespace {

constexpr int kStreamRequestsPosted = 10;

}  // namespace

CqWorker::CqWorker(ServerState* state, Services* services, const ServedMethods* served,
                   size_t index, std::unique_ptr<grpc::ServerCompletionQueue> cq,
                   UntakenAnswers::Limit* untaken)
    : state_(state),
      services_(services),
      served_(served),
      index_(index),
      cq_(std::move(cq)),
      app_(served->make_app(*this)),
      untaken_(untaken),
      slow_log_(state->slow_request_ms) {}

CqWorker::~CqWorker() {
  if (queue_shut_) return;
  // A worker that never started has posted nothing. Its queue must still be shut down and drained.
  cq_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (cq_->Next(&tag, &ok)) {
  }
}

void CqWorker::Start() {
  for (const UnaryMethod& method : served_->unary) {
    for (int i = 0; i < method.requests_posted; ++i) RequestUnary(&method);
  }
  for (int i = 0; i < kStreamRequestsPosted; ++i) {
    RequestUnary(&HealthCheckMethod());
    for (const StreamMethod& method : served_->streams) RequestStream(&method);
    HealthWatch::Request(this);
    ReflectionStream::Request(this);
  }
  thread_ = std::thread([this] { Run(); });
  const std::string name = absl::StrCat("rpc-", index_);
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

void CqWorker::Run() {
  void* tag = nullptr;
  bool ok = false;
  for (;;) {
    const auto next = cq_->AsyncNext(&tag, &ok, NextDelayed());
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    if (next == grpc::CompletionQueue::GOT_EVENT) static_cast<CompletionTag*>(tag)->Complete(ok);
    if (!to_flush_.empty()) FlushSessions();
    if (!delayed_.empty()) SendDelayed(state_->machine_clock->Read().mono_ms);
    if (stop_seen_) EndIfIdle();
  }
}

// ---- From other threads ------------------------------------------------------------------------

void CqWorker::RunHere(Task task) {
  base::MutexLock lock(&mutex_);
  if (drops_tasks_) return;
  tasks_.push_back(std::move(task));
  WakeLocked();
}

void CqWorker::Wake() {
  base::MutexLock lock(&mutex_);
  WakeLocked();
}

void CqWorker::Sweep() {
  base::MutexLock lock(&mutex_);
  sweep_asked_ = true;
  WakeLocked();
}

void CqWorker::WakeLocked() {
  // Set the alarm under the lock, so that no thread shuts the queue down or sets the alarm twice in
  // between.
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
  bool sweep = false;
  uint64_t grace_ms = 0;
  {
    base::MutexLock lock(&mutex_);
    waking_ = false;
    sweep = std::exchange(sweep_asked_, false);
    std::swap(task_batch_, tasks_);
    stopping = stopping_;
    grace_ms = stop_grace_ms_;
  }
  for (Task& task : task_batch_) task();
  task_batch_.clear();
  app_->OnTasksDone();

  const ServingState serving = state_->state.load();
  if (serving != seen_state_ || ending() != seen_ending_) {
    seen_state_ = serving;
    seen_ending_ = ending();
    for (auto& [session, owner] : sessions_) session->OnServingState();
    app_->OnServingState();
    if (ending()) SendDelayed(UINT64_MAX);
  }
  if (stopping && !stop_seen_) {
    stop_seen_ = true;
    abandon_at_mono_ms_ = state_->machine_clock->Read().mono_ms + grace_ms;
  }
  if (sweep) DoSweep();
}

void CqWorker::DoSweep() {
  if (queue_shut_) return;
  const base::Now now = state_->machine_clock->Read();
  for (auto& [session, owner] : sessions_) session->Sweep(now);
  app_->OnSweep();
  if (stop_seen_ && now.mono_ms >= abandon_at_mono_ms_) AbandonWaitingCalls();
}

void CqWorker::DropTasks() {
  base::MutexLock lock(&mutex_);
  drops_tasks_ = true;
  tasks_.clear();
}

void CqWorker::AbandonWaitingCalls() {
  // Drop all later answers, so that no answer reaches a reused call object. The sweeps go on,
  // because they end the streams that wait for such answers.
  DropTasks();
  for (UnaryCall& call : calls_) {
    if (!call.waiting()) continue;
    call.Abandon();
    call.FinishWithError(base::DrainingError());
  }
  for (auto& [session, owner] : sessions_) session->AbandonCalls();
}

void CqWorker::FlushSessions() {
  // A flush may delete its session.
  for (Session* const session : std::exchange(to_flush_, {})) session->Flush();
}

void CqWorker::EndIfIdle() {
  if (open_ > 0 || queue_shut_) return;
  DropTasks();
  {
    base::MutexLock lock(&mutex_);
    closed_ = true;
  }
  queue_shut_ = true;
  cq_->Shutdown();
}

// ---- Calls and sessions ------------------------------------------------------------------------

void CqWorker::RequestUnary(const UnaryMethod* method) {
  if (free_.empty()) free_.push_back(&calls_.emplace_back(this));
  UnaryCall* call = free_.back();
  free_.pop_back();
  call->Request(method);
}

void CqWorker::OnCallArrived(UnaryCall* call) {
  ++open_;
  if (!ending()) RequestUnary(&call->method());
  call->method().run(*app_, *call);
}

bool CqWorker::Delay(UnaryCall* call, const grpc::Status& status) {
  if (ending() || delayed_.size() >= kDelayedMax) return false;
  delayed_.emplace(state_->machine_clock->Read().mono_ms + call->delay_ms,
                   std::make_pair(call, status));
  state_->stats->errors_delayed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void CqWorker::SendDelayed(uint64_t mono_ms) {
  while (!delayed_.empty() && delayed_.begin()->first <= mono_ms) {
    const auto [call, status] = std::move(delayed_.extract(delayed_.begin()).mapped());
    state_->stats->errors_delayed.fetch_sub(1, std::memory_order_relaxed);
    call->SendDelayed(status);
  }
}

gpr_timespec CqWorker::NextDelayed() const {
  if (delayed_.empty()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const uint64_t now = state_->machine_clock->Read().mono_ms;
  const uint64_t due = delayed_.begin()->first;
  // gRPC waits by the wall clock. After a step back, the next sweep wakes the thread.
  return AfterSteady(static_cast<int64_t>(due > now ? due - now : 0));
}

void CqWorker::OnAnswer(UnaryCall* call, uint64_t bytes) {
  untaken_.Add(call->answer(), bytes);
  while (UntakenAnswers::Answer* const oldest = untaken_.TakeExcess()) {
    oldest->call()->DropAnswer();
  }
}

void CqWorker::LogDrop(const std::string& peer) {
  const auto more = drop_lines_.Pass(__FILE__, __LINE__, base::ReadMicros() / 1'000);
  if (!more.has_value()) return;
  spdlog::warn(
      "dropped an answer that {} did not read: unread answers together exceed "
      "untaken_answers_bytes_max = {} bytes ({} more such lines were left out)",
      peer, untaken_.bytes_max(), *more);
}

void CqWorker::RequestStream(const StreamMethod* method) {
  if (ending()) return;
  // The object owns itself until a call arrives.
  BidiStream* fresh = method->make(*app_, *this).release();
  services_->RequestStream(method->id, fresh->server_context(), fresh->stream(), cq_.get(),
                           fresh->RequestTag(method));
}

void CqWorker::OnSessionOpened(std::unique_ptr<Session> session) {
  ++open_;
  Session* key = session.get();
  sessions_.emplace(key, std::move(session));
}

void CqWorker::OnSessionEnded(Session* session) {
  --open_;
  std::erase(to_flush_, session);
  DT_CHECK_EQ(sessions_.erase(session), 1u);
}

}  // namespace duetime::rpc
