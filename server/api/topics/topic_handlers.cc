// SPDX-License-Identifier: Apache-2.0
#include "server/api/topics/topic_handlers.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/api/await.h"
#include "server/api/operations/operation_handlers.h"
#include "server/api/page_token.h"
#include "server/api/query_validation.h"
#include "server/api/topics/topic_settings.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "server/query/forecast_query.h"

namespace duetime::api {
namespace {

using Topic = TopicRegistry::Topic;

absl::Status TopicExistsError(absl::string_view topic) {
  return base::MakeError(absl::StatusCode::kAlreadyExists,
                         absl::StrCat("topic ", topic, " exists with other settings"),
                         {.reason = "TOPIC_EXISTS",
                          .field = "topic.name",
                          .metadata = {{"topic", std::string(topic)}},
                          .retry_after_ms = 0});
}

absl::Status TopicNotEmptyError(absl::string_view topic, uint64_t messages) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("topic ", topic, " is not empty, pending messages: ", messages),
      {.reason = "TOPIC_NOT_EMPTY",
       .field = "",
       .metadata = {{"topic", std::string(topic)}, {"messages", absl::StrCat(messages)}},
       .retry_after_ms = 0});
}

absl::Status TopicRecursError(absl::string_view topic, size_t recurrences) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("topic ", topic, " has recurrences that make messages: ", recurrences,
                   "; delete them first"),
      {.reason = "TOPIC_NOT_EMPTY",
       .field = "",
       .metadata = {{"topic", std::string(topic)}, {"recurrences", absl::StrCat(recurrences)}},
       .retry_after_ms = 0});
}

void FillTopic(absl::string_view name, const TopicSettings& settings, v1::Topic* topic) {
  topic->set_name(std::string(name));
  ToProto(settings, topic->mutable_settings());
}

// Reserves a topic for one change, and writes it.
class TopicChange {
 public:
  // Nothing if another change is under way.
  TopicChange(ApiWorker* worker, const std::string& name)
      : worker_(worker), topic_(worker->context().topics.BeginChange(name)) {}
  ~TopicChange() {
    if (!topic_.has_value()) return;
    ServingContext& context = worker_->context();
    context.topics.EndChange(topic_->name);
    if (!reserved_) return;
    // A message used it again while its deletion was under way, and nothing else could be stored of
    // it.
    if (forget_ && !context.topics.FindEvenIfDeleted(topic_->name)->deleted) {
      context.ForgetTopicObject(topic_->name);
    }
    worker_->subscription_changes().Release(topic_->id);
  }
  TopicChange(const TopicChange&) = delete;
  TopicChange& operator=(const TopicChange&) = delete;

  absl::Status Begun(bool may_be_deleted, const std::string& name) const {
    if (!topic_.has_value()) return base::OverloadedError("queue of changes of this topic", 1);
    if (topic_->deleted && !may_be_deleted) return TopicNotFoundError(name);
    return absl::OkStatus();
  }
  // As it was. REQUIRES: Begun.
  const Topic& topic() const { return *topic_; }

  // Writes `object`, and tells the shards.
  Co<absl::Status> Write(TopicObject object) {
    ServingContext& context = worker_->context();
    bool used = false;
    forget_ = object.deleted;
    for (;;) {
      protocol::ObjectCommand command;
      command.kind = storage::ObjectKind::kTopicSettings;
      command.name = std::string(topic_->name);
      command.value = EncodeTopicObject(object);
      Ask<protocol::ObjectReply, protocol::ObjectCommand> ask(worker_, 0, std::move(command));
      const auto written = co_await ask;
      if (!written.ok()) co_return written.status();
      if (context.topics.Change(topic_->name, object)) break;
      // It got a message before its deletion was on disk.
      used = true;
      forget_ = false;
      object = {.settings = topic_->settings, .deleted = false};
    }
    const auto now = context.topics.FindEvenIfDeleted(topic_->name);
    DT_CHECK(now.has_value());
    if (now->makes_dead_letters && !now->deleted) {
      // Without room for one more topic it is made when there is.
      Topic made;
      static_cast<void>(context.DeadLettersOf(*now, &made));
    }
    Replies<protocol::TopicReply> told(worker_);
    told.Expect(context.TellShards(*now, told.tag()));
    co_await told;
    if (!told.status().ok() || !used) co_return told.status();
    uint64_t messages = 0;
    for (const auto& [shard, reply] : told.all()) messages += reply.messages;
    co_return TopicNotEmptyError(topic_->name, messages);
  }

  // Keeps its subscriptions from being changed until the end of this change.
  Co<absl::Status> ReserveSubscriptions() {
    auto reserving = WaitFor<bool>([this](std::function<void(bool)> done) {
      worker_->subscription_changes().Reserve(topic_->id, [done] { done(true); });
    });
    reserved_ = co_await reserving;
    co_return absl::OkStatus();
  }

 private:
  ApiWorker* const worker_;
  const std::optional<Topic> topic_;
  bool reserved_ = false;
  bool forget_ = false;
};

// Changes the settings of a topic with `edit`, and fills in the topic as it is then.
Co<absl::Status> EditTopic(ApiWorker& worker, std::string name,
                           std::function<absl::Status(TopicSettings*)> edit, v1::Topic* response) {
  if (!worker.context().topics.Find(name).has_value()) co_return TopicNotFoundError(name);
  TopicChange change(&worker, name);
  absl::Status status = change.Begun(/*may_be_deleted=*/false, name);
  if (!status.ok()) co_return status;
  TopicObject object;
  object.settings = change.topic().settings;
  status = edit(&object.settings);
  if (!status.ok()) co_return status;
  status = co_await change.Write(object);
  if (status.ok()) FillTopic(name, object.settings, response);
  co_return status;
}

Co<absl::Status> SetPaused(ApiWorker& worker, std::string name, bool paused, v1::Topic* response) {
  if (absl::Status status = ValidateTopic(name, "name"); !status.ok()) co_return status;
  std::function<absl::Status(TopicSettings*)> edit = [paused](TopicSettings* settings) {
    settings->paused = paused;
    return absl::OkStatus();
  };
  co_return co_await EditTopic(worker, std::move(name), std::move(edit), response);
}

}  // namespace

Co<absl::Status> CreateTopic(ApiWorker& worker, rpc::UnaryCall&,
                             const v1::CreateTopicRequest& request,
                             v1::CreateTopicResponse* response) {
  ServingContext& context = worker.context();
  const std::string& name = request.topic().name();
  TopicObject object;
  absl::Status status = ValidateTopic(name, "topic.name");
  if (status.ok()) {
    status = ValidateTopicSettings(request.topic().settings(), name, context.options.limits,
                                   "topic.settings", &object.settings);
  }
  if (!status.ok()) co_return status;
  if (const auto known = context.topics.Find(name); known.has_value()) {
    if (known->settings != object.settings) co_return TopicExistsError(name);
    FillTopic(name, known->settings, response->mutable_topic());
    if (known->durable) co_return absl::OkStatus();
  }
  Topic topic;
  status = context.topics.Resolve(name, TopicRegistry::Use::kCreate, &topic);
  if (!status.ok()) co_return status;
  TopicChange change(&worker, name);
  status = change.Begun(/*may_be_deleted=*/true, name);
  if (status.ok()) status = co_await change.Write(object);
  if (status.ok()) FillTopic(name, object.settings, response->mutable_topic());
  co_return status;
}

Co<absl::Status> GetTopic(ApiWorker& worker, rpc::UnaryCall&, const v1::GetTopicRequest& request,
                          v1::GetTopicResponse* response) {
  ServingContext& context = worker.context();
  if (absl::Status status = ValidateTopic(request.name(), "name"); !status.ok()) co_return status;
  const auto topic = context.topics.Find(request.name());
  if (!topic.has_value()) co_return TopicNotFoundError(request.name());
  struct Counts {
    query::PendingCount pending;
    query::PendingCount due;
  };
  const uint64_t now_ms = context.clock->Read().wall_ms;
  ReadStore reading(
      worker, [id = topic->id, now_ms](storage::MessageStore* store) -> absl::StatusOr<Counts> {
        Counts counts;
        absl::Status read = query::ReadTopicCounts(store, id, now_ms, &counts.pending, &counts.due);
        if (!read.ok()) return read;
        return counts;
      });
  const auto read = co_await reading;
  if (!read.ok()) co_return read.status();
  FillTopic(topic->name, topic->settings, response->mutable_topic());
  v1::TopicCounts* counts = response->mutable_topic()->mutable_counts();
  counts->set_pending(static_cast<int64_t>(read->pending.messages));
  counts->set_pending_bytes(static_cast<int64_t>(read->pending.bytes));
  counts->set_due(static_cast<int64_t>(read->due.messages));
  co_return absl::OkStatus();
}

absl::Status ListTopics(ApiWorker& worker, const v1::ListTopicsRequest& request,
                        v1::ListTopicsResponse* response) {
  ValidTopicList valid;
  if (absl::Status status = ValidateTopicList(request, &valid); !status.ok()) return status;
  // One more than asked for tells whether there are more.
  auto topics =
      worker.context().topics.List(request.name_prefix(), valid.after, valid.page_size + 1);
  if (topics.size() > valid.page_size) {
    topics.resize(valid.page_size);
    response->set_next_page_token(
        MakePageToken(valid.token_filter, {.place = {}, .key = std::string(topics.back().name)}));
  }
  for (const Topic& topic : topics) FillTopic(topic.name, topic.settings, response->add_topics());
  return absl::OkStatus();
}

Co<absl::Status> UpdateTopic(ApiWorker& worker, rpc::UnaryCall&,
                             const v1::UpdateTopicRequest& request,
                             v1::UpdateTopicResponse* response) {
  const std::string& name = request.topic().name();
  TopicSettings given;
  absl::Status status = ValidateTopic(name, "topic.name");
  if (status.ok()) {
    status = ValidateTopicSettings(request.topic().settings(), name,
                                   worker.context().options.limits, "topic.settings", &given);
  }
  if (!status.ok()) co_return status;
  std::function<absl::Status(TopicSettings*)> edit = [&request, given](TopicSettings* settings) {
    return ApplyTopicMask(request.update_mask(), given, settings);
  };
  co_return co_await EditTopic(worker, name, std::move(edit), response->mutable_topic());
}

Co<absl::Status> PauseTopic(ApiWorker& worker, rpc::UnaryCall&,
                            const v1::PauseTopicRequest& request,
                            v1::PauseTopicResponse* response) {
  return SetPaused(worker, request.name(), true, response->mutable_topic());
}

Co<absl::Status> ResumeTopic(ApiWorker& worker, rpc::UnaryCall&,
                             const v1::ResumeTopicRequest& request,
                             v1::ResumeTopicResponse* response) {
  return SetPaused(worker, request.name(), false, response->mutable_topic());
}

Co<absl::Status> DeleteTopic(ApiWorker& worker, rpc::UnaryCall&,
                             const v1::DeleteTopicRequest& request,
                             v1::DeleteTopicResponse* response) {
  ServingContext& context = worker.context();
  if (absl::Status status = ValidateTopic(request.name(), "name"); !status.ok()) co_return status;
  if (!context.topics.Find(request.name()).has_value()) {
    co_return TopicNotFoundError(request.name());
  }
  std::optional<TopicChange> change(std::in_place, &worker, request.name());
  absl::Status status = change->Begun(/*may_be_deleted=*/false, request.name());
  if (!status.ok()) co_return status;
  const Topic topic = change->topic();

  // Every shard watches the topic from here on.
  Topic watched = topic;
  watched.deleted = true;
  Replies<protocol::TopicReply> counted(&worker);
  counted.Expect(context.TellShards(watched, counted.tag()));
  if (counted.open() == 0) co_return base::DrainingError();
  co_await counted;
  if (!counted.status().ok()) co_return counted.status();
  uint64_t messages = 0;
  uint64_t recurrences = 0;
  for (const auto& [shard, reply] : counted.all()) {
    messages += reply.messages;
    recurrences += reply.recurrences;
  }
  if (recurrences > 0) co_return TopicRecursError(topic.name, recurrences);
  if (messages > 0) {
    if (!request.force()) co_return TopicNotEmptyError(topic.name, messages);
    change.reset();
    const auto purge = co_await StartPurge(worker, topic.id);
    if (purge.ok()) response->set_operation(purge->name);
    co_return purge.status();
  }

  // Its subscriptions go with it, and one that is being made is made before or after.
  status = co_await change->ReserveSubscriptions();
  TopicObject object;
  object.deleted = true;
  status = co_await change->Write(object);
  if (!status.ok()) co_return status;
  auto deleting = WaitFor<absl::Status>([&](std::function<void(absl::Status)> done) {
    worker.subscription_changes().DeleteAll(topic.id, std::move(done));
  });
  co_return co_await deleting;
}

}  // namespace duetime::api
