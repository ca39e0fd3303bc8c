// SPDX-License-Identifier: Apache-2.0
#include "server/api/topics/topic_handlers.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/operations/operation_handlers.h"
#include "server/api/page_token.h"
#include "server/api/query_validation.h"
#include "server/api/topics/topic_settings.h"
#include "server/api/validation_error.h"
#include "server/query/forecast_query.h"

namespace duetime::api {
namespace {

void FillTopic(absl::string_view name, const TopicSettings& settings, v1::Topic* topic) {
  topic->set_name(std::string(name));
  ToProto(settings, topic->mutable_settings());
  topic->set_paused_by_restore(settings.paused_by_restore());
}

// Changes the settings of a topic with `edit`, and fills in the topic after the change. `edit` runs
// on the catalog's thread.
Co<absl::Status> EditTopic(ApiWorker& worker, std::string name,
                           std::function<absl::Status(TopicSettings*)> edit, v1::Topic* response) {
  AskCatalog ask(&worker, catalog::UpdateTopic{.name = name, .edit = std::move(edit)});
  const catalog::Reply reply = co_await ask;
  if (reply.status.ok()) FillTopic(name, reply.topic->settings, response);
  co_return reply.status;
}

Co<absl::Status> SetPaused(ApiWorker& worker, std::string name, bool paused, v1::Topic* response) {
  if (absl::Status status = ValidateTopic(name, "name"); !status.ok()) co_return status;
  std::function<absl::Status(TopicSettings*)> edit = [paused](TopicSettings* settings) {
    settings->set_paused(paused);
    return absl::OkStatus();
  };
  co_return co_await EditTopic(worker, std::move(name), std::move(edit), response);
}

}  // namespace

Co<absl::Status> CreateTopic(ApiWorker& worker, rpc::Call&, const v1::CreateTopicRequest& request,
                             v1::CreateTopicResponse* response) {
  catalog::CreateTopic command{.name = request.topic().name()};
  absl::Status status = ValidateTopic(command.name, "topic.name");
  if (status.ok()) {
    status =
        ValidateTopicSettings(request.topic().settings(), command.name,
                              worker.context().options.limits, "topic.settings", &command.settings);
  }
  if (!status.ok()) co_return status;
  AskCatalog ask(&worker, std::move(command));
  const catalog::Reply reply = co_await ask;
  if (reply.status.ok()) {
    FillTopic(reply.topic->name(), reply.topic->settings, response->mutable_topic());
  }
  co_return reply.status;
}

Co<absl::Status> GetTopic(ApiWorker& worker, rpc::Call&, const v1::GetTopicRequest& request,
                          v1::GetTopicResponse* response) {
  ServingContext& context = worker.context();
  const auto found = context.FindTopic(request.name(), "name");
  if (!found.ok()) co_return found.status();
  const catalog::TopicPtr& topic = *found;
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
  FillTopic(topic->name(), topic->settings, response->mutable_topic());
  v1::TopicCounts* counts = response->mutable_topic()->mutable_counts();
  counts->set_pending(static_cast<int64_t>(read->pending.messages));
  counts->set_pending_bytes(static_cast<int64_t>(read->pending.bytes));
  counts->set_due(static_cast<int64_t>(read->due.messages));
  co_return absl::OkStatus();
}

Co<absl::Status> ListTopics(ApiWorker& worker, rpc::Call& call,
                            const v1::ListTopicsRequest& request,
                            v1::ListTopicsResponse* response) {
  ValidTopicList valid;
  if (absl::Status status = ValidateTopicList(request, &valid); !status.ok()) co_return status;
  // One row beyond the page shows if a next page exists.
  const size_t wanted = valid.page_size + 1;
  const catalog::Snapshot& catalog = worker.context().catalog();
  std::vector<catalog::TopicPtr> visible;
  std::string after(valid.after);
  // The token names the last topic of the page, so it must be one that the client may see.
  for (bool more = true; more && visible.size() < wanted;) {
    const auto topics = catalog.ListTopics(request.name_prefix(), after, wanted);
    more = topics.size() == wanted;
    for (const catalog::TopicPtr& topic : topics) {
      if (visible.size() == wanted) break;
      if (Allows(call.caller, access::Verb::kRead, topic->name())) visible.push_back(topic);
    }
    if (more) after = std::string(topics.back()->name());
  }
  if (visible.size() > valid.page_size) {
    visible.resize(valid.page_size);
    response->set_next_page_token(MakePageToken(
        valid.token_filter, {.place = {}, .key = std::string(visible.back()->name())}));
  }
  for (const catalog::TopicPtr& topic : visible) {
    FillTopic(topic->name(), topic->settings, response->add_topics());
  }
  co_return absl::OkStatus();
}

Co<absl::Status> UpdateTopic(ApiWorker& worker, rpc::Call&, const v1::UpdateTopicRequest& request,
                             v1::UpdateTopicResponse* response) {
  const std::string& name = request.topic().name();
  if (absl::Status status = ValidateTopic(name, "topic.name"); !status.ok()) co_return status;
  const auto mask =
      SettingsMask::Read(request.update_mask(), "a topic", *v1::TopicSettings::descriptor());
  if (!mask.ok()) co_return mask.status();
  v1::TopicSettings given = request.topic().settings();
  mask->Trim(&given);
  std::function<absl::Status(TopicSettings*)> edit =
      [mask = *mask, given, name, limits = worker.context().options.limits](
          TopicSettings* settings) { return ApplyTopicMask(mask, given, name, limits, settings); };
  co_return co_await EditTopic(worker, name, std::move(edit), response->mutable_topic());
}

Co<absl::Status> PauseTopic(ApiWorker& worker, rpc::Call&, const v1::PauseTopicRequest& request,
                            v1::PauseTopicResponse* response) {
  return SetPaused(worker, request.name(), true, response->mutable_topic());
}

Co<absl::Status> ResumeTopic(ApiWorker& worker, rpc::Call&, const v1::ResumeTopicRequest& request,
                             v1::ResumeTopicResponse* response) {
  return SetPaused(worker, request.name(), false, response->mutable_topic());
}

Co<absl::Status> DeleteTopic(ApiWorker& worker, rpc::Call&, const v1::DeleteTopicRequest& request,
                             v1::DeleteTopicResponse* response) {
  if (absl::Status status = ValidateTopic(request.name(), "name"); !status.ok()) co_return status;
  AskCatalog ask(&worker, catalog::DeleteTopic{.name = request.name()});
  const catalog::Reply reply = co_await ask;
  if (reply.messages == 0 || !request.force()) co_return reply.status;
  const auto topic = worker.context().FindTopic(request.name(), "name");
  if (!topic.ok()) co_return topic.status();
  const auto purge = co_await StartPurge(worker, (*topic)->id);
  if (purge.ok()) response->set_operation(*purge);
  co_return purge.status();
}

}  // namespace duetime::api
