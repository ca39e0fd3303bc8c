// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/asked_topics.h"

#include <utility>

#include "server/api/await.h"
#include "server/base/check.h"

namespace duetime::api {

AskedTopics::~AskedTopics() {
  for (const auto& [tag, name] : open_) {
    worker_->catalog_replies().Remove(catalog::RequestTag{tag});
  }
}

void AskedTopics::Start(std::function<void()> done) {
  for (auto& [name, dead_letters] : std::exchange(job_->missing, {})) {
    const catalog::RequestTag tag = worker_->catalog_replies().Add(this);
    absl::Status status = worker_->node().PostToCatalog(
        catalog::EnsureTopic{.tag = tag, .name = name, .dead_letters = dead_letters});
    if (status.ok()) {
      open_.emplace(static_cast<uint64_t>(tag), name);
    } else {
      worker_->catalog_replies().Remove(tag);
      job_->ensured.insert_or_assign(name, std::move(status));
    }
  }
  if (open_.empty()) return done();
  done_ = std::move(done);
}

void AskedTopics::OnReply(catalog::Reply reply) {
  const auto found = open_.find(static_cast<uint64_t>(reply.tag));
  DT_CHECK(found != open_.end());
  if (reply.status.ok()) {
    job_->ensured.insert_or_assign(std::move(found->second), std::move(reply.topic));
  } else {
    job_->ensured.insert_or_assign(std::move(found->second), std::move(reply.status));
  }
  open_.erase(found);
  worker_->catalog_replies().Remove(reply.tag);
  if (!open_.empty()) return;
  const std::function<void()> done = std::move(done_);
  done();
}

Co<bool> AskForTopics(ApiWorker& worker, ScheduleJob* job) {
  AskedTopics asked(&worker, job);
  auto asking = WaitFor<bool>(
      [&asked](const std::function<void(bool)>& done) { asked.Start([done] { done(true); }); });
  co_return co_await asking;
}

}  // namespace duetime::api
