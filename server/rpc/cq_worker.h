// SPDX-License-Identifier: Apache-2.0
//
// CqWorker: one completion queue, its thread, and all calls that live on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "duetime/v1/messages.pb.h"
#include "server/base/mutex.h"
#include "server/delivery/commands.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/message_io.h"
#include "server/rpc/services.h"
#include "server/rpc/serving_context.h"
#include "server/rpc/stream_directory.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/unary_handlers.h"

namespace duetime::rpc {

class ScheduleStream;
class Session;

// Calls and streams carry their worker's index in their tag or id, so that an answer finds its way
// back.
constexpr int kWorkerShift = 56;
constexpr size_t kWorkersMax = 256;
// Set in the tags of frames of streams, which are not in the list of calls.
constexpr uint64_t kFrameBit = static_cast<uint64_t>(kNobody);
constexpr bool IsFrame(delivery::CallTag tag) {
  return (static_cast<uint64_t>(tag) & kFrameBit) != 0;
}
constexpr size_t WorkerOf(delivery::CallTag tag) {
  return static_cast<size_t>(static_cast<uint64_t>(tag) >> kWorkerShift);
}
constexpr size_t WorkerOf(delivery::StreamId stream) {
  return static_cast<size_t>(static_cast<uint64_t>(stream) >> kWorkerShift);
}

// Runs a completion queue on a thread of its own. What comes from other threads (effects, changes
// of state) is put on a list under a short lock, and one alarm per list, not per item, wakes the
// thread.
//
// Guarantees: everything but Push, Wake and the life functions happens on the worker's thread,
// which never blocks. Call objects are used again; their number is that of the calls open at once.
class CqWorker {
 public:
  CqWorker(ServingContext* context, Services* services, size_t index,
           std::unique_ptr<grpc::ServerCompletionQueue> cq);
  ~CqWorker();
  CqWorker(const CqWorker&) = delete;
  CqWorker& operator=(const CqWorker&) = delete;

  // ---- Life; one thread.

  // Posts the first requests and starts the thread. REQUIRES: the gRPC server has been started.
  void Start();
  // Lets the thread end once no call is open; calls that still wait for a shard after
  // `grace_ms` are answered with DRAINING. REQUIRES: the gRPC server has been shut down.
  void Stop(uint64_t grace_ms);
  void Join();

  // ---- Any thread.

  // Hands over what a shard wants done. Does nothing once the worker has ended.
  void Push(uint16_t shard, delivery::Effects effects);
  // Runs `task` on the worker's thread. Drops it once the worker has ended.
  void RunHere(std::function<void()> task);
  // Makes the worker look at the serving state.
  void Wake();

  // ---- The worker's thread only.

  ServingContext& context() { return *context_; }
  Services& services() { return *services_; }
  grpc::ServerCompletionQueue* cq() { return cq_.get(); }

  void OnCallArrived(UnaryCall* call);
  void OnCallEnded() { --open_; }
  void Recycle(UnaryCall* call) { free_.push_back(call); }

  // A session has opened: from here on the worker owns it, tells it of changes, and keeps running
  // for it. Posts the request for the next one of its kind.
  void OnSessionOpened(std::unique_ptr<Session> session);
  // Deletes it. REQUIRES: none of its operations is outstanding.
  void OnSessionEnded(Session* session);
  // Sessions open now.
  size_t sessions() const { return sessions_.size(); }

  StreamDirectory& streams() { return streams_; }
  SubscriptionChanges& subscription_changes() { return handlers_.subscription_changes(); }
  // The client of a call that waits for long has gone.
  void OnCallGone(UnaryCall* call) { handlers_.pulls().OnCallGone(call); }
  // Each stream has at most one frame at a time to build, so they share the message.
  ReusedMessage<v1::SubscribeResponse>& subscribe_response() { return subscribe_response_; }
  ReusedMessage<v1::SubscribeRequest>& subscribe_request() { return subscribe_request_; }

  // Gives a frame of a stream a tag, under which its answers come.
  delivery::CallTag AddFrame(ScheduleStream* stream);
  // The same for nobody's frame.
  delivery::CallTag NewTag();
  void RemoveFrame(delivery::CallTag tag);
  Intake& intake() { return handlers_.intake(); }
  // Shared like those of the subscribers.
  ReusedMessage<v1::ScheduleStreamRequest>& schedule_frame() { return schedule_frame_; }
  ReusedMessage<v1::ScheduleStreamResponse>& schedule_frame_response() {
    return schedule_frame_response_;
  }

  void RequestSubscribe();
  void RequestScheduleStream();
  void RequestWatch();
  void RequestReflection();

 private:
  void Run();
  void RequestUnary(metrics::RpcMethod method);
  void OnWake(bool ok);
  void OnSweep(bool ok);
  void ArmSweep();
  void SetAlarm(uint64_t ms, grpc::Alarm* alarm, CompletionTag* tag);
  void Carry(uint16_t shard, delivery::Effects effects);
  void CarrySchedules(uint16_t shard, std::vector<delivery::ScheduleReply> replies);
  void EndIfIdle();
  void AbandonWaitingCalls();
  UnaryCall* CallOf(delivery::CallTag tag);
  bool Ending() const { return context_->ending.load(std::memory_order_relaxed); }
  void WakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServingContext* const context_;
  Services* const services_;
  const size_t index_;
  std::unique_ptr<grpc::ServerCompletionQueue> cq_;
  std::thread thread_;
  // Before those who use it.
  StreamDirectory streams_;
  UnaryHandlers handlers_;

  // What one shard wants done.
  struct Parcel {
    uint16_t shard = 0;
    delivery::Effects effects;
  };

  // The lists from the other threads.
  base::Mutex mutex_;
  std::vector<Parcel> inbox_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  // The alarm is on its way: it must not be set again before it has been delivered.
  bool waking_ ABSL_GUARDED_BY(mutex_) = false;
  // The queue takes no more alarms.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t stop_grace_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Alarm wake_alarm_ ABSL_GUARDED_BY(mutex_);

  // The thread's own.
  std::vector<Parcel> batch_;
  std::vector<std::function<void()>> task_batch_;
  grpc::Alarm sweep_alarm_;
  MemberTag<CqWorker, &CqWorker::OnWake> wake_tag_{this};
  MemberTag<CqWorker, &CqWorker::OnSweep> sweep_tag_{this};
  std::deque<UnaryCall> calls_;
  std::vector<UnaryCall*> free_;
  absl::flat_hash_map<Session*, std::unique_ptr<Session>> sessions_;
  // Frames that a shard has not answered yet, by tag.
  absl::flat_hash_map<uint64_t, ScheduleStream*> frames_;
  uint64_t next_frame_ = 1;
  ReusedMessage<v1::SubscribeResponse> subscribe_response_;
  ReusedMessage<v1::SubscribeRequest> subscribe_request_;
  ReusedMessage<v1::ScheduleStreamRequest> schedule_frame_;
  ReusedMessage<v1::ScheduleStreamResponse> schedule_frame_response_;
  // Calls and sessions that have arrived and not ended.
  size_t open_ = 0;
  ServingState seen_state_ = ServingState::kStarting;
  bool seen_ending_ = false;
  bool stop_seen_ = false;
  uint64_t abandon_at_mono_ms_ = 0;
  bool queue_shut_ = false;
};

}  // namespace duetime::rpc
