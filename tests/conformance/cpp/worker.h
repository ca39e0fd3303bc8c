// SPDX-License-Identifier: Apache-2.0
//
// Worker: a subscriber whose handlers do what the runner says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/span.h"

#include "client/cpp/subscriber.h"
#include "server/base/mutex.h"
#include "tests/conformance/cpp/wire.h"

namespace duetime::conformance {

// Reports each call of its handler, which then waits for Finish, or acks by itself in the mode
// "ack". Thread-safe.
class Worker {
 public:
  // The fields of subscriber_start.
  Worker(const Json& request, const client::ServerAddress& server);
  // Lets the waiting handlers return without a settlement, and stops the subscriber.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Lets call `n` of the handler return the `settlement` or the `settlements` of `ending`.
  void Finish(int64_t n, const Json& ending);
  // Returns true if every handler returned and every settlement was confirmed.
  bool Stop(absl::Duration handlers, absl::Duration confirm);
  Json Counts() const;

 private:
  absl::StatusOr<std::unique_ptr<client::Subscriber>> Start(const Json& request,
                                                            const client::ServerAddress& server);
  client::Settlement Handle(const client::Delivery& delivery);
  std::vector<client::Settlement> HandleBatch(absl::Span<const client::Delivery> deliveries);
  // Reports a call of the handler, waits for its end, and returns that.
  Json Await(absl::Span<const client::Delivery> deliveries, Json event);
  // Reports the error that ends the subscriber, if one does.
  void Watch();

  const std::string name_;
  const bool manual_;
  const absl::Duration handler_time_;
  const std::optional<std::string> exit_on_;

  base::Mutex mutex_;
  base::CondVar changed_;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Json> endings_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<client::Subscriber> subscriber_;
  std::thread watcher_;
};

}  // namespace duetime::conformance
