// SPDX-License-Identifier: Apache-2.0
//
// Reader: the thread for long reads.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/status/status.h"

#include "server/base/mutex.h"

namespace duetime::runtime {

// Runs jobs one at a time, in the order of Post: pages of lists, forecasts, and other long reads of
// the store, which must not delay an engine or a completion queue.
//
// Guarantees: (1) at most `jobs_max` jobs wait; (2) every accepted job runs, also after Stop. Cost:
// one lock per job. Thread safety: Post and waiting from any thread; the owner calls Start and
// Stop.
class Reader {
 public:
  // `name`: of the thread, at most 15 characters.
  explicit Reader(size_t jobs_max, const char* name = "reader")
      : jobs_max_(jobs_max), name_(name) {}
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void Start();
  // Runs the waiting jobs, then ends the thread. Idempotent.
  void Stop();

  // RESOURCE_EXHAUSTED OVERLOADED if too many jobs wait. UNAVAILABLE DRAINING after Stop.
  absl::Status Post(std::function<void()> job);

  // Jobs that wait or run.
  size_t waiting() const;

 private:
  void Run();

  const size_t jobs_max_;
  const char* const name_;
  std::thread thread_;
  mutable base::Mutex mutex_;
  base::CondVar wake_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
