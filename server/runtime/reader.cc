// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/reader.h"

#include <pthread.h>
#include <utility>

#include "server/base/error.h"

namespace duetime::runtime {

Reader::~Reader() { Stop(); }

void Reader::Start() {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), name_);
}

void Reader::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Reader::Post(std::function<void()> job) {
  base::MutexLock lock(&mutex_);
  if (stopping_) return base::DrainingError();
  if (jobs_.size() >= jobs_max_) return base::OverloadedError("queue of reads", jobs_max_);
  jobs_.push_back(std::move(job));
  wake_.NotifyAll();
  return absl::OkStatus();
}

size_t Reader::waiting() const {
  base::MutexLock lock(&mutex_);
  return jobs_.size() + (running_ ? 1 : 0);
}

void Reader::Run() {
  for (;;) {
    std::function<void()> job;
    {
      base::MutexLock lock(&mutex_);
      running_ = false;
      while (jobs_.empty() && !stopping_) wake_.Wait(&mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      running_ = true;
    }
    job();
  }
}

}  // namespace duetime::runtime
