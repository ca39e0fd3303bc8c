// SPDX-License-Identifier: Apache-2.0
//
// PairCollector: reads the numbers of all subscriptions for their metrics.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "server/api/api_worker.h"
#include "server/base/mutex.h"
#include "server/metrics/pair_table.h"

namespace duetime::api {

// Asks the shards for the numbers of all topics and subscriptions, a slice at a time, and the
// reader's thread for the backlogs of those that the table has chosen, a topic at a time. (A topic
// all of whose subscriptions were deleted may show no backlog, because its number is not known
// here.)
//
// Cost: only at a scrape. For each subscription one look-up in each shard; for each chosen pair the
// reads of query::ReadBacklogs. Thread safety: one thread at a time calls Refresh, which is not a
// worker's; the rest runs on the worker's and on the reader's thread.
class PairCollector final : public ReplySink {
 public:
  // REQUIRES: all pointers outlive it; `worker` and the reader run no more when it is destroyed.
  PairCollector(ServingContext* context, ApiWorker* worker, metrics::PairTable* table)
      : context_(context), worker_(worker), table_(table) {}

  // Updates the table, and waits for that. After `timeout`, or if a shard refuses, the table keeps
  // what it has; what still runs continues.
  void Refresh(std::chrono::milliseconds timeout);

  void OnReply(uint16_t shard, protocol::Reply reply) override;

 private:
  // ---- On the worker's thread
  void Begin();
  void AskNext();
  void ReadBacklogs();
  void End();

  // ---- On the reader's thread, but for the first call of ReadNext
  void ReadNext();
  void ReadTopic();

  ServingContext* const context_;
  ApiWorker* const worker_;
  metrics::PairTable* const table_;

  base::Mutex mutex_;
  base::CondVar ended_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the run on the worker's thread.
  protocol::CallTag tag_{};
  metrics::PairSamples samples_;
  size_t next_topic_ = 0;
  size_t next_pair_ = 0;
  std::shared_ptr<const protocol::ActivityList> asked_;
  size_t open_ = 0;
  bool failed_ = false;
  // Of the reads.
  std::vector<metrics::PairTable::Shown> shown_;
  size_t next_shown_ = 0;
};

}  // namespace duetime::api
