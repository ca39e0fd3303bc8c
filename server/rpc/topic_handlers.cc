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

// Of a Get; the reader's thread fills it in.
struct CountState final : CallState {
  TopicRegistry::Topic topic;
  PendingCount pending;
  PendingCount due;
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

void FillTopic(absl::string_view name, const TopicSettings& settings, v1::Topic* topic) {
  topic->set_name(std::string(name));
  ToProto(settings, topic->mutable_settings());
}

}  // namespace

struct TopicHandlers::ChangeState final : CallState {
  // As it was.
  TopicRegistry::Topic topic;
  // As it is to be.
  TopicObject object;
  bool force = false;
  // The shards have been asked what they have of a topic that is to be deleted.
  bool counting = false;
  // No subscription of it is made meanwhile.
  bool reserved = false;
  // It got a message before its deletion was on disk.
  bool used = false;
  // Shards that have not answered yet, and what the others have.
  size_t open = 0;
  uint64_t messages = 0;
  uint64_t recurrences = 0;
  // What the answer will be.
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
    status = ValidateTopicSettings(request.topic().settings(), name, context->options.limits,
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
  ChangeState* const state = Begin(call, name);
  if (state == nullptr) return;
  state->object = object;
  Write(call);
}

TopicHandlers::ChangeState* TopicHandlers::Begin(UnaryCall* call, const std::string& name) {
  const auto topic = env_.context->topics.BeginChange(name);
  if (!topic.has_value()) {
    call->FinishWithError(base::OverloadedError("queue of changes of this topic", 1));
    return nullptr;
  }
  auto state = std::make_shared<ChangeState>();
  state->topic = *topic;
  call->state = state;
  if (!topic->deleted || call->method() == metrics::RpcMethod::kCreateTopic) return state.get();
  state->status = TopicNotFoundError(name);
  Answer(call);
  return nullptr;
}

void TopicHandlers::Write(UnaryCall* call) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  delivery::ObjectCommand command;
  command.tag = call->tag();
  command.kind = storage::ObjectKind::kTopicSettings;
  command.name = std::string(state->topic.name);
  command.value = EncodeTopicObject(state->object);
  absl::Status posted = env_.context->node.load()->Post(0, std::move(command));
  if (posted.ok()) return;
  state->status = std::move(posted);
  Answer(call);
}

void TopicHandlers::OnObjectReply(UnaryCall* call, const delivery::ObjectReply& reply) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  DT_CHECK(state != nullptr);
  TopicRegistry& topics = env_.context->topics;
  if (!reply.status.ok()) {
    state->status = reply.status;
    return Answer(call);
  }
  const absl::string_view name = state->topic.name;
  if (!topics.Change(name, state->object)) {
    state->used = true;
    state->object = {.settings = state->topic.settings, .deleted = false};
    return Write(call);
  }
  const auto topic = topics.FindEvenIfDeleted(name);
  DT_CHECK(topic.has_value());
  if (topic->makes_dead_letters && !topic->deleted) {
    // Without room for one more topic it is made when there is.
    TopicRegistry::Topic made;
    static_cast<void>(env_.context->DeadLettersOf(*topic, &made));
  }
  state->open = env_.context->TellShards(*topic, call->tag());
  if (state->open == 0) Answer(call);
}

void TopicHandlers::OnTopicReply(UnaryCall* call, const delivery::TopicReply& reply) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  DT_CHECK(state != nullptr && state->open > 0);
  state->status.Update(reply.status);
  state->messages += reply.messages;
  state->recurrences += reply.recurrences;
  if (--state->open > 0) return;
  if (state->counting) return OnDeleteCounted(call);
  if (state->used && state->status.ok()) {
    state->status = TopicNotEmptyError(state->topic.name, state->messages);
  }
  if (state->object.deleted && state->status.ok()) return DeleteSubscriptions(call);
  Answer(call);
}

void TopicHandlers::DeleteSubscriptions(UnaryCall* call) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  changes_->DeleteAll(state->topic.id, [this, call, state](const absl::Status& deleted) {
    state->status = deleted;
    Answer(call);
  });
}

void TopicHandlers::Answer(UnaryCall* call) {
  const auto* state = static_cast<ChangeState*>(call->state.get());
  const TopicRegistry::Topic& topic = state->topic;
  env_.context->topics.EndChange(topic.name);
  if (state->reserved) {
    // It was used again while its deletion was under way, and nothing else could be stored of it.
    if (state->object.deleted && !env_.context->topics.FindEvenIfDeleted(topic.name)->deleted) {
      env_.context->ForgetTopicObject(topic.name);
    }
    changes_->Release(topic.id);
  }
  if (!state->status.ok()) return call->FinishWithError(state->status);
  const auto fill = [&](auto response) {
    FillTopic(topic.name, state->object.settings, response.mutable_topic());
    call->Finish(response);
  };
  switch (call->method()) {
    case metrics::RpcMethod::kCreateTopic:
      return fill(v1::CreateTopicResponse());
    case metrics::RpcMethod::kUpdateTopic:
      return fill(v1::UpdateTopicResponse());
    case metrics::RpcMethod::kPauseTopic:
      return fill(v1::PauseTopicResponse());
    case metrics::RpcMethod::kResumeTopic:
      return fill(v1::ResumeTopicResponse());
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
  const auto read = [context](storage::MessageStore* store, CountState* of) {
    return ReadTopicCounts(store, of->topic.id, context->clock->Read().wall_ms, &of->pending,
                           &of->due);
  };
  env_.ReadThen(call, state, read, [call](CountState* of) {
    v1::GetTopicResponse response;
    FillTopic(of->topic.name, of->topic.settings, response.mutable_topic());
    v1::TopicCounts* counts = response.mutable_topic()->mutable_counts();
    counts->set_pending(static_cast<int64_t>(of->pending.messages));
    counts->set_pending_bytes(static_cast<int64_t>(of->pending.bytes));
    counts->set_due(static_cast<int64_t>(of->due.messages));
    call->Finish(response);
  });
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
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::UpdateTopicRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (!status.ok()) return call->FinishWithError(status);
  const std::string& name = request.topic().name();
  status = ValidateTopic(name, "topic.name");
  TopicSettings given;
  if (status.ok()) {
    status = ValidateTopicSettings(request.topic().settings(), name, context->options.limits,
                                   "topic.settings", &given);
  }
  if (!status.ok()) return call->FinishWithError(status);
  if (!context->topics.Find(name).has_value()) {
    return call->FinishWithError(TopicNotFoundError(name));
  }
  ChangeState* const state = Begin(call, name);
  if (state == nullptr) return;
  state->object.settings = state->topic.settings;
  state->status = ApplyTopicMask(request.update_mask(), given, &state->object.settings);
  if (!state->status.ok()) return Answer(call);
  Write(call);
}

void TopicHandlers::SetPaused(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  // Both requests are the same bytes.
  v1::PauseTopicRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateTopic(request.name(), "name");
  if (!status.ok()) return call->FinishWithError(status);
  if (!context->topics.Find(request.name()).has_value()) {
    return call->FinishWithError(TopicNotFoundError(request.name()));
  }
  ChangeState* const state = Begin(call, request.name());
  if (state == nullptr) return;
  state->object.settings = state->topic.settings;
  state->object.settings.paused = call->method() == metrics::RpcMethod::kPauseTopic;
  Write(call);
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
  if (!context->topics.Find(request.name()).has_value()) {
    return call->FinishWithError(TopicNotFoundError(request.name()));
  }
  ChangeState* const state = Begin(call, request.name());
  if (state == nullptr) return;
  state->object.deleted = true;
  state->force = request.force();
  state->counting = true;
  TopicRegistry::Topic watched = state->topic;
  watched.deleted = true;
  state->open = context->TellShards(watched, call->tag());
  if (state->open > 0) return;
  state->status = base::DrainingError();
  Answer(call);
}

void TopicHandlers::OnDeleteCounted(UnaryCall* call) {
  auto* state = static_cast<ChangeState*>(call->state.get());
  const TopicRegistry::Topic topic = state->topic;
  state->counting = false;
  if (state->status.ok() && state->recurrences > 0) {
    state->status = TopicRecursError(topic.name, state->recurrences);
  } else if (state->status.ok() && state->messages > 0) {
    if (state->force) {
      env_.context->topics.EndChange(topic.name);
      return operations_->StartPurge(call, topic.id);
    }
    state->status = TopicNotEmptyError(topic.name, state->messages);
  }
  if (!state->status.ok()) return Answer(call);
  state->messages = 0;
  // Its subscriptions go with it, and one that is being made is made before or after.
  changes_->Reserve(topic.id, [this, call, state] {
    state->reserved = true;
    Write(call);
  });
}

}  // namespace duetime::rpc
