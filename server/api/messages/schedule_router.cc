// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_router.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/api/failure.h"
#include "server/api/messages/message_view.h"
#include "server/api/messages/target_validation.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/protocol/commands.h"
#include "storage/slot.h"

namespace duetime::api {

using storage::TopicId;

namespace {

bool IsCheck(const ValidSchedule& valid) { return !valid.plain && valid.validate_only; }

// Fills in the record except its topic and accept time. Takes the message's attributes and labels.
void MoveToRecord(ValidSchedule* valid, storage::MessageRecord* record) {
  record->header = {.topic = {}, .deliver_ms = valid->when.deliver_ms, .accept_ms = 0};
  record->attributes.swap(valid->attributes);
  record->payload = valid->payload;
  record->ttl_ms = valid->ttl_ms;
  record->late_policy = valid->late_policy;
  if (valid->plain) {
    record->labels.clear();
    record->key = record->ordering_key = record->civil_time = record->time_zone = {};
    record->spread_ms = 0;
    return;
  }
  record->labels.swap(valid->labels);
  record->key = valid->key;
  record->ordering_key = valid->ordering_key;
  record->spread_ms = valid->spread_ms;
  record->civil_time = valid->when.civil_time;
  record->time_zone = valid->when.time_zone;
}

std::unique_ptr<protocol::ScheduleOptions> MakeOptions(const ValidSchedule& valid,
                                                       const v1::ScheduleRequest& request) {
  auto options = std::make_unique<protocol::ScheduleOptions>();
  options->key = std::string(valid.key);
  options->ordering_key = std::string(valid.ordering_key);
  options->request_id = std::string(valid.request_id);
  options->content = FingerprintOf(request);
  options->on_conflict = valid.on_conflict;
  options->only_if_exists = valid.only_if_exists;
  options->validate_only = valid.validate_only;
  options->max_wait_ms = valid.max_wait_ms;
  options->spread_ms = valid.spread_ms;
  options->expire_ms = valid.expire_ms;
  return options;
}

// The answer to the item, which its shard did not refuse as a whole. `next` has the number of
// answers taken, by shard.
const protocol::AcceptedMessage& NextAnswer(const ScheduleJob& job, const ScheduledItem& item,
                                            std::vector<size_t>* next) {
  const size_t place = job.answers.size() == 1 ? 0 : item.shard;
  DT_CHECK(place < job.answers.size() && (*next)[place] < job.answers[place].size());
  return job.answers[place][(*next)[place]++];
}

}  // namespace

void ScheduleJob::Clear() {
  constexpr size_t kItemsKept = 64;
  if (items.capacity() > kItemsKept) {
    items = std::vector<ScheduledItem>();
  } else {
    items.clear();
  }
  trace = {};
  missing.clear();
  ensured.clear();
  names.clear();
  refused.clear();
  answers.clear();
  open = 0;
  status = absl::OkStatus();
}

// The stride is odd, so it meets every slot before it repeats one. It is large, so consecutive
// calls go to different shards.
uint32_t ScheduleRouter::NextSlot() {
  constexpr uint32_t kStride = 6'367;
  next_slot_ = (next_slot_ + kStride) % storage::MessageId::kSlotCount;
  return next_slot_;
}

uint32_t ScheduleRouter::SlotWithoutName(const catalog::Topic* topic, const ScheduleJob& job) {
  if (topic == nullptr || topic->settings.minute_max() == 0) return job.plain_slot;
  constexpr uint32_t kSlots = storage::MessageId::kSlotCount;
  const auto shards = static_cast<uint32_t>(commands_.size());
  const uint32_t first = storage::ShardOfSlot(job.plain_slot, static_cast<uint16_t>(shards));
  const uint32_t shard = (first + turns_[topic->id]++) % shards;
  // The first slot of the shard, and a place within the shard's slots.
  return (shard * kSlots + shards - 1) / shards + job.plain_slot % (kSlots / shards);
}

void ScheduleRouter::Begin(size_t messages, ScheduleJob* job) {
  job->Clear();
  job->plain_slot = NextSlot();
  BeginAgain(messages, job);
}

void ScheduleRouter::BeginAgain(size_t messages, ScheduleJob* job) {
  job->items.clear();
  job->names.clear();
  job->now = context_->clock->Read();
  job->items.reserve(messages);
  commands_.resize(context_->node.load(std::memory_order_acquire)->shard_count());
  turns_.clear();
  expected_ = messages;
}

void ScheduleRouter::Add(const v1::ScheduleRequest& request, int index, ScheduleJob* job) {
  job->accept_ms = AcceptMs(request, job->now);
  absl::Status status;
  if (!job->refused.empty()) {
    const auto refused = job->refused.find(job->items.size());
    if (refused != job->refused.end()) status = refused->second;
  }
  if (status.ok()) {
    status = ValidateSchedule(request, context_->options.limits, job->accept_ms, index, &valid_);
  }
  if (status.ok()) {
    AddTraceContext(job->trace, context_->options.limits, &valid_.attributes);
    status = Accept(request, index, &valid_, &record_, job);
  }
  if (status.ok()) return;
  job->items.emplace_back().error = std::move(status);
}

bool ScheduleRouter::DropIfMissing(const ScheduleJob& job) {
  if (job.missing.empty()) return false;
  for (protocol::ScheduleCommand& command : commands_) command = {};
  return true;
}

absl::StatusOr<const catalog::Topic*> ScheduleRouter::FindTopic(const ValidSchedule& valid,
                                                                const ScheduleJob& job) {
  const catalog::Snapshot& catalog = context_->catalog();
  const bool same = last_topic_ != nullptr && last_version_ == catalog.version() &&
                    last_topic_->name() == valid.topic;
  if (!same) {
    last_topic_ = catalog.FindTopic(valid.topic);
    last_version_ = catalog.version();
  }
  if (IsCheck(valid)) {
    // A check creates no topic.
    absl::Status status =
        last_topic_ == nullptr ? context_->MayCreateTopic(valid.topic) : absl::OkStatus();
    if (!status.ok()) return status;
    return last_topic_.get();
  }
  if (last_topic_ != nullptr && last_topic_->used) return last_topic_.get();
  const auto ensured = job.ensured.find(valid.topic);
  if (ensured == job.ensured.end()) {
    // A call that creates no message creates no topic.
    if (!valid.plain && valid.only_if_exists) return KeyNotFoundError(valid.topic, valid.key);
    return nullptr;
  }
  if (!ensured->second.ok()) return ensured->second.status();
  return ensured->second->get();
}

TopicId ScheduleRouter::DeletedTopic(absl::string_view name) const {
  const catalog::TopicPtr topic = context_->catalog().FindTopicEvenIfDeleted(name);
  return topic == nullptr ? TopicId{} : topic->id;
}

absl::StatusOr<bool> ScheduleRouter::HasDeadLetters(const catalog::Topic& topic,
                                                    const ScheduleJob& job) const {
  if (context_->catalog().LinksDeadLetters(topic)) return true;
  const auto ensured = job.ensured.find(topic.name());
  if (ensured == job.ensured.end()) return false;
  if (!ensured->second.ok()) return ensured->second.status();
  return true;
}

absl::Status ScheduleRouter::Accept(const v1::ScheduleRequest& request, int index,
                                    ValidSchedule* valid, storage::MessageRecord* record,
                                    ScheduleJob* job) {
  const absl::StatusOr<const catalog::Topic*> found = FindTopic(*valid, *job);
  if (!found.ok()) return found.status();
  const catalog::Topic* const topic = *found;
  const TopicSettings& settings =
      topic == nullptr ? *protocol::DefaultTopicSettings() : topic->settings;
  absl::Status status = ApplyTopicSettings(settings, index, valid);
  if (!status.ok()) return status;
  const uint64_t retention_ms = settings.has_tombstone_retention_ms()
                                    ? settings.tombstone_retention_ms()
                                    : context_->node_options.limits.tombstone_retention_ms;
  status = CheckOnce(retention_ms, index, *valid);
  if (!status.ok()) return status;
  const bool check = IsCheck(*valid);
  const bool dead_letters = valid->late_policy == storage::LatePolicy::kDeadLetter && !check;
  absl::StatusOr<bool> complete = topic != nullptr || check;
  if (*complete && dead_letters) complete = HasDeadLetters(*topic, *job);
  if (!complete.ok()) return complete.status();
  ScheduledItem& item = job->items.emplace_back();
  if (!*complete) {
    job->missing[std::string(valid->topic)] |= dead_letters;
    return absl::OkStatus();
  }
  const absl::string_view topic_name = topic == nullptr ? valid->topic : topic->name();
  const bool kept =
      topic == nullptr || (!job->names.empty() && job->names.back() == topic->name_text);
  if (!kept) job->names.push_back(topic->name_text);
  const absl::string_view name = valid->routing_name();
  const uint32_t slot =
      name.empty() ? SlotWithoutName(topic, *job) : storage::SlotOfName(topic_name, name);
  item.shard = storage::ShardOfSlot(slot, static_cast<uint16_t>(commands_.size()));
  item.topic = topic_name;
  item.payload_bytes = valid->payload.size();
  item.keeps_time = !valid->plain && valid->on_conflict == protocol::OnConflict::kKeepTime;

  MoveToRecord(valid, record);
  record->header.topic = topic == nullptr ? DeletedTopic(valid->topic) : topic->id;
  record->header.accept_ms = job->accept_ms;
  protocol::ScheduleCommand* const command = CommandFor(item.shard, job);
  command->messages.push_back(protocol::MakeNewMessage(*record, slot));
  if (valid->needs_options()) command->messages.back().options = MakeOptions(*valid, request);
  if (valid->plain && valid->ttl_ms == 0) return absl::OkStatus();
  // Holds the stored fields; Fill adds the fields that the shard decides.
  item.stored_fields = std::make_unique<v1::Message>();
  FillRecord(*record, /*id=*/{}, topic_name, record->payload.size(), /*full=*/false,
             item.stored_fields.get());
  // The topic does not exist, so only `stored_fields` keeps its name.
  if (topic == nullptr) item.topic = item.stored_fields->topic();
  return absl::OkStatus();
}

protocol::ScheduleCommand* ScheduleRouter::CommandFor(uint16_t shard, ScheduleJob* job) {
  protocol::ScheduleCommand* command = &commands_[shard];
  // A plain batch is one command, so reserve room for the whole batch.
  if (command->messages.empty() && job->items.size() == 1) command->messages.reserve(expected_);
  return command;
}

bool ScheduleRouter::Post(protocol::CallTag tag, ScheduleJob* job) {
  runtime::Node* node = context_->node.load(std::memory_order_acquire);
  absl::Status refused;
  uint64_t refused_shards = 0;
  for (uint16_t shard = 0; shard < commands_.size(); ++shard) {
    protocol::ScheduleCommand command = std::exchange(commands_[shard], {});
    if (command.messages.empty()) continue;
    command.tag = tag;
    if (absl::Status status = node->Post(shard, std::move(command)); status.ok()) {
      ++job->open;
    } else {
      refused = std::move(status);
      refused_shards |= uint64_t{1} << shard;
    }
  }
  if (job->open > 0 && job->items.size() > 1) job->answers.resize(commands_.size());
  if (refused.ok()) return job->open > 0;
  // The server ends. Nothing was changed, and libraries repeat a call that failed like that.
  if (job->open == 0 && absl::IsUnavailable(refused)) {
    job->status = std::move(refused);
    return false;
  }
  for (ScheduledItem& item : job->items) {
    if (item.error.ok() && (refused_shards >> item.shard & 1) != 0) item.error = refused;
  }
  return job->open > 0;
}

bool ScheduleRouter::Take(uint16_t shard, protocol::ScheduleReply reply, ScheduleJob* job) {
  DT_CHECK_GT(job->open, 0u);
  --job->open;
  if (!reply.status.ok()) {
    job->status = std::move(reply.status);
  } else if (job->answers.empty()) {
    job->answers.push_back(std::move(reply.accepted));
  } else {
    job->answers[shard] = std::move(reply.accepted);
  }
  return job->open == 0;
}

template <typename Answer>
void ScheduleRouter::Fill(const ScheduledItem& item, const protocol::AcceptedMessage& accepted,
                          Answer* answer) const {
  v1::Message* message = answer->mutable_message();
  if (item.stored_fields != nullptr) {
    *message = *item.stored_fields;
    const bool created = accepted.outcome == protocol::ScheduleOutcome::kCreated;
    if (accepted.moved || (item.keeps_time && !created)) message->clear_civil_time();
    if (message->has_ttl()) {
      if (accepted.ttl_ms > 0) SetDuration(accepted.ttl_ms, message->mutable_ttl());
      const uint64_t ttl_ms = DurationToMs(message->ttl()).value_or(0);
      SetTimestamp(accepted.deliver_ms + ttl_ms, message->mutable_expire_time());
    }
  } else {
    message->set_topic(item.topic.data(), item.topic.size());
    message->set_payload_bytes(static_cast<int64_t>(item.payload_bytes));
  }
  FillIdentity(accepted.id, accepted.revision, message);
  SetTimestamp(accepted.deliver_ms, message->mutable_deliver_time());
  SetTimestamp(accepted.accept_ms, message->mutable_accept_time());
  if (accepted.update_ms > 0) SetTimestamp(accepted.update_ms, message->mutable_update_time());
  message->set_state(ToProto(accepted.state));
  answer->set_outcome(ToProto(accepted.outcome));
  if (accepted.outcome == protocol::ScheduleOutcome::kReplaced) {
    SetTimestamp(accepted.old_deliver_ms, answer->mutable_old_deliver_time());
  }
  if (accepted.previous_id.has_value()) {
    answer->set_previous_message_id(accepted.previous_id->ToString());
  }
  answer->set_minute_limit_exceeded(accepted.minute_limit_exceeded);
  answer->set_request_repeated(accepted.request_repeated);
  answer->set_message_ended(accepted.ended);
}

absl::Status ScheduleRouter::FillResponse(const ScheduleJob& job,
                                          v1::ScheduleResponse* response) const {
  DT_CHECK_EQ(job.items.size(), 1u);
  const ScheduledItem& item = job.items[0];
  if (!item.error.ok()) return item.error;
  DT_CHECK(job.answers.size() == 1 && job.answers[0].size() == 1);
  const protocol::AcceptedMessage& accepted = job.answers[0][0];
  if (!accepted.status.ok()) return WithMetadata(accepted.status, "topic", item.topic);
  Fill(item, accepted, response);
  return absl::OkStatus();
}

std::vector<absl::Status> ScheduleRouter::Refusals(const ScheduleJob& job) const {
  std::vector<absl::Status> refusals;
  refusals.reserve(job.items.size());
  std::vector<size_t> next(std::max<size_t>(job.answers.size(), 1));
  for (const ScheduledItem& item : job.items) {
    absl::Status status = item.error.ok() ? job.status : item.error;
    if (status.ok()) {
      const protocol::AcceptedMessage& accepted = NextAnswer(job, item, &next);
      if (!accepted.status.ok()) status = WithMetadata(accepted.status, "topic", item.topic);
    }
    refusals.push_back(std::move(status));
  }
  return refusals;
}

void ScheduleRouter::FillResults(
    const ScheduleJob& job, google::protobuf::RepeatedPtrField<v1::ScheduleResult>* results) const {
  std::vector<size_t> next(std::max<size_t>(job.answers.size(), 1));
  for (const ScheduledItem& item : job.items) {
    v1::ScheduleResult* result = results->Add();
    if (!item.error.ok()) {
      FillFailure(item.error, result->mutable_error());
      continue;
    }
    const protocol::AcceptedMessage& accepted = NextAnswer(job, item, &next);
    if (accepted.status.ok()) {
      Fill(item, accepted, result);
    } else {
      FillFailure(WithMetadata(accepted.status, "topic", item.topic), result->mutable_error());
    }
  }
}

}  // namespace duetime::api
