// SPDX-License-Identifier: Apache-2.0
//
// Creation of topics by use: a job asks the catalog for the topics that it does not find.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "server/api/api_worker.h"
#include "server/api/messages/schedule_router.h"
#include "server/api/reply_table.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

// The requests of a job, in its order.
using ScheduleRequests = absl::Span<const v1::ScheduleRequest* const>;

// Asks for the missing topics of one job.
//
// A refused message creates no topic. The shards can refuse a message only if the catalog knows its
// topic: the topic was deleted and keeps the keys and request ids of its tombstones, or only its
// dead-letter topic is missing. The messages of such topics are first checked as with
// validate_only. A refusal is final if no earlier message of the topic is accepted, because nothing
// changes before it. Thread safety: confined to the worker's thread.
class AskedTopics final : public CatalogReplySink, public ReplySink {
 public:
  // REQUIRES: `requests` and `job` outlive the object.
  AskedTopics(ApiWorker* worker, ScheduleRequests requests, ScheduleJob* job)
      : worker_(worker), requests_(requests), job_(job) {}
  ~AskedTopics();
  AskedTopics(const AskedTopics&) = delete;
  AskedTopics& operator=(const AskedTopics&) = delete;

  // Moves the answers for job->missing into job->ensured and job->refused, and calls `done`,
  // perhaps at once. `done` may destroy the object.
  void Start(std::function<void()> done);

  void OnReply(uint16_t shard, protocol::Reply reply) override;
  void OnReply(catalog::Reply reply) override;

 private:
  // Posts the check. True if shards will answer.
  bool PostCheck();
  void EndCheck();
  // Moves the final refusals into the job, and forgets the topics that no message needs.
  void KeepRefusals();
  void PostToCatalog();

  ApiWorker* const worker_;
  const ScheduleRequests requests_;
  ScheduleJob* const job_;
  std::function<void()> done_;
  // The check: its job, and the positions of its messages in `requests_`. Null: there is none.
  std::unique_ptr<ScheduleJob> check_;
  protocol::CallTag check_tag_{};
  std::vector<size_t> checked_;
  // The topics without an answer, by tag.
  absl::flat_hash_map<uint64_t, std::string> open_;
};

// Returns when the missing topics of the job are answered. REQUIRES: `requests` outlives the call.
Co<bool> AskForTopics(ApiWorker& worker, ScheduleRequests requests, ScheduleJob* job);

}  // namespace duetime::api
