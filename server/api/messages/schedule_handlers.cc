// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_handlers.h"

#include <coroutine>
#include <memory>
#include <utility>
#include <variant>

#include "duetime/v1/messages.pb.h"
#include "server/api/messages/asked_topics.h"
#include "server/api/unary.h"
#include "server/api/validation_error.h"

namespace duetime::api {
namespace {

// The job of one call: co_await posts it, and returns when all its shards have answered.
class PostedJob final : public ReplySink {
 public:
  explicit PostedJob(ApiWorker* worker)
      : worker_(worker), tag_(worker->replies().Add(this)), job_(worker->TakeJob()) {}
  ~PostedJob() {
    worker_->replies().Remove(tag_);
    worker_->ReturnJob(std::move(job_));
  }
  PostedJob(const PostedJob&) = delete;
  PostedJob& operator=(const PostedJob&) = delete;

  ScheduleJob* get() { return job_.get(); }

  void OnReply(uint16_t shard, protocol::Reply reply) override {
    auto& scheduled = std::get<protocol::ScheduleReply>(reply);
    if (worker_->router().Take(shard, std::move(scheduled), job_.get())) waiting_.resume();
  }

  bool await_ready() { return !worker_->router().Post(tag_, job_.get()); }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  // The status of the job as a whole.
  absl::Status await_resume() { return job_->status; }

 private:
  ApiWorker* const worker_;
  const protocol::CallTag tag_;
  std::unique_ptr<ScheduleJob> job_;
  std::coroutine_handle<> waiting_;
};

void AddAll(ScheduleRouter& router, const v1::ScheduleBatchRequest& request, ScheduleJob* job) {
  for (int i = 0; i < request.messages_size(); ++i) router.Add(request.messages(i), i, job);
}

}  // namespace

CallTask Schedule(ApiWorker& worker, rpc::Call& call) {
  const auto* request = ParseOrFinish<v1::ScheduleRequest>(worker, call);
  if (request == nullptr) co_return;
  PostedJob job(&worker);
  worker.router().Begin(1, job.get());
  job.get()->trace = TraceContextOf(call);
  worker.router().Add(*request, kSingle, job.get());
  if (worker.router().DropIfMissing(*job.get())) {
    // Other calls use the parsed message while this one waits.
    const auto kept = std::make_unique<v1::ScheduleRequest>(*request);
    const v1::ScheduleRequest* const one = kept.get();
    co_await AskForTopics(worker, ScheduleRequests(&one, 1), job.get());
    worker.router().BeginAgain(1, job.get());
    worker.router().Add(*kept, kSingle, job.get());
  }
  absl::Status status = co_await job;
  auto* response = ApiWorker::Reused<v1::ScheduleResponse>(0);
  if (status.ok()) status = worker.router().FillResponse(*job.get(), response);
  call.Finish(status, *response);
}

CallTask ScheduleBatch(ApiWorker& worker, rpc::Call& call) {
  RefusedItems refused;
  const auto* request = ParseBatchOrFinish<v1::ScheduleBatchRequest>(worker, call, &refused);
  if (request == nullptr) co_return;
  PostedJob job(&worker);
  const auto count = static_cast<size_t>(request->messages_size());
  worker.router().Begin(count, job.get());
  job.get()->trace = TraceContextOf(call);
  job.get()->refused = std::move(refused);
  AddAll(worker.router(), *request, job.get());
  std::unique_ptr<const v1::ScheduleBatchRequest> kept;
  // An existing topic may be deleted while the catalog creates another. Each round adds a topic of
  // the batch to the job, which keeps it, so the loop ends.
  while (worker.router().DropIfMissing(*job.get())) {
    if (kept == nullptr) kept = std::make_unique<v1::ScheduleBatchRequest>(*request);
    const ScheduleRequests requests(kept->messages().data(), count);
    co_await AskForTopics(worker, requests, job.get());
    worker.router().BeginAgain(count, job.get());
    AddAll(worker.router(), *kept, job.get());
  }
  const absl::Status status = co_await job;
  const size_t items = job.get()->items.size();
  auto* response = ApiWorker::Reused<v1::ScheduleBatchResponse>(items * sizeof(v1::Message));
  if (status.ok()) worker.router().FillResults(*job.get(), response->mutable_results());
  call.Finish(status, *response);
}

}  // namespace duetime::api
