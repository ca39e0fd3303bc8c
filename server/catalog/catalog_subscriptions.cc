// SPDX-License-Identifier: Apache-2.0
//
// The part of Catalog that creates, changes and deletes subscriptions.
#include <optional>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/catalog/catalog.h"
#include "server/catalog/catalog_errors.h"

namespace duetime::catalog {

using protocol::SubscriptionCommand;
using storage::TopicId;

absl::Status Catalog::CompleteSettings(TopicEntry* entry,
                                       protocol::SubscriptionSettings* settings) {
  settings->dead_letter = {};
  if (settings->dead_letter_name.empty()) {
    return settings->MakesDeadLetters() ? LinkDeadLetters(entry) : absl::OkStatus();
  }
  TopicEntry* target = nullptr;
  absl::Status status = Use(settings->dead_letter_name, /*used=*/true, /*create=*/true, &target);
  if (status.ok()) settings->dead_letter = target->topic->id;
  return status;
}

void Catalog::Do(CreateSubscription& command) {
  TopicEntry* entry = state_.Find(command.topic);
  if (entry != nullptr && Queue(*entry, command)) return;
  std::optional<std::string> dead_letters;
  if (!command.settings.dead_letter_name.empty()) {
    dead_letters = command.settings.dead_letter_name;
  } else if (command.settings.MakesDeadLetters()) {
    dead_letters = DefaultDeadLettersName(command.topic);
  }
  const bool used = !command.by_use;
  absl::Status status = CheckCreation(command.topic, used, dead_letters);
  if (status.ok()) status = Use(command.topic, used, options_.auto_create, &entry);
  const auto refuse = [&] { AnswerLater({.tag = command.tag, .status = status}); };
  if (!status.ok()) return refuse();
  const auto found = entry->subscriptions.find(command.name);
  if (found != entry->subscriptions.end()) {
    protocol::SubscriptionSettings asked = command.settings;
    asked.dead_letter = found->second.stored.settings.dead_letter;  // the name decides it
    if (!command.by_use && asked != found->second.stored.settings) {
      status = SubscriptionExistsError(command.topic, command.name);
      return refuse();
    }
    return AnswerLater({.tag = command.tag,
                        .status = {},
                        .topic = entry->topic,
                        .subscription = Published(found->second)});
  }
  SubscriptionEntry fresh;
  if (command.by_use && !options_.auto_create) {
    status = SubscriptionNotFoundError(command.topic, command.name);
  }
  fresh.stored.settings = command.settings;
  if (status.ok()) status = state_.CheckRoomForSubscription(*entry);
  if (status.ok()) status = CompleteSettings(entry, &fresh.stored.settings);
  const bool first = entry->subscriptions.empty();
  if (!status.ok()) return refuse();
  fresh.id = state_.NextSubscription(entry);
  fresh.stored.topic = entry->topic->id;
  fresh.stored.name = command.name;
  fresh.stored.create_ms = now_.wall_ms;
  fresh.stored.from_now = command.from_now && !first;
  fresh.incarnation = state_.NextIncarnation();
  entry->subscriptions.emplace(command.name, std::move(fresh));
  Change* const change = changes_.Begin(entry->topic->id, command.tag);
  change->subscription = command.name;
  SendToShards(entry, change, SubscriptionPhase::kCreating);
}

void Catalog::Do(UpdateSubscription& command) {
  TopicEntry* const entry = state_.Find(command.topic);
  if (entry != nullptr && Queue(*entry, command)) return;
  absl::Status status;
  protocol::SubscriptionSettings settings;
  SubscriptionEntry* subscription = nullptr;
  if (entry == nullptr || entry->topic->deleted) {
    status = TopicNotFoundError(command.topic);
  } else if (const auto found = entry->subscriptions.find(command.name);
             found == entry->subscriptions.end()) {
    status = SubscriptionNotFoundError(command.topic, command.name);
  } else {
    subscription = &found->second;
    settings = subscription->stored.settings;
    status = command.edit(&settings);
  }
  if (status.ok()) status = CompleteSettings(entry, &settings);
  if (!status.ok()) {
    return AnswerLater({.tag = command.tag, .status = status});
  }
  subscription->stored.settings = settings;
  Change* const change = changes_.Begin(entry->topic->id, command.tag);
  change->subscription = command.name;
  SendToShards(entry, change, SubscriptionPhase::kUpdating);
}

void Catalog::Do(DeleteSubscription& command) {
  TopicEntry* const entry = state_.Find(command.topic);
  if (entry != nullptr && Queue(*entry, command)) return;
  absl::Status status;
  if (entry == nullptr || entry->topic->deleted) {
    status = TopicNotFoundError(command.topic);
  } else if (!entry->subscriptions.contains(command.name)) {
    status = SubscriptionNotFoundError(command.topic, command.name);
  }
  if (!status.ok()) {
    return AnswerLater({.tag = command.tag, .status = status});
  }
  Change* const change = changes_.Begin(entry->topic->id, command.tag);
  change->subscription = command.name;
  SendToShards(entry, change, SubscriptionPhase::kDeleting);
}

void Catalog::SendToShards(TopicEntry* entry, Change* change, SubscriptionPhase phase) {
  DT_CHECK(phase != SubscriptionPhase::kLive);
  const auto found = entry->subscriptions.find(change->subscription);
  DT_CHECK(found != entry->subscriptions.end());
  StoredSubscription& stored = found->second.stored;
  // A resumed creation or update keeps its record.
  if (!change->resumed || phase == SubscriptionPhase::kDeleting) {
    stored.phase = phase;
    stored.keep_messages =
        phase == SubscriptionPhase::kDeleting && entry->subscriptions.size() == 1;
    state_.Write(found->second);
  }
  change->step = Step::kWriting;
  Then([this, entry, change](base::Now) {
    PostSubscription(*entry, entry->subscriptions.find(change->subscription)->second, change);
  });
}

void Catalog::PostSubscription(const TopicEntry& entry, const SubscriptionEntry& subscription,
                               Change* change) {
  const StoredSubscription& stored = subscription.stored;
  SubscriptionCommand command;
  command.tag = protocol::CallTag{static_cast<uint32_t>(entry.topic->id)};
  switch (stored.phase) {
    case SubscriptionPhase::kLive:
      DT_CHECK(false);
    case SubscriptionPhase::kCreating:
      command.kind = SubscriptionCommand::Kind::kCreate;
      break;
    case SubscriptionPhase::kUpdating:
      command.kind = SubscriptionCommand::Kind::kUpdate;
      break;
    case SubscriptionPhase::kDeleting:
      command.kind = SubscriptionCommand::Kind::kDelete;
      break;
  }
  command.state.id = subscription.id;
  command.state.topic = stored.topic;
  command.state.topic_name = std::string(entry.topic->name());
  command.state.name = stored.name;
  command.state.settings = stored.settings;
  command.state.create_ms = stored.create_ms;
  command.from_now = stored.from_now;
  command.keep_messages = stored.keep_messages;
  change->step = change->deletes_topic ? Step::kForgetting : Step::kSubscribing;
  change->open = options_.shards;
  for (uint16_t shard = 0; shard < options_.shards; ++shard) {
    command.position = shard;
    effects_.commands.push_back({.shard = shard, .command = command});
  }
}

void Catalog::Do(protocol::SubscriptionReply& reply) {
  TopicEntry* const entry = state_.Of(TopicId{static_cast<uint32_t>(reply.tag)});
  Change* const change = changes_.Find(entry->topic->id);
  DT_CHECK(change != nullptr);
  DT_CHECK(change->step == Step::kSubscribing || change->step == Step::kForgetting);
  if (!reply.status.ok()) return Fail();
  DT_CHECK_GT(change->open, 0u);
  if (--change->open > 0) return;
  FinishSubscription(entry, change);
}

void Catalog::FinishSubscription(TopicEntry* entry, Change* change) {
  const auto found = entry->subscriptions.find(change->subscription);
  DT_CHECK(found != entry->subscriptions.end());
  SubscriptionEntry& subscription = found->second;
  const bool deleted = subscription.stored.phase == SubscriptionPhase::kDeleting;
  subscription.stored.phase = SubscriptionPhase::kLive;
  if (!deleted) {
    subscription.stored.from_now = false;
    state_.Write(subscription);
    state_.Publish(Published(subscription));
    return Finish(entry, absl::OkStatus());
  }
  const SubscriptionPtr published =
      state_.FindPublished(entry->topic->id, subscription.stored.name);
  if (published != nullptr) state_.Unpublish(published);
  if (subscription.stored.keep_messages) {
    SubscriptionEntry nameless;
    nameless.id = subscription.id;
    nameless.stored.topic = entry->topic->id;
    state_.Write(nameless);
    entry->nameless = nameless.id;
  } else {
    state_.Remove(subscription);
  }
  entry->subscriptions.erase(found);
  if (change->deletes_topic) return ForgetNextSubscription(entry, change);
  Finish(entry, absl::OkStatus());
}

}  // namespace duetime::catalog
