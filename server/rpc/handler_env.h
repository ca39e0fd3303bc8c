// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <grpcpp/alarm.h>
#include <memory>

#include "absl/status/status.h"

#include "server/rpc/completion_tag.h"
#include "server/rpc/serving_context.h"
#include "server/rpc/stream_directory.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {

// What handlers need of the worker that they work for.
struct HandlerEnv {
  ServingContext* context = nullptr;
  // Runs a task on the worker's thread, soon. May be called by any thread; the task is dropped once
  // the worker has ended.
  std::function<void(std::function<void()>)> run_here;
  // A tag that is no call's, for commands whose answers belong to what a handler keeps by itself.
  std::function<delivery::CallTag()> new_tag;
  StreamDirectory* streams = nullptr;
  // Completes `tag` on the worker's thread after a time, or, with false, when the alarm is
  // cancelled before.
  std::function<void(uint64_t ms, grpc::Alarm* alarm, CompletionTag* tag)> set_alarm;

  // Runs `read(store, state)` on the reader's thread and then `answer(state)` on the worker's. If
  // the reader has no room or the read fails, the call is answered with that instead. The state is
  // shared, because a call may be given up while the reader is busy; what would follow is dropped
  // then. REQUIRES: the environment outlives the worker's thread.
  template <typename State, typename Read, typename Answer>
  void ReadThen(UnaryCall* call, const std::shared_ptr<State>& state, Read read,
                Answer answer) const {
    call->state = state;
    const absl::Status posted = context->reader->Post([this, call, state, read, answer] {
      const absl::Status status = read(context->store, state.get());
      run_here([call, state, status, answer] {
        if (!status.ok()) return call->FinishWithError(ReadError(status));
        answer(state.get());
      });
    });
    if (!posted.ok()) call->FinishWithError(posted);
  }
};

}  // namespace duetime::rpc
