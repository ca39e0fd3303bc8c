// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/timer.h"

#include <grpcpp/alarm.h>
#include <utility>

#include "server/rpc/completion_tag.h"
#include "server/rpc/grpc_time.h"

namespace duetime::gateway {

class Timer::Ring final : public rpc::CompletionTag {
 public:
  Ring(Timer* timer, grpc::CompletionQueue* queue, uint64_t ms, absl::AnyInvocable<void()> run)
      : timer_(timer), run_(std::move(run)) {
    alarm_.Set(queue, rpc::AfterSteady(static_cast<int64_t>(ms)), this);
  }

  void Leave() {
    timer_ = nullptr;
    alarm_.Cancel();
  }

  void Complete(bool ok) override {
    static_cast<void>(ok);
    absl::AnyInvocable<void()> run;
    if (timer_ != nullptr) {
      timer_->ring_ = nullptr;
      run = std::move(run_);
    }
    delete this;
    if (run) run();
  }

 private:
  Timer* timer_;
  absl::AnyInvocable<void()> run_;
  grpc::Alarm alarm_;
};

Timer::Timer(grpc::CompletionQueue* queue, uint64_t ms, absl::AnyInvocable<void()> run)
    : ring_(new Ring(this, queue, ms, std::move(run))) {}

Timer::~Timer() {
  if (ring_ != nullptr) ring_->Leave();
}

}  // namespace duetime::gateway
