// SPDX-License-Identifier: Apache-2.0
//
// ApiWorker: the API on one thread of the gRPC shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "server/api/messages/schedule_router.h"
#include "server/api/messages/stream_directory.h"
#include "server/api/reply_table.h"
#include "server/api/serving_context.h"
#include "server/rpc/coroutine.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/message_io.h"

namespace duetime::api {

using rpc::CallTask;
using rpc::Co;

// A handler that must react to a change of the serving state while it waits.
class StateListener {
 public:
  virtual void OnServingState() = 0;
  // Called about once a second.
  virtual void OnSweep() = 0;

 protected:
  ~StateListener() = default;
};

// Passes replies and deliveries to the calls and streams of one thread, and holds the objects that
// the thread's handlers share. Thread safety: any thread may call Push and RunHere; the rest is
// confined to the worker's thread.
class ApiWorker final : public rpc::WorkerApp {
 public:
  ApiWorker(ServingContext* context, rpc::CqWorker* shell);
  ApiWorker(const ApiWorker&) = delete;
  ApiWorker& operator=(const ApiWorker&) = delete;

  // Passes on the part of a shard's effects that is for this thread.
  void Push(uint16_t shard, protocol::Effects effects);
  // Passes on the catalog's replies to calls of this thread.
  void Push(std::vector<catalog::Reply> replies);
  void RunHere(rpc::CqWorker::Task task) { shell_->RunHere(std::move(task)); }

  ServingContext& context() { return *context_; }
  // REQUIRES: the server serves.
  runtime::Node& node() { return *context_->node.load(std::memory_order_acquire); }
  ReplyTable& replies() { return replies_; }
  CatalogReplyTable& catalog_replies() { return catalog_replies_; }
  StreamDirectory& streams() { return streams_; }
  ScheduleRouter& router() { return router_; }

  void AddListener(StateListener* listener) { listeners_.insert(listener); }
  void RemoveListener(StateListener* listener) { listeners_.erase(listener); }

  // Reused job objects.
  std::unique_ptr<ScheduleJob> TakeJob();
  void ReturnJob(std::unique_ptr<ScheduleJob> job);

  void OnTasksDone() override { streams_.PumpTouched(); }
  void OnServingState() override;
  void OnSweep() override;

  // A reused message object of this thread. Valid until the next call for the same type, so not
  // across a co_await.
  template <typename T>
  static T* Reused(size_t bytes) {
    thread_local rpc::ReusedMessage<T> message;
    return message.Take(bytes);
  }

 private:
  void Distribute(uint16_t shard, protocol::Effects effects);

  ServingContext* const context_;
  rpc::CqWorker* const shell_;
  ReplyTable replies_;
  CatalogReplyTable catalog_replies_;
  StreamDirectory streams_;
  ScheduleRouter router_;
  absl::flat_hash_set<StateListener*> listeners_;
  std::vector<std::unique_ptr<ScheduleJob>> jobs_;
};

}  // namespace duetime::api
