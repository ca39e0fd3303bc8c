// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/recurrence_handlers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/calendar/civil_time.h"
#include "server/calendar/zone.h"
#include "server/rpc/content_hash.h"
#include "server/rpc/message_io.h"
#include "server/rpc/page_token.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/query_validation.h"
#include "server/rpc/recurrence_view.h"
#include "server/rpc/target_validation.h"
#include "server/rpc/validation_error.h"
#include "storage/slot.h"

namespace duetime::rpc {
namespace {

using delivery::RecurrenceCommand;
using delivery::RecurrenceState;
using storage::ObjectKind;

constexpr int kPreviewDefault = 10;
constexpr int kPreviewMax = 1'000;
// Objects that a list looks at before it ends its page.
constexpr size_t kLooksMax = 10'000;

absl::Status NotFoundError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kNotFound, "there is no recurrence of this name",
                         {.reason = "RECURRENCE_NOT_FOUND",
                          .field = "name",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
}

// Of a GetRecurrence or a PreviewRecurrence by name; the reader's thread fills it in.
struct ReadState final : CallState {
  std::string name;
  uint16_t shard = 0;
  std::optional<RecurrenceState> recurrence;
  absl::Status status;
};

struct ListState final : CallState {
  std::string after;
  std::string token_filter;
  size_t page_size = 0;
  std::optional<storage::TopicId> topic;
  std::vector<RecurrenceState> recurrences;
  bool more = false;
  std::string last_looked_at;
  absl::Status status;
};

absl::Status ReadOne(storage::MessageStore* store, ReadState* state) {
  const auto object = store->GetObject(ObjectKind::kRecurrence, state->shard, state->name);
  if (!object.ok()) return object.status();
  if (!object->has_value()) return NotFoundError(state->name);
  auto recurrence = delivery::DecodeRecurrence(state->name, **object);
  if (!recurrence.ok()) return recurrence.status();
  state->recurrence = *std::move(recurrence);
  return absl::OkStatus();
}

// The names of all shards in one order.
absl::Status ReadPage(storage::MessageStore* store, ListState* state) {
  std::vector<storage::ObjectRef> objects;
  // Of each shard as many as the page could need, so that what is left out lies behind it.
  const size_t each = state->topic.has_value() ? kLooksMax : state->page_size + 1;
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    std::vector<storage::ObjectRef> part;
    absl::Status status =
        store->ScanObjects(ObjectKind::kRecurrence, shard, state->after, each, &part);
    if (!status.ok()) return status;
    std::move(part.begin(), part.end(), std::back_inserter(objects));
  }
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  size_t looks = 0;
  for (const storage::ObjectRef& object : objects) {
    if (state->recurrences.size() >= state->page_size || looks >= each) {
      state->more = true;
      break;
    }
    ++looks;
    state->last_looked_at = object.name;
    auto recurrence = delivery::DecodeRecurrence(object.name, object.value);
    if (!recurrence.ok()) return recurrence.status();
    if (state->topic.has_value() && recurrence->spec.topic != *state->topic) continue;
    state->recurrences.push_back(*std::move(recurrence));
  }
  return absl::OkStatus();
}

absl::Status ReadMask(const google::protobuf::FieldMask& mask, RecurrenceCommand* command) {
  for (const std::string& path : mask.paths()) {
    if (path == "template") {
      command->update_message = true;
    } else if (path == "schedule") {
      command->update_rule = true;
    } else if (path == "overlap") {
      command->update_overlap = true;
    } else if (path == "misfire") {
      command->update_misfire = true;
    } else {
      return Invalid("INVALID_UPDATE_MASK", "update_mask", "a field that cannot be changed");
    }
  }
  if (mask.paths().empty()) {
    return Invalid("INVALID_UPDATE_MASK", "update_mask", "required: say what to change");
  }
  return absl::OkStatus();
}

absl::Status FillPreview(const calendar::RecurrenceRule& rule, int64_t after_ms, size_t count,
                         v1::PreviewRecurrenceResponse* response) {
  const auto compiled = calendar::Recurrence::Compile(rule, "schedule");
  if (!compiled.ok()) return compiled.status();
  const std::string zone_name = rule.time_zone.empty() ? "UTC" : rule.time_zone;
  const auto zone = calendar::FindZone(zone_name, "schedule.time_zone");
  if (!zone.ok()) return zone.status();
  // Numbers count from the start, so what lies before is passed over; not without end.
  constexpr uint64_t kNumberedMax = 10'000;
  uint64_t number = 0;
  bool numbered = true;
  int64_t at_ms = rule.start_ms - 1;
  for (;;) {
    const auto next = compiled->NextAfter(at_ms);
    if (!next.has_value() || *next > after_ms) break;
    numbered = number < kNumberedMax;
    if (!numbered) break;
    ++number;
    at_ms = *next;
  }
  at_ms = std::max(at_ms, after_ms);
  for (size_t i = 0; i < count && !compiled->IsComplete(number); ++i) {
    const auto next = compiled->NextAfter(at_ms);
    if (!next.has_value()) break;
    at_ms = *next;
    auto* occurrence = response->add_occurrences();
    ++number;
    if (numbered) occurrence->set_number(static_cast<int64_t>(number));
    SetTimestamp(static_cast<uint64_t>(at_ms), occurrence->mutable_time());
    occurrence->mutable_civil_time()->set_local(calendar::FormatCivilTime(at_ms, *zone));
    occurrence->mutable_civil_time()->set_time_zone(zone_name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view RecurrenceHandlers::TopicName(const RecurrenceState& state) const {
  return env_.context->topics.Name(state.spec.topic).value_or("");
}

uint16_t RecurrenceHandlers::ShardOf(const std::string& name) const {
  return storage::ShardOfSlot(storage::SlotOfName("", name),
                              env_.context->node.load()->shard_count());
}

void RecurrenceHandlers::Post(UnaryCall* call, RecurrenceCommand command) {
  command.tag = call->tag();
  const uint16_t shard = ShardOf(command.name);
  absl::Status status = env_.context->node.load()->Post(shard, std::move(command));
  if (!status.ok()) call->FinishWithError(status);
}

void RecurrenceHandlers::Create(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::CreateRecurrenceRequest request;
  RecurrenceCommand command;
  command.kind = RecurrenceCommand::Kind::kCreate;
  absl::Status status = ParseRequest(call->request(), &request);
  if (!status.ok()) return call->FinishWithError(status);
  const v1::Recurrence& asked = request.recurrence();
  command.name = asked.name();
  command.validate_only = request.validate_only();
  const uint64_t now_ms = context->clock->Read().wall_ms;
  status = ValidateRecurrenceName(asked.name(), "recurrence.name");
  if (status.ok()) status = ValidateTopic(asked.topic(), "recurrence.topic");
  if (status.ok()) {
    status = ReadTemplate(asked.template_(), asked.topic(), context->options.limits,
                          &command.spec.message);
  }
  if (status.ok()) status = ReadPolicies(asked, &command.spec.overlap, &command.spec.misfire);
  // A start that was left out is the moment of the call, which is no part of what was asked for: a
  // repeat asks for the same.
  if (status.ok())
    status = ReadRule(asked.schedule(), 0, "recurrence.schedule", &command.spec.rule);
  if (!status.ok()) return call->FinishWithError(status);
  TopicRegistry::Topic topic;
  status = context->topics.Resolve(asked.topic(), TopicRegistry::Use::kSchedule, &topic);
  if (!status.ok()) return call->FinishWithError(status);
  if (topic.revived) context->ForgetTopicObject(topic.name);
  command.spec.topic = topic.id;
  RecurrenceState content;
  content.spec = command.spec;
  command.spec.content = ContentHash(delivery::EncodeRecurrence(content));
  if (!asked.schedule().has_start_time()) {
    command.spec.rule.start_ms = static_cast<int64_t>(now_ms);
  }
  if (!topic.durable && !command.validate_only) {
    command.new_topics.emplace_back(topic.id, std::string(topic.name));
    call->job.new_topics = {topic.id};
  }
  Post(call, std::move(command));
}

void RecurrenceHandlers::Update(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::UpdateRecurrenceRequest request;
  RecurrenceCommand command;
  command.kind = RecurrenceCommand::Kind::kUpdate;
  absl::Status status = ParseRequest(call->request(), &request);
  if (!status.ok()) return call->FinishWithError(status);
  const v1::Recurrence& asked = request.recurrence();
  command.name = asked.name();
  status = ValidateRecurrenceName(asked.name(), "recurrence.name");
  if (status.ok()) status = ReadMask(request.update_mask(), &command);
  if (status.ok() && !request.etag().empty()) {
    command.revision = ParseEtag(request.etag());
    if (!command.revision.has_value()) {
      status = base::MakeError(absl::StatusCode::kAborted, "not an etag of this recurrence",
                               {.reason = "ETAG_MISMATCH",
                                .field = "etag",
                                .metadata = {{"name", asked.name()}},
                                .retry_after_ms = 0});
    }
  }
  if (status.ok() && command.update_message) {
    // The topic cannot be changed; any name will do to check the rest.
    status = ReadTemplate(asked.template_(), "t", context->options.limits, &command.spec.message);
  }
  if (status.ok()) status = ReadPolicies(asked, &command.spec.overlap, &command.spec.misfire);
  if (status.ok() && command.update_rule) {
    status = ReadRule(asked.schedule(), context->clock->Read().wall_ms, "recurrence.schedule",
                      &command.spec.rule);
  }
  if (!status.ok()) return call->FinishWithError(status);
  Post(call, std::move(command));
}

void RecurrenceHandlers::PostByName(UnaryCall* call, absl::Status parsed, const std::string& name,
                                    RecurrenceCommand::Kind kind) {
  if (parsed.ok()) parsed = ValidateRecurrenceName(name, "name");
  if (!parsed.ok()) return call->FinishWithError(parsed);
  RecurrenceCommand command;
  command.kind = kind;
  command.name = name;
  Post(call, std::move(command));
}

void RecurrenceHandlers::Pause(UnaryCall* call) {
  if (absl::Status status = env_.context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::PauseRecurrenceRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  PostByName(call, std::move(status), request.name(), RecurrenceCommand::Kind::kPause);
}

void RecurrenceHandlers::Resume(UnaryCall* call) {
  if (absl::Status status = env_.context->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ResumeRecurrenceRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  PostByName(call, std::move(status), request.name(), RecurrenceCommand::Kind::kResume);
}

void RecurrenceHandlers::Delete(UnaryCall* call) {
  if (absl::Status status = env_.context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::DeleteRecurrenceRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  PostByName(call, std::move(status), request.name(), RecurrenceCommand::Kind::kDelete);
}

void RecurrenceHandlers::OnRecurrenceReply(UnaryCall* call,
                                           const delivery::RecurrenceReply& reply) {
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  for (const storage::TopicId topic : call->job.new_topics) {
    env_.context->topics.MarkDurable(topic);
  }
  const auto fill = [&](auto response) {
    FillRecurrence(reply.state, TopicName(reply.state), /*full=*/true,
                   response.mutable_recurrence());
    call->Finish(response);
  };
  switch (call->method()) {
    case metrics::RpcMethod::kCreateRecurrence:
      return fill(v1::CreateRecurrenceResponse());
    case metrics::RpcMethod::kUpdateRecurrence:
      return fill(v1::UpdateRecurrenceResponse());
    case metrics::RpcMethod::kPauseRecurrence:
      return fill(v1::PauseRecurrenceResponse());
    case metrics::RpcMethod::kResumeRecurrence:
      return fill(v1::ResumeRecurrenceResponse());
    default: {
      v1::DeleteRecurrenceResponse response;
      response.set_occurrence_cancelled(reply.occurrence_cancelled);
      return call->Finish(response);
    }
  }
}

void RecurrenceHandlers::Get(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::GetRecurrenceRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateRecurrenceName(request.name(), "name");
  if (!status.ok()) return call->FinishWithError(status);
  const auto state = std::make_shared<ReadState>();
  state->name = request.name();
  state->shard = ShardOf(state->name);
  call->state = state;
  status = context->reader->Post([this, call, state] {
    state->status = ReadOne(env_.context->store, state.get());
    env_.run_here([this, call, state] {
      if (!state->status.ok()) return call->FinishWithError(ReadError(state->status));
      v1::GetRecurrenceResponse response;
      FillRecurrence(*state->recurrence, TopicName(*state->recurrence), /*full=*/true,
                     response.mutable_recurrence());
      call->Finish(response);
    });
  });
  if (!status.ok()) call->FinishWithError(status);
}

void RecurrenceHandlers::List(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ListRecurrencesRequest request;
  const auto state = std::make_shared<ListState>();
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) {
    state->token_filter = absl::StrCat("recurrences;", request.topic());
    status = ValidatePage(request.page_size(), request.page_token(), state->token_filter,
                          &state->page_size, &state->after);
  }
  if (status.ok() && !request.topic().empty()) status = ValidateTopic(request.topic(), "topic");
  if (!status.ok()) return call->FinishWithError(status);
  if (!request.topic().empty()) {
    const auto topic = context->topics.FindEvenIfDeleted(request.topic());
    if (!topic.has_value()) return call->Finish(v1::ListRecurrencesResponse());
    state->topic = topic->id;
  }
  call->state = state;
  status = context->reader->Post([this, call, state] {
    state->status = ReadPage(env_.context->store, state.get());
    env_.run_here([this, call, state] {
      if (!state->status.ok()) return call->FinishWithError(ReadError(state->status));
      v1::ListRecurrencesResponse response;
      for (const RecurrenceState& recurrence : state->recurrences) {
        FillRecurrence(recurrence, TopicName(recurrence), /*full=*/false,
                       response.add_recurrences());
      }
      if (state->more) {
        response.set_next_page_token(
            MakePageToken(state->token_filter, {.place = {}, .key = state->last_looked_at}));
      }
      call->Finish(response);
    });
  });
  if (!status.ok()) call->FinishWithError(status);
}

void RecurrenceHandlers::Preview(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::PreviewRecurrenceRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok() && (request.count() < 0 || request.count() > kPreviewMax)) {
    status = Invalid("INVALID_PAGE_SIZE", "count", absl::StrCat("0 to ", kPreviewMax));
  }
  const uint64_t now_ms = context->clock->Read().wall_ms;
  auto after_ms = static_cast<int64_t>(now_ms);
  if (status.ok() && request.has_after_time()) {
    const auto ms = TimestampToMs(request.after_time());
    if (!ms.has_value()) {
      status = Invalid("INVALID_RECURRENCE", "after_time", "not a valid timestamp");
    } else {
      after_ms = static_cast<int64_t>(*ms);
    }
  }
  const int count = request.count() == 0 ? kPreviewDefault : request.count();
  const bool by_name = request.source_case() == v1::PreviewRecurrenceRequest::kName;
  if (status.ok() && by_name) status = ValidateRecurrenceName(request.name(), "name");
  calendar::RecurrenceRule rule;
  if (status.ok() && !by_name) status = ReadRule(request.schedule(), now_ms, "schedule", &rule);
  if (!status.ok()) return call->FinishWithError(status);
  const auto answer = [call, after_ms, count](const calendar::RecurrenceRule& of) {
    v1::PreviewRecurrenceResponse response;
    const absl::Status filled = FillPreview(of, after_ms, static_cast<size_t>(count), &response);
    if (!filled.ok()) return call->FinishWithError(filled);
    call->Finish(response);
  };
  if (!by_name) return answer(rule);
  const auto state = std::make_shared<ReadState>();
  state->name = request.name();
  state->shard = ShardOf(state->name);
  call->state = state;
  status = context->reader->Post([this, call, state, answer] {
    state->status = ReadOne(env_.context->store, state.get());
    env_.run_here([call, state, answer] {
      if (!state->status.ok()) return call->FinishWithError(ReadError(state->status));
      answer(state->recurrence->spec.rule);
    });
  });
  if (!status.ok()) call->FinishWithError(status);
}

}  // namespace duetime::rpc
