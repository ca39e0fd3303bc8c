// SPDX-License-Identifier: Apache-2.0
//
// CqWorker: one completion queue, its thread, and all calls that live on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/status.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"

#include "server/base/mutex.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/log_throttle.h"
#include "server/rpc/methods.h"
#include "server/rpc/server_state.h"
#include "server/rpc/services.h"
#include "server/rpc/session.h"
#include "server/rpc/slow_log.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// Runs a completion queue on a thread of its own. Other threads add tasks to a list under a short
// lock. One alarm per list, not per task, wakes the thread.
//
// Guarantees: every function except RunHere, Wake and the life functions runs on the worker's
// thread, which never blocks. Call objects are reused, so their number grows only with the number
// of calls that are open at once.
class CqWorker {
 public:
  using Task = absl::AnyInvocable<void()>;

  CqWorker(ServerState* state, Services* services, const ServedMethods* served, size_t index,
           std::unique_ptr<grpc::ServerCompletionQueue> cq, UntakenAnswers::Limit* untaken);
  ~CqWorker();
  CqWorker(const CqWorker&) = delete;
  CqWorker& operator=(const CqWorker&) = delete;

  // ---- Life; one thread.

  // Posts the first requests and starts the thread. REQUIRES: the gRPC server has been started.
  void Start();
  // Makes the thread end when no call is open. Calls that have no answer after `grace_ms` are
  // answered with DRAINING. REQUIRES: the gRPC server has been shut down.
  void Stop(uint64_t grace_ms);
  void Join();

  // ---- Any thread.

  // Runs `task` on the worker's thread. Drops `task` if the worker takes no more tasks.
  void RunHere(Task task);
  // Makes the worker check the serving state.
  void Wake();
  // Makes the worker look at the deadlines of its sessions and calls. Called at a steady pace.
  void Sweep();

  // ---- The worker's thread only.

  ServerState& state() { return *state_; }
  Services& services() { return *services_; }
  grpc::ServerCompletionQueue* cq() { return cq_.get(); }
  size_t index() const { return index_; }
  WorkerApp& app() { return *app_; }
  SlowLog& slow_log() { return slow_log_; }

  void OnCallArrived(UnaryCall* call);
  // Makes the call send its answer after call->delay_ms. False: not so, because kDelayedMax answers
  // wait, or the server ends.
  bool Delay(UnaryCall* call, const grpc::Status& status);
  void OnCallEnded() { --open_; }
  // gRPC is about to get the call's answer. Drops older answers if clients leave too many bytes
  // unread.
  void OnAnswer(UnaryCall* call, uint64_t bytes);
  // gRPC has sent the answer, or the call is over.
  void OnAnswerTaken(UnaryCall* call) { untaken_.Remove(call->answer()); }
  // Logs that the client at `peer` does not get its answer.
  void LogDrop(const std::string& peer);
  void Recycle(UnaryCall* call) { free_.push_back(call); }

  // Asks gRPC for the next call of a streaming method.
  void RequestStream(const StreamMethod* method);
  // Registers a session that has opened. The worker then owns the session, notifies it of changes,
  // and runs until it has ended.
  void OnSessionOpened(std::unique_ptr<Session> session);
  // Deletes the session. REQUIRES: none of its operations is outstanding.
  void OnSessionEnded(Session* session);
  // Calls session->Flush() after the present event, which is one completion, or all tasks of one
  // wake-up. At most once per event and session.
  void FlushLater(Session* session) { to_flush_.push_back(session); }
  // Answers that travel on streams and are not sent: adds or takes away bytes.
  void AddStreamAnswers(int64_t bytes) { untaken_.AddOfStreams(bytes); }
  // True if clients leave too many bytes of them unread.
  bool TooManyStreamAnswers() const { return untaken_.TooManyOfStreams(); }
  // The number of open sessions.
  size_t sessions() const { return sessions_.size(); }

  // True once shutdown has begun: the worker posts no more requests.
  bool ending() const { return state_->ending.load(std::memory_order_relaxed); }

 private:
  // Each of these calls has about 12 KiB, and the bytes of its answer, which UntakenAnswers bounds.
  static constexpr size_t kDelayedMax = 4'000;

  void Run();
  // Sends the delayed answers that are due by `mono_ms`.
  void SendDelayed(uint64_t mono_ms);
  // When the thread must look at the delayed answers again.
  gpr_timespec NextDelayed() const;
  void RequestUnary(const UnaryMethod* method);
  void OnWake(bool ok);
  void DoSweep();
  void FlushSessions();
  void EndIfIdle();
  // Drops all tasks, now and later.
  void DropTasks();
  void AbandonWaitingCalls();
  void WakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServerState* const state_;
  Services* const services_;
  const ServedMethods* const served_;
  const size_t index_;
  std::unique_ptr<grpc::ServerCompletionQueue> cq_;
  std::thread thread_;

  // Filled by other threads.
  base::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  // True if the alarm is set. It must not be set again before its tag arrives.
  bool waking_ ABSL_GUARDED_BY(mutex_) = false;
  bool sweep_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool drops_tasks_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the queue takes no more alarms.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t stop_grace_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Alarm wake_alarm_ ABSL_GUARDED_BY(mutex_);

  // Confined to the worker's thread. The app outlives the calls, because their coroutines use it.
  std::unique_ptr<WorkerApp> app_;
  std::vector<Task> task_batch_;
  MemberTag<CqWorker, &CqWorker::OnWake> wake_tag_{this};
  std::deque<UnaryCall> calls_;
  std::vector<UnaryCall*> free_;
  // By the time at which they leave.
  std::multimap<uint64_t, std::pair<UnaryCall*, grpc::Status>> delayed_;
  absl::flat_hash_map<Session*, std::unique_ptr<Session>> sessions_;
  std::vector<Session*> to_flush_;
  // The number of calls and sessions that have arrived and not ended.
  size_t open_ = 0;
  ServingState seen_state_ = ServingState::kStarting;
  bool seen_ending_ = false;
  bool stop_seen_ = false;
  uint64_t abandon_at_mono_ms_ = 0;
  bool queue_shut_ = false;
  UntakenAnswers untaken_;
  SlowLog slow_log_;
  LogThrottle drop_lines_;
};

}  // namespace duetime::rpc
