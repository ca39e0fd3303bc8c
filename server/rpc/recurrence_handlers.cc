// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/recurrence_handlers.h"

#include <algorithm>
#include <deque>
#include <iterator>
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
// Objects that a list looks at before it ends its page, and their bytes.
constexpr size_t kLooksMax = 10'000;
constexpr size_t kListBytesMax = 16 << 20;

absl::Status NotFoundError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kNotFound, "there is no recurrence of this name",
                         {.reason = "RECURRENCE_NOT_FOUND",
                          .field = "name",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
}

// Of a GetRecurrence or a PreviewRecurrence by name; the reader's thread fills it in.
struct ReadState : CallState {
  std::string name;
  uint16_t shard = 0;
  std::optional<RecurrenceState> recurrence;
};

// Of an UpdateRecurrence with a template.
struct UpdateState final : ReadState {
  v1::UpdateRecurrenceRequest request;
  RecurrenceCommand command;
};

// Of a CreateRecurrence.
struct CreateState final : CallState {
  std::string topic;
};

struct ListState final : CallState {
  std::string after;
  std::string token_filter;
  size_t page_size = 0;
  std::optional<storage::TopicId> topic;
  std::vector<RecurrenceState> recurrences;
  bool more = false;
  std::string last_looked_at;
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

// The recurrences of all shards in the order of their names, a few of each at a time: their
// templates may be large.
class MergedScan {
 public:
  MergedScan(storage::MessageStore* store, std::string after)
      : store_(store),
        per_read_(std::max<size_t>(1, kReadAhead / store->shard_count())),
        parts_(store->shard_count(), Part{.after = std::move(after), .objects = {}}) {}

  // Takes out the next one, or nothing after the last.
  absl::StatusOr<std::optional<storage::ObjectRef>> Next() {
    Part* first = nullptr;
    for (uint16_t shard = 0; shard < parts_.size(); ++shard) {
      Part& part = parts_[shard];
      if (part.objects.empty() && !part.ended) {
        if (absl::Status status = Read(shard, &part); !status.ok()) return status;
      }
      if (part.objects.empty()) continue;
      if (first == nullptr || part.objects.front().name < first->objects.front().name) {
        first = &part;
      }
    }
    if (first == nullptr) return std::nullopt;
    storage::ObjectRef next = std::move(first->objects.front());
    first->objects.pop_front();
    return next;
  }

 private:
  // Objects in memory, over all shards.
  static constexpr size_t kReadAhead = 64;

  struct Part {
    std::string after;
    std::deque<storage::ObjectRef> objects;
    bool ended = false;
  };

  absl::Status Read(uint16_t shard, Part* part) {
    std::vector<storage::ObjectRef> read;
    absl::Status status =
        store_->ScanObjects(ObjectKind::kRecurrence, shard, part->after, per_read_, &read);
    if (!status.ok()) return status;
    part->ended = read.size() < per_read_;
    if (read.empty()) return status;
    part->after = read.back().name;
    std::move(read.begin(), read.end(), std::back_inserter(part->objects));
    return status;
  }

  storage::MessageStore* const store_;
  const size_t per_read_;
  std::vector<Part> parts_;
};

// Ends the page early rather than read without bound.
absl::Status ReadPage(storage::MessageStore* store, ListState* state) {
  MergedScan scan(store, state->after);
  size_t looks = 0;
  size_t bytes = 0;
  for (;;) {
    absl::StatusOr<std::optional<storage::ObjectRef>> next = scan.Next();
    if (!next.ok()) return next.status();
    if (!next->has_value()) return absl::OkStatus();
    const storage::ObjectRef& object = **next;
    if (state->recurrences.size() >= state->page_size || looks >= kLooksMax ||
        bytes >= kListBytesMax) {
      state->more = true;
      return absl::OkStatus();
    }
    ++looks;
    bytes += object.value.size();
    state->last_looked_at = object.name;
    auto recurrence = delivery::DecodeRecurrence(object.name, object.value);
    if (!recurrence.ok()) return recurrence.status();
    if (state->topic.has_value() && recurrence->spec.topic != *state->topic) continue;
    state->recurrences.push_back(*std::move(recurrence));
  }
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
    status = ReadTemplate(asked.template_(), {}, context->options.limits, &command.spec.message);
  }
  if (status.ok()) status = ReadPolicies(asked, &command.spec.overlap, &command.spec.misfire);
  // A start that was left out is the moment of the call, and a ttl that of the topic at that
  // moment. Neither is a part of what was asked for: a repeat asks for the same.
  if (status.ok())
    status = ReadRule(asked.schedule(), 0, "recurrence.schedule", &command.spec.rule);
  if (!status.ok()) return call->FinishWithError(status);
  TopicRegistry::Topic topic;
  status = context->Resolve(
      asked.topic(),
      command.validate_only ? TopicRegistry::Use::kLook : TopicRegistry::Use::kSchedule, &topic);
  if (!status.ok()) return call->FinishWithError(status);
  command.spec.topic = topic.id;
  RecurrenceState content;
  content.spec = command.spec;
  command.spec.content = ContentHash(delivery::EncodeRecurrence(content));
  status = ReadTemplate(asked.template_(), topic.settings, context->options.limits,
                        &command.spec.message);
  if (!status.ok()) return call->FinishWithError(status);
  if (!asked.schedule().has_start_time()) {
    command.spec.rule.start_ms = static_cast<int64_t>(now_ms);
  }
  auto state = std::make_shared<CreateState>();
  state->topic = asked.topic();
  call->state = std::move(state);
  if (!topic.durable && !command.validate_only) {
    command.new_topics.emplace_back(topic.id, std::string(topic.name));
    call->job.new_topics = {topic.id};
  }
  if (asked.template_().late_policy() == v1::Message::DEAD_LETTER && !command.validate_only) {
    TopicRegistry::Topic dead_letters;
    status = context->DeadLettersOf(topic, &dead_letters);
    if (!status.ok()) return call->FinishWithError(status);
    if (!dead_letters.durable) {
      command.new_topics.emplace_back(dead_letters.id, std::string(dead_letters.name));
      call->job.new_topics.push_back(dead_letters.id);
    }
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
  if (status.ok()) status = ReadPolicies(asked, &command.spec.overlap, &command.spec.misfire);
  if (status.ok() && command.update_rule) {
    status = ReadRule(asked.schedule(), context->clock->Read().wall_ms, "recurrence.schedule",
                      &command.spec.rule);
  }
  if (!status.ok()) return call->FinishWithError(status);
  if (!command.update_message) return Post(call, std::move(command));
  // What the template may be is for the topic to say, which the request need not name: it cannot be
  // changed.
  const auto state = std::make_shared<UpdateState>();
  state->name = asked.name();
  state->shard = ShardOf(state->name);
  state->command = std::move(command);
  state->request = std::move(request);
  env_.ReadThen(call, state, ReadOne, [this, call](UpdateState* of) {
    const auto topic = env_.context->topics.Find(TopicName(*of->recurrence));
    absl::Status read = ReadTemplate(of->request.recurrence().template_(),
                                     topic.has_value() ? topic->settings : TopicSettings{},
                                     env_.context->options.limits, &of->command.spec.message);
    TopicRegistry::Topic dead_letters;
    if (read.ok() && topic.has_value() &&
        of->request.recurrence().template_().late_policy() == v1::Message::DEAD_LETTER) {
      read = env_.context->DeadLettersOf(*topic, &dead_letters);
      if (read.ok() && !dead_letters.durable) {
        of->command.new_topics.emplace_back(dead_letters.id, std::string(dead_letters.name));
        call->job.new_topics = {dead_letters.id};
      }
    }
    if (!read.ok()) return call->FinishWithError(read);
    Post(call, std::move(of->command));
  });
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
  // A check leaves no name of a topic behind.
  const bool created = call->method() == metrics::RpcMethod::kCreateRecurrence;
  const absl::string_view topic =
      created ? static_cast<CreateState*>(call->state.get())->topic : TopicName(reply.state);
  const auto fill = [&](auto response) {
    FillRecurrence(reply.state, topic, /*full=*/true, response.mutable_recurrence());
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
  env_.ReadThen(call, state, ReadOne, [this, call](ReadState* of) {
    v1::GetRecurrenceResponse response;
    FillRecurrence(*of->recurrence, TopicName(*of->recurrence), /*full=*/true,
                   response.mutable_recurrence());
    call->Finish(response);
  });
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
  env_.ReadThen(call, state, ReadPage, [this, call](ListState* of) {
    v1::ListRecurrencesResponse response;
    for (const RecurrenceState& recurrence : of->recurrences) {
      FillRecurrence(recurrence, TopicName(recurrence), /*full=*/false, response.add_recurrences());
    }
    if (of->more) {
      response.set_next_page_token(
          MakePageToken(of->token_filter, {.place = {}, .key = of->last_looked_at}));
    }
    call->Finish(response);
  });
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
  env_.ReadThen(call, state, ReadOne,
                [answer](ReadState* of) { answer(of->recurrence->spec.rule); });
}

}  // namespace duetime::rpc
