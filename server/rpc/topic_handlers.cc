// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/topic_handlers.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "duetime/v1/admin.pb.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/forecast_query.h"
#include "server/rpc/message_io.h"
#include "server/rpc/page_token.h"
#include "server/rpc/query_validation.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {
namespace {

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

// Of a Get or Delete; the reader's thread fills it in.
struct CountState final : CallState {
  TopicRegistry::Topic topic;
  PendingCount pending;
  PendingCount due;
  size_t recurrences = 0;
  bool force = false;
  absl::Status status;
};

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

absl::Status CountRecurrences(storage::MessageStore* store, storage::TopicId topic, size_t* count) {
  constexpr size_t kPerRead = 100;
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    std::vector<storage::ObjectRef> read;
    do {
      const std::string after = read.empty() ? "" : read.back().name;
      read.clear();
      absl::Status status =
          store->ScanObjects(storage::ObjectKind::kRecurrence, shard, after, kPerRead, &read);
      if (!status.ok()) return status;
      for (const storage::ObjectRef& object : read) {
        const auto state = delivery::DecodeRecurrence(object.name, object.value);
        if (!state.ok()) return state.status();
        if (state->spec.topic == topic) ++*count;
      }
    } while (read.size() == kPerRead);
  }
  return absl::OkStatus();
}

void FillTopic(absl::string_view name, const TopicSettings& settings, v1::Topic* topic) {
  topic->set_name(std::string(name));
  ToProto(settings, topic->mutable_settings());
}

}  // namespace

// Of a change whose object is on its way to disk, or which the shards are being told.
struct TopicHandlers::ChangeState final : CallState {
  std::string name;
  TopicObject object;
  // Shards that have not answered yet.
  size_t open = 0;
  absl::Status status;
};

void TopicHandlers::Create(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::CreateTopicRequest request;
  TopicObject object;
  absl::Status status = ParseRequest(call->request(), &request);
  if (!status.ok()) return call->FinishWithError(status);
  const std::string& name = request.topic().name();
  status = ValidateTopic(name, "topic.name");
  if (status.ok()) {
    status = ValidateTopicSettings(request.topic().settings(), context->options.limits,
                                   "topic.settings", &object.settings);
  }
  if (!status.ok()) return call->FinishWithError(status);
  if (const auto known = context->topics.Find(name); known.has_value()) {
    if (known->settings != object.settings) return call->FinishWithError(TopicExistsError(name));
    if (known->durable) {
      v1::CreateTopicResponse response;
      FillTopic(name, known->settings, response.mutable_topic());
      return call->Finish(response);
    }
  }
  TopicRegistry::Topic topic;
  status = context->topics.Resolve(name, TopicRegistry::Use::kCreate, &topic);
  if (!status.ok()) return call->FinishWithError(status);
  Write(call, name, object);
}

void TopicHandlers::Write(UnaryCall* call, const std::string& name, const TopicObject& object) {
  ServingContext* context = env_.context;
  if (!context->topics.BeginChange(name)) {
    return call->FinishWithError(base::OverloadedError("queue of changes of this topic", 1));
  }
  auto state = std::make_shared<ChangeState>();
  state->name = name;
  state->object = object;
  call->state = state;
  delivery::ObjectCommand command;
  command.tag = call->tag();
  command.kind = storage::ObjectKind::kTopicSettings;
  command.name = name;
  command.value = EncodeTopicObject(object);
  absl::Status status = context->node.load()->Post(0, std::move(command));
  if (status.ok()) return;
  context->topics.EndChange(name);
  call->FinishWithError(status);
}

void TopicHandlers::OnObjectReply(UnaryCall* call, const delivery::ObjectReply& reply) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  DT_CHECK(state != nullptr);
  TopicRegistry& topics = env_.context->topics;
  state->status = reply.status;
  if (!state->status.ok()) return AnswerChange(call);
  topics.Change(state->name, state->object);
  const auto topic = topics.FindEvenIfDeleted(state->name);
  DT_CHECK(topic.has_value());
  state->open = env_.context->TellShards(*topic, call->tag());
  if (state->open == 0) AnswerChange(call);
}

void TopicHandlers::OnTopicReply(UnaryCall* call, const delivery::TopicReply& reply) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  DT_CHECK(state != nullptr && state->open > 0);
  state->status.Update(reply.status);
  if (--state->open == 0) AnswerChange(call);
}

void TopicHandlers::AnswerChange(UnaryCall* call) {
  const auto* state = static_cast<ChangeState*>(call->state.get());
  env_.context->topics.EndChange(state->name);
  if (!state->status.ok()) return call->FinishWithError(state->status);
  switch (call->method()) {
    case metrics::RpcMethod::kCreateTopic: {
      v1::CreateTopicResponse response;
      FillTopic(state->name, state->object.settings, response.mutable_topic());
      return call->Finish(response);
    }
    case metrics::RpcMethod::kUpdateTopic: {
      v1::UpdateTopicResponse response;
      FillTopic(state->name, state->object.settings, response.mutable_topic());
      return call->Finish(response);
    }
    default:
      return call->Finish(v1::DeleteTopicResponse());
  }
}

void TopicHandlers::Get(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::GetTopicRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateTopic(request.name(), "name");
  if (!status.ok()) return call->FinishWithError(status);
  const auto topic = context->topics.Find(request.name());
  if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(request.name()));
  const auto state = std::make_shared<CountState>();
  state->topic = *topic;
  call->state = state;
  status = context->reader->Post([this, state, call] {
    state->status =
        ReadTopicCounts(env_.context->store, state->topic.id, env_.context->clock->Read().wall_ms,
                        &state->pending, &state->due);
    env_.run_here([state, call] {
      if (!state->status.ok()) return call->FinishWithError(ReadError(state->status));
      v1::GetTopicResponse response;
      FillTopic(state->topic.name, state->topic.settings, response.mutable_topic());
      v1::TopicCounts* counts = response.mutable_topic()->mutable_counts();
      counts->set_pending(static_cast<int64_t>(state->pending.messages));
      counts->set_pending_bytes(static_cast<int64_t>(state->pending.bytes));
      counts->set_due(static_cast<int64_t>(state->due.messages));
      call->Finish(response);
    });
  });
  if (!status.ok()) call->FinishWithError(status);
}

void TopicHandlers::List(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ListTopicsRequest request;
  ValidTopicList valid;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateTopicList(request, &valid);
  if (!status.ok()) return call->FinishWithError(status);
  // One more than asked for tells whether there are more.
  auto topics = context->topics.List(request.name_prefix(), valid.after, valid.page_size + 1);
  v1::ListTopicsResponse response;
  if (topics.size() > valid.page_size) {
    topics.resize(valid.page_size);
    response.set_next_page_token(
        MakePageToken(valid.token_filter, {.place = {}, .key = std::string(topics.back().name)}));
  }
  for (const TopicRegistry::Topic& topic : topics) {
    FillTopic(topic.name, topic.settings, response.add_topics());
  }
  call->Finish(response);
}

void TopicHandlers::Update(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::UpdateTopicRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (!status.ok()) return call->FinishWithError(status);
  const std::string& name = request.topic().name();
  status = ValidateTopic(name, "topic.name");
  TopicSettings given;
  if (status.ok()) {
    status = ValidateTopicSettings(request.topic().settings(), context->options.limits,
                                   "topic.settings", &given);
  }
  if (!status.ok()) return call->FinishWithError(status);
  const auto topic = context->topics.Find(name);
  if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(name));
  TopicObject object{.settings = topic->settings, .deleted = false};
  status = ApplyTopicMask(request.update_mask(), given, &object.settings);
  if (!status.ok()) return call->FinishWithError(status);
  Write(call, name, object);
}

void TopicHandlers::Delete(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::DeleteTopicRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateTopic(request.name(), "name");
  if (!status.ok()) return call->FinishWithError(status);
  const auto topic = context->topics.Find(request.name());
  if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(request.name()));
  const auto state = std::make_shared<CountState>();
  state->topic = *topic;
  state->force = request.force();
  call->state = state;
  status = context->reader->Post([this, state, call] {
    state->status =
        ReadTopicCounts(env_.context->store, state->topic.id, 0, &state->pending, &state->due);
    if (state->status.ok()) {
      state->status = CountRecurrences(env_.context->store, state->topic.id, &state->recurrences);
    }
    env_.run_here([this, call] { OnDeleteCounted(call); });
  });
  if (!status.ok()) call->FinishWithError(status);
}

// A message that is accepted from here on keeps its topic: it is used, and so there again.
void TopicHandlers::OnDeleteCounted(UnaryCall* call) {
  const auto* state = static_cast<CountState*>(call->state.get());
  if (!state->status.ok()) return call->FinishWithError(ReadError(state->status));
  const std::string name(state->topic.name);
  if (state->recurrences > 0) {
    return call->FinishWithError(TopicRecursError(name, state->recurrences));
  }
  if (state->pending.messages > 0 && state->force) {
    return operations_->StartPurge(call, state->topic.id);
  }
  if (state->pending.messages > 0) {
    return call->FinishWithError(TopicNotEmptyError(name, state->pending.messages));
  }
  Write(call, name, TopicObject{.settings = {}, .deleted = true});
}

}  // namespace duetime::rpc
