// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_job.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/api/messages/message_view.h"
#include "server/api/messages/target_validation.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/protocol/commands.h"
#include "server/rpc/grpc_status.h"
#include "storage/slot.h"

namespace duetime::api {

using storage::TopicId;

void ScheduleJob::Clear() {
  constexpr size_t kItemsKept = 64;
  if (items.capacity() > kItemsKept) {
    items = std::vector<ScheduledItem>();
  } else {
    items.clear();
  }
  missing.clear();
  ensured.clear();
  answers.clear();
  open = 0;
  status = absl::OkStatus();
}

// Slots are dealt out by a stride that is odd, hence meets every slot before it repeats one, and
// large, so that consecutive calls go to different shards.
uint32_t Intake::NextSlot() {
  constexpr uint32_t kStride = 6'367;
  next_slot_ = (next_slot_ + kStride) % storage::MessageId::kSlotCount;
  return next_slot_;
}

void Intake::Begin(size_t messages, ScheduleJob* job) {
  job->Clear();
  job->plain_slot = NextSlot();
  BeginAgain(messages, job);
}

void Intake::BeginAgain(size_t messages, ScheduleJob* job) {
  job->items.clear();
  job->accept_ms = context_->clock->Read().wall_ms;
  job->items.reserve(messages);
  commands_.resize(context_->node.load(std::memory_order_acquire)->shard_count());
  expected_ = messages;
}

void Intake::Add(const v1::ScheduleRequest& request, int index, ScheduleJob* job) {
  absl::Status status =
      ValidateSchedule(request, context_->options.limits, job->accept_ms, index, &valid_);
  if (status.ok()) status = Accept(request, index, job);
  if (status.ok()) return;
  job->items.emplace_back().error = std::move(status);
}

bool Intake::DropIfMissing(const ScheduleJob& job) {
  if (job.missing.empty()) return false;
  for (protocol::ScheduleCommand& command : commands_) command = {};
  return true;
}

absl::StatusOr<bool> Intake::FindTopic(const ScheduleJob& job) {
  const catalog::Snapshot& catalog = context_->catalog();
  const bool known = topic_ != nullptr && topic_->used && topic_version_ == catalog.version();
  if (known && topic_->name() == valid_.topic) return true;
  topic_ = catalog.FindTopic(valid_.topic);
  topic_version_ = catalog.version();
  if (!valid_.plain && valid_.validate_only) {
    // A check leaves no topic behind.
    absl::Status status =
        topic_ == nullptr ? context_->MayCreateTopic(valid_.topic) : absl::OkStatus();
    if (!status.ok()) return status;
    return true;
  }
  if (topic_ != nullptr && topic_->used) return true;
  topic_ = nullptr;
  const auto ensured = job.ensured.find(valid_.topic);
  if (ensured == job.ensured.end()) return false;
  if (!ensured->second.ok()) return ensured->second.status();
  topic_ = *ensured->second;
  return true;
}

absl::StatusOr<bool> Intake::FindDeadLetters(const ScheduleJob& job) {
  if (context_->catalog().LinksDeadLetters(*topic_)) return true;
  const auto ensured = job.ensured.find(valid_.topic);
  if (ensured == job.ensured.end()) return false;
  if (!ensured->second.ok()) return ensured->second.status();
  return true;
}

absl::Status Intake::Accept(const v1::ScheduleRequest& request, int index, ScheduleJob* job) {
  absl::StatusOr<bool> found = FindTopic(*job);
  if (!found.ok()) return found.status();
  const TopicSettings defaults;
  const TopicSettings& settings = topic_ == nullptr ? defaults : topic_->settings;
  absl::Status status = ApplyTopicSettings(settings, index, &valid_);
  if (!status.ok()) return status;
  const bool dead_letters =
      valid_.late_policy == storage::LatePolicy::kDeadLetter && !valid_.validate_only;
  if (*found && dead_letters) found = FindDeadLetters(*job);
  if (!found.ok()) return found.status();
  if (!*found) {
    job->missing[std::string(valid_.topic)] |= dead_letters;
    job->items.emplace_back();
    return absl::OkStatus();
  }
  const TopicId topic = topic_ == nullptr ? TopicId{} : topic_->id;
  const absl::string_view topic_name = topic_ == nullptr ? valid_.topic : topic_->name();
  const bool plain = valid_.plain;
  const absl::string_view name = valid_.routing_name();
  const uint32_t slot = name.empty() ? job->plain_slot : storage::SlotOfName(topic_name, name);
  const uint16_t shard = storage::ShardOfSlot(slot, static_cast<uint16_t>(commands_.size()));
  protocol::ScheduleCommand* command = CommandFor(shard, job);

  record_.header = {
      .topic = topic, .deliver_ms = valid_.when.deliver_ms, .accept_ms = job->accept_ms};
  record_.attributes.swap(valid_.attributes);
  record_.payload = valid_.payload;
  record_.ttl_ms = valid_.ttl_ms;
  record_.late_policy = valid_.late_policy;
  if (plain) {
    record_.labels.clear();
    record_.key = record_.ordering_key = record_.civil_time = record_.time_zone = {};
    record_.spread_ms = 0;
  } else {
    record_.labels.swap(valid_.labels);
    record_.key = valid_.key;
    record_.ordering_key = valid_.ordering_key;
    record_.spread_ms = valid_.spread_ms;
    record_.civil_time = valid_.when.civil_time;
    record_.time_zone = valid_.when.time_zone;
  }
  command->messages.push_back(protocol::MakeNewMessage(record_, slot));
  if (valid_.needs_terms()) command->messages.back().options = MakeOptions(request);

  ScheduledItem& item = job->items.emplace_back();
  item.topic = topic_name;
  item.payload_bytes = valid_.payload.size();
  item.shard = shard;
  item.keeps_time = !plain && valid_.on_conflict == protocol::OnConflict::kKeepTime;
  if (!plain || valid_.ttl_ms > 0) item.echo = MakeEcho(topic_name);
  // Only the request has the name, then.
  if (topic_ == nullptr) item.topic = item.echo->topic();
  return absl::OkStatus();
}

std::unique_ptr<protocol::ScheduleOptions> Intake::MakeOptions(
    const v1::ScheduleRequest& request) const {
  auto terms = std::make_unique<protocol::ScheduleOptions>();
  terms->key = std::string(valid_.key);
  terms->request_id = std::string(valid_.request_id);
  terms->content = FingerprintOf(request);
  terms->on_conflict = valid_.on_conflict;
  terms->only_if_exists = valid_.only_if_exists;
  terms->validate_only = valid_.validate_only;
  terms->max_wait_ms = valid_.max_wait_ms;
  terms->spread_ms = valid_.spread_ms;
  return terms;
}

// Of the record, which is what will be stored; what the shard decides is filled in when it has.
std::unique_ptr<v1::Message> Intake::MakeEcho(absl::string_view topic) const {
  auto echo = std::make_unique<v1::Message>();
  FillRecord(record_, topic, record_.payload.size(), /*full=*/false, echo.get());
  return echo;
}

protocol::ScheduleCommand* Intake::CommandFor(uint16_t shard, ScheduleJob* job) {
  protocol::ScheduleCommand* command = &commands_[shard];
  // A plain batch is one command: room for all of it at once.
  if (command->messages.empty() && job->items.empty()) command->messages.reserve(expected_);
  return command;
}

bool Intake::Post(protocol::CallTag tag, ScheduleJob* job) {
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
  if (job->open == 0) {
    job->status = std::move(refused);
    return false;
  }
  for (ScheduledItem& item : job->items) {
    if (item.error.ok() && (refused_shards >> item.shard & 1) != 0) item.error = refused;
  }
  return true;
}

bool Intake::Take(uint16_t shard, protocol::ScheduleReply reply, ScheduleJob* job) {
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
void Intake::Fill(const ScheduledItem& item, const protocol::AcceptedMessage& accepted,
                  Answer* answer) const {
  v1::Message* message = answer->mutable_message();
  if (item.echo != nullptr) {
    *message = *item.echo;
    const bool created = accepted.outcome == protocol::ScheduleOutcome::kCreated;
    if (accepted.moved || (item.keeps_time && !created)) message->clear_civil_time();
    if (message->has_ttl()) {
      const uint64_t ttl_ms = DurationToMs(message->ttl()).value_or(0);
      SetTimestamp(accepted.deliver_ms + ttl_ms, message->mutable_expire_time());
    }
  } else {
    message->set_topic(item.topic.data(), item.topic.size());
    message->set_payload_bytes(static_cast<int64_t>(item.payload_bytes));
  }
  // A decision without a change has made no message.
  if (accepted.id != storage::MessageId{}) message->set_id(accepted.id.ToString());
  message->set_etag(EtagOf(accepted.revision));
  SetTimestamp(accepted.deliver_ms, message->mutable_deliver_time());
  SetTimestamp(accepted.accept_ms, message->mutable_accept_time());
  message->set_state(ToProto(accepted.state));
  answer->set_outcome(ToProto(accepted.outcome));
  if (accepted.outcome == protocol::ScheduleOutcome::kReplaced) {
    SetTimestamp(accepted.old_deliver_ms, answer->mutable_old_deliver_time());
  }
  if (accepted.previous_id.has_value()) {
    answer->set_previous_message_id(accepted.previous_id->ToString());
  }
  answer->set_minute_limit_exceeded(accepted.minute_limit_exceeded);
}

absl::Status Intake::FillResponse(const ScheduleJob& job, v1::ScheduleResponse* response) const {
  DT_CHECK_EQ(job.items.size(), 1u);
  const ScheduledItem& item = job.items[0];
  if (!item.error.ok()) return item.error;
  DT_CHECK(job.answers.size() == 1 && job.answers[0].size() == 1);
  const protocol::AcceptedMessage& accepted = job.answers[0][0];
  if (!accepted.status.ok()) return WithMetadata(accepted.status, "topic", item.topic);
  Fill(item, accepted, response);
  return absl::OkStatus();
}

void Intake::FillResults(const ScheduleJob& job,
                         google::protobuf::RepeatedPtrField<v1::ScheduleResult>* results) const {
  std::vector<size_t> next(std::max<size_t>(job.answers.size(), 1));
  for (const ScheduledItem& item : job.items) {
    v1::ScheduleResult* result = results->Add();
    if (!item.error.ok()) {
      rpc::ToRpcStatus(item.error, result->mutable_error());
      continue;
    }
    const size_t place = job.answers.size() == 1 ? 0 : item.shard;
    DT_CHECK(place < job.answers.size() && next[place] < job.answers[place].size());
    const protocol::AcceptedMessage& accepted = job.answers[place][next[place]++];
    if (accepted.status.ok()) {
      Fill(item, accepted, result);
    } else {
      rpc::ToRpcStatus(WithMetadata(accepted.status, "topic", item.topic), result->mutable_error());
    }
  }
}

}  // namespace duetime::api
