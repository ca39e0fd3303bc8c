// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/asked_topics.h"

#include <utility>
#include <variant>

#include "server/api/await.h"
#include "server/base/check.h"

namespace duetime::api {

AskedTopics::~AskedTopics() {
  for (const auto& [tag, name] : open_) {
    worker_->catalog_replies().Remove(catalog::RequestTag{tag});
  }
  if (check_ == nullptr) return;
  worker_->replies().Remove(check_tag_);
  worker_->ReturnJob(std::move(check_));
}

void AskedTopics::Start(std::function<void()> done) {
  done_ = std::move(done);
  if (PostCheck()) return;
  if (check_ != nullptr) EndCheck();
  PostToCatalog();
}

bool AskedTopics::PostCheck() {
  const catalog::Snapshot& catalog = worker_->context().catalog();
  for (size_t i = 0; i < requests_.size(); ++i) {
    const std::string& topic = requests_[i]->topic();
    const bool known =
        job_->missing.contains(topic) && catalog.FindTopicEvenIfDeleted(topic) != nullptr;
    if (known && !job_->refused.contains(i)) checked_.push_back(i);
  }
  if (checked_.empty()) return false;
  check_ = worker_->TakeJob();
  check_tag_ = worker_->replies().Add(this);
  ScheduleRouter& router = worker_->router();
  router.Begin(checked_.size(), check_.get());
  for (const size_t position : checked_) {
    v1::ScheduleRequest request = *requests_[position];
    request.set_validate_only(true);
    router.Add(request, static_cast<int>(position), check_.get());
  }
  return router.Post(check_tag_, check_.get());
}

void AskedTopics::OnReply(uint16_t shard, protocol::Reply reply) {
  auto& scheduled = std::get<protocol::ScheduleReply>(reply);
  if (!worker_->router().Take(shard, std::move(scheduled), check_.get())) return;
  EndCheck();
  PostToCatalog();
}

void AskedTopics::EndCheck() {
  // If the storage has failed, the check says nothing, and the catalog gives the answer.
  if (!absl::IsUnavailable(check_->status)) KeepRefusals();
  checked_.clear();
  worker_->replies().Remove(check_tag_);
  worker_->ReturnJob(std::move(check_));
}

void AskedTopics::KeepRefusals() {
  const std::vector<absl::Status> refusals = worker_->router().Refusals(*check_);
  DT_CHECK_EQ(refusals.size(), checked_.size());
  // The topics with an accepted message, and if one of their messages needs dead letters.
  absl::flat_hash_map<std::string, bool> used;
  for (size_t i = 0; i < checked_.size(); ++i) {
    const v1::ScheduleRequest& request = *requests_[checked_[i]];
    if (!refusals[i].ok() && !used.contains(request.topic())) {
      job_->refused.emplace(checked_[i], refusals[i]);
    } else if (!request.validate_only()) {
      used[request.topic()] |= request.late_policy() == v1::Message::LATE_POLICY_DEAD_LETTER;
    }
  }
  for (const size_t position : checked_) {
    const std::string& topic = requests_[position]->topic();
    const auto found = used.find(topic);
    if (found == used.end()) {
      job_->missing.erase(topic);
    } else if (const auto missing = job_->missing.find(topic); missing != job_->missing.end()) {
      missing->second = found->second;
    }
  }
}

void AskedTopics::PostToCatalog() {
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
  if (!open_.empty()) return;
  const std::function<void()> done = std::move(done_);
  done();
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

Co<bool> AskForTopics(ApiWorker& worker, ScheduleRequests requests, ScheduleJob* job) {
  AskedTopics asked(&worker, requests, job);
  auto asking = WaitFor<bool>(
      [&asked](const std::function<void(bool)>& done) { asked.Start([done] { done(true); }); });
  co_return co_await asking;
}

}  // namespace duetime::api
