// SPDX-License-Identifier: Apache-2.0
//
// Creation of topics by use: a job asks the catalog for the topics that it does not find.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "server/api/api_worker.h"
#include "server/api/coroutine.h"
#include "server/api/messages/schedule_router.h"

namespace duetime::api {

// Asks for the missing topics of one job. Thread safety: confined to the worker's thread.
class AskedTopics final : public CatalogReplySink {
 public:
  // REQUIRES: `job` outlives the object.
  AskedTopics(ApiWorker* worker, ScheduleJob* job) : worker_(worker), job_(job) {}
  ~AskedTopics();
  AskedTopics(const AskedTopics&) = delete;
  AskedTopics& operator=(const AskedTopics&) = delete;

  // Moves the answers for job->missing into job->ensured, and calls `done`, perhaps at once. `done`
  // may destroy the object.
  void Start(std::function<void()> done);

  void OnReply(catalog::Reply reply) override;

 private:
  ApiWorker* const worker_;
  ScheduleJob* const job_;
  std::function<void()> done_;
  // The topics without an answer, by tag.
  absl::flat_hash_map<uint64_t, std::string> open_;
};

// Returns when the catalog has answered for all missing topics of the job.
Co<bool> AskForTopics(ApiWorker& worker, ScheduleJob* job);

}  // namespace duetime::api
