// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_output.h"

#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"

namespace duetime::catalog {

using protocol::CallTag;

namespace {

CallTag TagOf(storage::TopicId topic) { return CallTag{static_cast<uint32_t>(topic)}; }

}  // namespace

CatalogOutput::CatalogOutput(const CatalogOptions& options, Changes* changes,
                             scheduler::PendingWrites* writes)
    : options_(options), changes_(changes), writes_(writes) {
  DT_CHECK_GT(options.shards, 0u);
  DT_CHECK(changes != nullptr && writes != nullptr);
}

void CatalogOutput::Then(std::function<void()> next) {
  writes_->Then([next = std::move(next)](base::Now, bool ok) {
    if (ok) next();
  });
}

// ---- Shards ------------------------------------------------------------------------------------

void CatalogOutput::SendSettings(const TopicPtr& topic, CallTag tag) {
  protocol::TopicCommand command;
  command.tag = tag;
  command.topic = topic->id;
  // The shards share one object. It keeps this version of the topic until the next settings.
  command.settings = protocol::TopicSettingsPtr(topic, &topic->settings);
  command.quota = topic->quota;
  const Change* const change = changes_->Find(topic->id);
  const bool ends = topic->deleted || (change != nullptr && change->deletes_topic);
  // A deletion that is taken back watches no more.
  if (ends && (change == nullptr || change->step != Step::kReverting)) command.use = topic->touched;
  DT_CHECK(command.use != nullptr || !topic->deleted);
  command.count = ends;
  command.deleted = topic->deleted;
  command.pace = topic->pace;
  command.dead_letter = topic->dead_letters;
  command.first_id = topic->first_id;
  for (uint16_t shard = 0; shard < options_.shards; ++shard) {
    effects_.commands.push_back({.shard = shard, .command = command});
  }
}

void CatalogOutput::SendStep(Change* change, Step step, const TopicPtr& topic) {
  DT_CHECK(change == changes_->Find(topic->id));
  DT_CHECK_EQ(change->open, 0u);
  change->step = step;
  change->open = options_.shards;
  SendSettings(topic, TagOf(topic->id));
}

void CatalogOutput::SendStep(Change* change, Step step, protocol::SubscriptionCommand command) {
  DT_CHECK(change == changes_->Find(command.state.topic));
  DT_CHECK_EQ(change->open, 0u);
  change->step = step;
  change->open = options_.shards;
  command.tag = TagOf(command.state.topic);
  for (uint16_t shard = 0; shard < options_.shards; ++shard) {
    command.position = shard;
    effects_.commands.push_back({.shard = shard, .command = command});
  }
}

// ---- Requests ----------------------------------------------------------------------------------

void CatalogOutput::Answer(Reply reply) {
  if (requests_.erase(reply.tag) == 0) return;
  effects_.replies.push_back(std::move(reply));
}

void CatalogOutput::AnswerLater(Reply reply) {
  Then([this, reply = std::move(reply)] { Answer(reply); });
}

void CatalogOutput::Close(const absl::Status& status) {
  DT_CHECK(!status.ok());
  for (const RequestTag tag : std::exchange(requests_, {})) {
    effects_.replies.push_back({.tag = tag, .status = status});
  }
}

void CatalogOutput::Fail() {
  effects_.failed = true;
  Close(base::StorageFailedError());
}

}  // namespace duetime::catalog
