// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/subscription_change.h"

#include <optional>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/catalog/catalog_errors.h"

namespace duetime::catalog {

using protocol::SubscriptionCommand;

SubscriptionChange::SubscriptionChange(const CatalogOptions& options, CatalogState* state,
                                       Changes* changes, CatalogOutput* output, LiveTopics* topics)
    : auto_create_(options.auto_create),
      state_(state),
      changes_(changes),
      output_(output),
      topics_(topics) {
  DT_CHECK(state != nullptr && changes != nullptr && output != nullptr && topics != nullptr);
}

absl::Status SubscriptionChange::CompleteSettings(TopicEntry* entry,
                                                  protocol::SubscriptionSettings* settings) {
  settings->clear_dead_letter();
  if (settings->dead_letter_name().empty()) {
    return protocol::MakesDeadLetters(*settings) ? topics_->LinkDeadLetters(entry, /*needed=*/false)
                                                 : absl::OkStatus();
  }
  TopicEntry* target = nullptr;
  absl::Status status = topics_->CheckNoCycle(entry->topic->name(), settings->dead_letter_name());
  if (status.ok()) status = topics_->Reserve(settings->dead_letter_name(), &target);
  if (status.ok()) settings->set_dead_letter(static_cast<uint32_t>(target->topic->id));
  return status;
}

absl::Status SubscriptionChange::Find(absl::string_view topic, const std::string& name,
                                      TopicEntry** entry, SubscriptionEntry** subscription) {
  *entry = state_->Find(topic);
  if (*entry == nullptr || (*entry)->topic->deleted) return TopicNotFoundError(topic);
  const auto found = (*entry)->subscriptions.find(name);
  if (found == (*entry)->subscriptions.end()) return SubscriptionNotFoundError(topic, name);
  *subscription = &found->second;
  // Another phase belongs to a change in progress, and then the command waits.
  DT_CHECK((*subscription)->stored.phase == SubscriptionPhase::kLive);
  return absl::OkStatus();
}

void SubscriptionChange::Begin(TopicEntry* entry, RequestTag tag, const std::string& name,
                               SubscriptionPhase phase) {
  Change* const change = changes_->Begin(entry->topic->id, tag);
  change->subscription = name;
  SendToShards(entry, change, phase);
}

void SubscriptionChange::Create(base::Now now, const CreateSubscription& command) {
  TopicEntry* entry = nullptr;
  std::optional<std::string> dead_letters;
  if (!command.settings.dead_letter_name().empty()) {
    dead_letters = command.settings.dead_letter_name();
  } else if (protocol::MakesDeadLetters(command.settings)) {
    dead_letters = DefaultDeadLettersName(command.topic);
  }
  const bool used = !command.by_use;
  absl::Status status = topics_->CheckCreation(command.topic, used, dead_letters);
  if (status.ok()) status = topics_->Use(command.topic, used, auto_create_, &entry);
  const auto refuse = [&] { output_->AnswerLater({.tag = command.tag, .status = status}); };
  if (!status.ok()) return refuse();
  DT_CHECK(changes_->Find(entry->topic->id) == nullptr);
  const auto found = entry->subscriptions.find(command.name);
  if (found != entry->subscriptions.end()) {
    DT_CHECK(found->second.stored.phase == SubscriptionPhase::kLive);
    protocol::SubscriptionSettings asked = command.settings;
    // The name decides the number.
    asked.set_dead_letter(found->second.stored.settings.dead_letter());
    if (!command.by_use && asked != found->second.stored.settings) {
      status = SubscriptionExistsError(command.topic, command.name);
      return refuse();
    }
    return output_->AnswerLater({.tag = command.tag,
                                 .status = {},
                                 .topic = entry->topic,
                                 .subscription = Published(found->second)});
  }
  SubscriptionEntry fresh;
  if (command.by_use && !auto_create_) {
    status = SubscriptionNotFoundError(command.topic, command.name);
  }
  fresh.stored.settings = command.settings;
  if (status.ok()) status = state_->CheckRoomForSubscription(*entry);
  if (status.ok()) status = CompleteSettings(entry, &fresh.stored.settings);
  const bool first = entry->subscriptions.empty();
  if (!status.ok()) return refuse();
  fresh.id = state_->NextSubscription(entry);
  fresh.stored.topic = entry->topic->id;
  fresh.stored.name = command.name;
  fresh.stored.create_ms = now.wall_ms;
  fresh.stored.from_now = command.from_now && !first;
  fresh.incarnation = state_->NextIncarnation();
  state_->SetSubscription(entry, std::move(fresh));
  Begin(entry, command.tag, command.name, SubscriptionPhase::kCreating);
}

void SubscriptionChange::Update(const UpdateSubscription& command) {
  TopicEntry* entry = nullptr;
  SubscriptionEntry* subscription = nullptr;
  protocol::SubscriptionSettings settings;
  absl::Status status = Find(command.topic, command.name, &entry, &subscription);
  bool keeps_target = false;
  if (status.ok()) {
    const protocol::SubscriptionSettings& before = subscription->stored.settings;
    settings = before;
    status = command.edit(&settings);
    // A name that stays is not checked again: settings of an older version may circle, and the
    // subscription can be paused all the same.
    keeps_target =
        before.dead_letter() != 0 && settings.dead_letter_name() == before.dead_letter_name();
    settings.set_dead_letter(before.dead_letter());
  }
  if (status.ok() && !keeps_target) status = CompleteSettings(entry, &settings);
  if (!status.ok()) return output_->AnswerLater({.tag = command.tag, .status = status});
  state_->SetSettings(subscription, std::move(settings));
  Begin(entry, command.tag, command.name, SubscriptionPhase::kUpdating);
}

void SubscriptionChange::Delete(const DeleteSubscription& command) {
  TopicEntry* entry = nullptr;
  SubscriptionEntry* subscription = nullptr;
  absl::Status status = Find(command.topic, command.name, &entry, &subscription);
  if (!status.ok()) return output_->AnswerLater({.tag = command.tag, .status = status});
  Begin(entry, command.tag, command.name, SubscriptionPhase::kDeleting);
}

void SubscriptionChange::SendToShards(TopicEntry* entry, Change* change, SubscriptionPhase phase) {
  DT_CHECK(phase != SubscriptionPhase::kLive);
  const auto found = entry->subscriptions.find(change->subscription);
  DT_CHECK(found != entry->subscriptions.end());
  StoredSubscription& stored = found->second.stored;
  // A resumed creation or update keeps its record.
  if (!change->resumed || phase == SubscriptionPhase::kDeleting) {
    stored.phase = phase;
    stored.keep_messages =
        phase == SubscriptionPhase::kDeleting && entry->subscriptions.size() == 1;
    state_->Write(found->second);
  }
  change->step = Step::kWriting;
  output_->Then([this, entry, change] { Post(*entry, change); });
}

void SubscriptionChange::Post(const TopicEntry& entry, Change* change) {
  const auto found = entry.subscriptions.find(change->subscription);
  DT_CHECK(found != entry.subscriptions.end());
  const SubscriptionEntry& subscription = found->second;
  const StoredSubscription& stored = subscription.stored;
  SubscriptionCommand command;
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
  output_->SendStep(change, change->deletes_topic ? Step::kForgetting : Step::kSubscribing,
                    std::move(command));
}

void SubscriptionChange::OnReplies(TopicEntry* entry, const Change& change) {
  const auto found = entry->subscriptions.find(change.subscription);
  DT_CHECK(found != entry->subscriptions.end());
  SubscriptionEntry& subscription = found->second;
  DT_CHECK(subscription.stored.phase != SubscriptionPhase::kLive);
  const bool deleted = subscription.stored.phase == SubscriptionPhase::kDeleting;
  subscription.stored.phase = SubscriptionPhase::kLive;
  if (!deleted) {
    subscription.stored.from_now = false;
    state_->Write(subscription);
    state_->Publish(Published(subscription));
    return;
  }
  const SubscriptionPtr published =
      state_->FindPublished(entry->topic->id, subscription.stored.name);
  if (published != nullptr) state_->Unpublish(published);
  if (subscription.stored.keep_messages) {
    SubscriptionEntry nameless;
    nameless.id = subscription.id;
    nameless.stored.topic = entry->topic->id;
    state_->Write(nameless);
    entry->nameless = nameless.id;
  } else {
    state_->Remove(subscription);
  }
  state_->EraseSubscription(entry, change.subscription);
}

}  // namespace duetime::catalog
