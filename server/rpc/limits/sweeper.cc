// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/sweeper.h"

#include <pthread.h>

#include "server/base/check.h"
#include "server/rpc/grpc_time.h"

namespace duetime::rpc {

void Sweeper::Start() {
  DT_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void Sweeper::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void Sweeper::Run() {
  pthread_setname_np(pthread_self(), "rpc-sweep");
  int64_t last_ms = wall_ms_();
  while (Wait()) {
    const int64_t now_ms = wall_ms_();
    if (now_ms < last_ms) {
      nudge_.emplace().Set(AfterSteady(1), [](bool) {});
      ++nudges_;
    }
    last_ms = now_ms;
    sweep_();
  }
}

bool Sweeper::Wait() {
  base::MutexLock lock(&mutex_);
  if (!stopping_) wake_.WaitFor(&mutex_, period_);  // sweeping early does no harm
  return !stopping_;
}

}  // namespace duetime::rpc
