// SPDX-License-Identifier: Apache-2.0
#include "server/api/recurrences/recurrence_handlers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/messages/content_hash.h"
#include "server/api/messages/target_validation.h"
#include "server/api/page_token.h"
#include "server/api/proto_time.h"
#include "server/api/query_validation.h"
#include "server/api/recurrences/recurrence_view.h"
#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "server/calendar/civil_time.h"
#include "server/calendar/zone.h"
#include "server/protocol/commands.h"
#include "server/protocol/request_content.h"
#include "server/query/recurrence_query.h"
#include "storage/slot.h"

namespace duetime::api {
namespace {

using protocol::RecurrenceCommand;
using protocol::RecurrenceReply;
using protocol::RecurrenceState;

constexpr int kPreviewDefault = 10;
constexpr int kPreviewMax = 1'000;

absl::Status EtagMismatchError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kAborted, "not an etag of this recurrence",
                         {.reason = "ETAG_MISMATCH",
                          .field = "etag",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
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

// The point in the times of a rule at which a preview begins.
struct PreviewBegin {
  // All occurrences are after this time.
  int64_t after_ms = 0;
  // The number of occurrences made up to then.
  uint64_t made = 0;
};

// The point before the first occurrence of a recurrence that is created at `now_ms`. nullopt: it
// has no occurrence.
std::optional<PreviewBegin> BeginOfNew(const calendar::Recurrence& rule, int64_t now_ms) {
  const std::optional<int64_t> first = rule.First(now_ms);
  if (!first.has_value()) return std::nullopt;
  return PreviewBegin{.after_ms = *first - 1, .made = 0};
}

// The point before the pending occurrence. Without one, the recurrence is complete, or paused: then
// as if it were resumed at `now_ms` and missed nothing.
PreviewBegin BeginOf(const RecurrenceState& state, int64_t now_ms) {
  const auto nominal_ms = static_cast<int64_t>(state.nominal_ms);
  if (state.current.id != storage::MessageId{} && state.made > 0) {
    return {.after_ms = nominal_ms - 1, .made = state.made - 1};
  }
  return {.after_ms = std::max(nominal_ms, now_ms), .made = state.made};
}

absl::Status FillPreview(const calendar::Recurrence& rule, const PreviewBegin& begin,
                         int64_t after_ms, size_t count, v1::PreviewRecurrenceResponse* response) {
  const std::string& time_zone = rule.rule().time_zone;
  const std::string zone_name = time_zone.empty() ? "UTC" : time_zone;
  const auto zone = calendar::FindZone(zone_name, "schedule.time_zone");
  if (!zone.ok()) return zone.status();
  constexpr uint64_t kCountedMax = 10'000;
  int64_t at_ms = std::max(begin.after_ms, after_ms);
  std::optional<uint64_t> number = rule.CountBetween(begin.after_ms, at_ms, kCountedMax);
  if (number.has_value()) *number += begin.made;
  for (size_t i = 0; i < count && !rule.IsComplete(number.value_or(kCountedMax)); ++i) {
    const auto next = rule.NextAfter(at_ms);
    if (!next.has_value()) break;
    at_ms = *next;
    auto* occurrence = response->add_occurrences();
    if (number.has_value()) occurrence->set_number(static_cast<int64_t>(++*number));
    SetTimestamp(static_cast<uint64_t>(at_ms), occurrence->mutable_time());
    occurrence->mutable_civil_time()->set_local(calendar::FormatCivilTime(at_ms, *zone));
    occurrence->mutable_civil_time()->set_time_zone(zone_name);
  }
  return absl::OkStatus();
}

absl::string_view TopicName(ApiWorker& worker, const RecurrenceState& state) {
  return worker.context().catalog().TopicName(state.spec.topic);
}

uint16_t ShardOf(ApiWorker& worker, const std::string& name) {
  return storage::ShardOfSlot(storage::SlotOfName("", name), worker.node().shard_count());
}

// Reads a recurrence on whose topic the client of the call may do this.
Co<absl::StatusOr<RecurrenceState>> Read(ApiWorker& worker, access::CallerPtr caller,
                                         access::Verb verb, std::string name) {
  ReadStore reading(worker, [shard = ShardOf(worker, name), name](storage::MessageStore* store) {
    return query::ReadRecurrence(store, shard, name);
  });
  auto recurrence = co_await reading;
  if (recurrence.ok() && !Allows(worker, caller, verb, recurrence->spec.topic)) {
    co_return protocol::RecurrenceNotFoundError(name);
  }
  co_return recurrence;
}

// Sends a command to the shard of its recurrence.
Co<absl::StatusOr<RecurrenceReply>> Change(ApiWorker& worker, RecurrenceCommand command) {
  const uint16_t shard = ShardOf(worker, command.name);
  command.budget = worker.context().open_answers;
  Ask<RecurrenceReply, RecurrenceCommand> ask(&worker, shard, std::move(command));
  co_return co_await ask;
}

// Sends a command that needs only the name: pause, resume, delete.
Co<absl::StatusOr<RecurrenceReply>> ChangeByName(ApiWorker& worker, protocol::TopicScopePtr scope,
                                                 std::string name, RecurrenceCommand::Kind kind) {
  absl::Status status = ValidateRecurrenceName(name, "name");
  if (!status.ok()) co_return status;
  RecurrenceCommand command;
  command.kind = kind;
  command.name = std::move(name);
  command.scope = std::move(scope);
  co_return co_await Change(worker, std::move(command));
}

protocol::TopicScopePtr ScheduleScope(ApiWorker& worker, const rpc::Call& call) {
  return ScopeOf(worker, call.caller, access::Verb::kSchedule);
}

// Fills in a recurrence, with its payload only if the client may read payloads.
void FillFor(ApiWorker& worker, const rpc::Call& call, const RecurrenceState& state,
             v1::Recurrence* response) {
  const bool full = Allows(worker, call.caller, access::Verb::kReadPayloads, state.spec.topic);
  FillRecurrence(state, TopicName(worker, state), full, response);
}

template <typename Response>
Co<absl::Status> ChangeState(ApiWorker& worker, rpc::Call& call, std::string name,
                             RecurrenceCommand::Kind kind, Response* response) {
  const auto reply =
      co_await ChangeByName(worker, ScheduleScope(worker, call), std::move(name), kind);
  if (!reply.ok()) co_return reply.status();
  FillFor(worker, call, reply->state, response->mutable_recurrence());
  co_return absl::OkStatus();
}

// The same as Change, but changes nothing. The check comes before the creation of a topic, because
// a refused request creates none.
Co<absl::Status> Check(ApiWorker& worker, RecurrenceCommand command) {
  command.validate_only = true;
  const auto reply = co_await Change(worker, std::move(command));
  co_return reply.status();
}

// True if late messages of the template become dead letters.
bool MakesDeadLetters(const v1::Recurrence& asked) {
  return asked.template_().late_policy() == v1::Message::LATE_POLICY_DEAD_LETTER;
}

// Reads a new recurrence, without the settings of its topic.
absl::Status ReadNew(ApiWorker& worker, const v1::Recurrence& asked, uint64_t now_ms,
                     RecurrenceCommand* command) {
  absl::Status status = ValidateRecurrenceName(asked.name(), "recurrence.name");
  if (status.ok()) status = ValidateTopic(asked.topic(), "recurrence.topic");
  if (status.ok()) {
    status = ReadTemplate(asked.template_(), {}, worker.context().options.limits,
                          &command->spec.message);
  }
  if (status.ok()) status = ReadPolicies(asked, &command->spec.overlap, &command->spec.misfire);
  // A missing start becomes the moment of the call, and a missing ttl becomes the topic's ttl at
  // that moment. Both are set later and are not part of the content, so that a repeat of the
  // request has the same content.
  if (status.ok()) {
    status = ReadRule(asked.schedule(), worker.context().options.limits, now_ms,
                      "recurrence.schedule", &command->spec.rule);
  }
  if (!asked.schedule().has_start_time()) command->spec.rule.start_ms = 0;
  return status;
}

// Adds to a new recurrence what depends on its topic, null if it does not exist, and on the time of
// the call.
absl::Status Complete(ApiWorker& worker, const v1::Recurrence& asked, const catalog::Topic* topic,
                      uint64_t now_ms, RecurrenceCommand* command) {
  if (topic != nullptr) command->spec.topic = topic->id;
  command->spec.content = ContentHash(protocol::ContentOf(command->spec));
  if (!asked.schedule().has_start_time()) {
    command->spec.rule.start_ms = static_cast<int64_t>(now_ms);
  }
  return ReadTemplate(asked.template_(),
                      topic == nullptr ? *protocol::DefaultTopicSettings() : topic->settings,
                      worker.context().options.limits, &command->spec.message);
}

// Reads all of an update except the template.
absl::Status ReadUpdate(ApiWorker& worker, const v1::UpdateRecurrenceRequest& request,
                        RecurrenceCommand* command) {
  const v1::Recurrence& asked = request.recurrence();
  absl::Status status = ValidateRecurrenceName(asked.name(), "recurrence.name");
  if (status.ok()) status = ReadMask(request.update_mask(), command);
  if (status.ok() && !request.etag().empty()) {
    command->etag = ParseEtag(request.etag());
    if (!command->etag.has_value()) status = EtagMismatchError(asked.name());
  }
  if (status.ok()) status = ReadPolicies(asked, &command->spec.overlap, &command->spec.misfire);
  if (status.ok() && command->update_rule) {
    status = ReadRule(asked.schedule(), worker.context().options.limits,
                      worker.context().clock->Read().wall_ms, "recurrence.schedule",
                      &command->spec.rule);
  }
  return status;
}

}  // namespace

Co<absl::Status> CreateRecurrence(ApiWorker& worker, rpc::Call&,
                                  const v1::CreateRecurrenceRequest& request,
                                  v1::CreateRecurrenceResponse* response) {
  ServingContext& context = worker.context();
  const v1::Recurrence& asked = request.recurrence();
  RecurrenceCommand command;
  command.kind = RecurrenceCommand::Kind::kCreate;
  command.name = asked.name();
  command.validate_only = request.validate_only();
  const uint64_t now_ms = context.clock->Read().wall_ms;
  absl::Status status = ReadNew(worker, asked, now_ms, &command);
  if (!status.ok()) co_return status;
  catalog::TopicPtr topic = context.catalog().FindTopic(asked.topic());
  if (topic == nullptr) status = context.MayCreateTopic(asked.topic());
  const bool dead_letters = MakesDeadLetters(asked);
  const bool creates =
      topic == nullptr || (dead_letters && !context.catalog().LinksDeadLetters(*topic));
  if (status.ok() && creates && !request.validate_only()) {
    RecurrenceCommand check = command;
    status = Complete(worker, asked, topic.get(), now_ms, &check);
    if (status.ok()) status = co_await Check(worker, std::move(check));
  }
  if (!status.ok()) co_return status;
  if (!request.validate_only()) {
    AskCatalog ask(&worker,
                   catalog::EnsureTopic{.name = asked.topic(), .dead_letters = dead_letters});
    const catalog::Reply ensured = co_await ask;
    if (!ensured.status.ok()) co_return ensured.status;
    topic = ensured.topic;
  }
  status = Complete(worker, asked, topic.get(), now_ms, &command);
  if (!status.ok()) co_return status;
  const auto reply = co_await Change(worker, std::move(command));
  if (!reply.ok()) co_return reply.status();
  FillRecurrence(reply->state, asked.topic(), /*full=*/true, response->mutable_recurrence());
  co_return absl::OkStatus();
}

Co<absl::Status> UpdateRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::UpdateRecurrenceRequest& request,
                                  v1::UpdateRecurrenceResponse* response) {
  ServingContext& context = worker.context();
  const v1::Recurrence& asked = request.recurrence();
  RecurrenceCommand command;
  command.kind = RecurrenceCommand::Kind::kUpdate;
  command.name = asked.name();
  command.scope = ScheduleScope(worker, call);
  absl::Status status = ReadUpdate(worker, request, &command);
  if (!status.ok()) co_return status;
  if (command.update_message) {
    // The topic's settings bound the template. The request need not name the topic, which cannot be
    // changed.
    const auto now = co_await Read(worker, call.caller, access::Verb::kSchedule, asked.name());
    if (!now.ok()) co_return now.status();
    const std::string name(TopicName(worker, *now));
    const catalog::TopicPtr topic = context.catalog().FindTopic(name);
    const TopicSettings settings = topic == nullptr ? TopicSettings{} : topic->settings;
    status =
        ReadTemplate(asked.template_(), settings, context.options.limits, &command.spec.message);
    if (status.ok() && topic != nullptr && MakesDeadLetters(asked) &&
        !context.catalog().LinksDeadLetters(*topic)) {
      status = co_await Check(worker, command);
      if (!status.ok()) co_return status;
      AskCatalog ask(&worker, catalog::EnsureTopic{.name = name, .dead_letters = true});
      const catalog::Reply ensured = co_await ask;
      status = ensured.status;
    }
    if (!status.ok()) co_return status;
  }
  const auto reply = co_await Change(worker, std::move(command));
  if (!reply.ok()) co_return reply.status();
  FillFor(worker, call, reply->state, response->mutable_recurrence());
  co_return absl::OkStatus();
}

Co<absl::Status> PauseRecurrence(ApiWorker& worker, rpc::Call& call,
                                 const v1::PauseRecurrenceRequest& request,
                                 v1::PauseRecurrenceResponse* response) {
  return ChangeState(worker, call, request.name(), RecurrenceCommand::Kind::kPause, response);
}

Co<absl::Status> ResumeRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::ResumeRecurrenceRequest& request,
                                  v1::ResumeRecurrenceResponse* response) {
  return ChangeState(worker, call, request.name(), RecurrenceCommand::Kind::kResume, response);
}

Co<absl::Status> DeleteRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::DeleteRecurrenceRequest& request,
                                  v1::DeleteRecurrenceResponse* response) {
  const auto reply = co_await ChangeByName(worker, ScheduleScope(worker, call), request.name(),
                                           RecurrenceCommand::Kind::kDelete);
  if (!reply.ok()) co_return reply.status();
  response->set_occurrence_cancelled(reply->occurrence_cancelled);
  co_return absl::OkStatus();
}

Co<absl::Status> GetRecurrence(ApiWorker& worker, rpc::Call& call,
                               const v1::GetRecurrenceRequest& request,
                               v1::GetRecurrenceResponse* response) {
  absl::Status status = ValidateRecurrenceName(request.name(), "name");
  if (!status.ok()) co_return status;
  const auto recurrence = co_await Read(worker, call.caller, access::Verb::kRead, request.name());
  if (!recurrence.ok()) co_return recurrence.status();
  FillFor(worker, call, *recurrence, response->mutable_recurrence());
  co_return absl::OkStatus();
}

Co<absl::Status> ListRecurrences(ApiWorker& worker, rpc::Call& call,
                                 const v1::ListRecurrencesRequest& request,
                                 v1::ListRecurrencesResponse* response) {
  const std::string filter = absl::StrCat("recurrences;", request.topic());
  size_t page_size = 0;
  std::string after;
  absl::Status status =
      ValidatePage(request.page_size(), request.page_token(), filter, &page_size, &after);
  if (status.ok() && !request.topic().empty()) status = ValidateTopic(request.topic(), "topic");
  if (!status.ok()) co_return status;
  std::optional<storage::TopicId> topic;
  if (!request.topic().empty()) {
    const auto found = worker.context().catalog().FindTopicEvenIfDeleted(request.topic());
    if (found == nullptr) co_return absl::OkStatus();
    topic = found->id;
  }
  std::optional<std::string> next = after;
  // The token names the last recurrence of the page, so it must be one that the client may see.
  while (next.has_value() && response->recurrences().empty()) {
    ReadStore reading(worker, [topic, from = *next, page_size](storage::MessageStore* store) {
      return query::ReadRecurrences(store, topic, from, page_size);
    });
    const auto page = co_await reading;
    if (!page.ok()) co_return page.status();
    next = page->next;
    for (const RecurrenceState& recurrence : page->recurrences) {
      if (!Allows(worker, call.caller, access::Verb::kRead, recurrence.spec.topic)) continue;
      FillRecurrence(recurrence, TopicName(worker, recurrence), /*full=*/false,
                     response->add_recurrences());
    }
  }
  if (next.has_value()) {
    const std::string& last = response->recurrences().rbegin()->name();
    response->set_next_page_token(MakePageToken(filter, {.place = {}, .key = last}));
  }
  co_return absl::OkStatus();
}

Co<absl::Status> PreviewRecurrence(ApiWorker& worker, rpc::Call& call,
                                   const v1::PreviewRecurrenceRequest& request,
                                   v1::PreviewRecurrenceResponse* response) {
  if (request.count() < 0 || request.count() > kPreviewMax) {
    const absl::Status invalid =
        Invalid("INVALID_PAGE_SIZE", "count", absl::StrCat("0 to ", kPreviewMax),
                {{"limit", absl::StrCat(kPreviewMax)}});
    co_return invalid;
  }
  const auto count = static_cast<size_t>(request.count() == 0 ? kPreviewDefault : request.count());
  const uint64_t clock_ms = worker.context().clock->Read().wall_ms;
  const auto now_ms = static_cast<int64_t>(clock_ms);
  std::optional<int64_t> after_ms;
  if (request.has_after_time()) {
    const auto ms = TimestampToMs(request.after_time());
    if (!ms.has_value()) {
      co_return Invalid("INVALID_RECURRENCE", "after_time", "not a valid timestamp");
    }
    after_ms = static_cast<int64_t>(*ms);
  }
  std::optional<RecurrenceState> existing;
  calendar::RecurrenceRule rule;
  if (request.source_case() == v1::PreviewRecurrenceRequest::kName) {
    absl::Status status = ValidateRecurrenceName(request.name(), "name");
    if (!status.ok()) co_return status;
    auto recurrence = co_await Read(worker, call.caller, access::Verb::kRead, request.name());
    if (!recurrence.ok()) co_return recurrence.status();
    rule = recurrence->spec.rule;
    existing = *std::move(recurrence);
  } else {
    absl::Status status =
        ReadRule(request.schedule(), worker.context().options.limits, clock_ms, "schedule", &rule);
    if (!status.ok()) co_return status;
  }
  const auto compiled = calendar::Recurrence::Compile(rule, "schedule");
  if (!compiled.ok()) co_return compiled.status();
  const std::optional<PreviewBegin> begin =
      existing.has_value() ? BeginOf(*existing, now_ms)
                           : BeginOfNew(*compiled, std::min(now_ms, after_ms.value_or(now_ms)));
  if (!begin.has_value()) co_return absl::OkStatus();
  co_return FillPreview(*compiled, *begin, after_ms.value_or(begin->after_ms), count, response);
}

}  // namespace duetime::api
