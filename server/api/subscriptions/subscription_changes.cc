// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/subscription_changes.h"

#include <optional>

#include "absl/strings/str_cat.h"

#include "server/api/subscriptions/subscription_settings.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"

namespace duetime::api {
namespace {

using protocol::SubscriptionCommand;
using Subscription = SubscriptionRegistry::Subscription;

absl::Status ExistsError(absl::string_view topic, absl::string_view name) {
  return base::MakeError(
      absl::StatusCode::kAlreadyExists,
      absl::StrCat("topic ", topic, " has a subscription ", name, " with other settings"),
      {.reason = "SUBSCRIPTION_EXISTS",
       .field = "subscription.name",
       .metadata = {{"topic", std::string(topic)}, {"subscription", std::string(name)}},
       .retry_after_ms = 0});
}

}  // namespace

void SubscriptionChanges::WhenFree(storage::TopicId topic, std::function<void()> change) {
  const auto again = [this, topic, change] {
    env_.run_here([this, topic, change] { WhenFree(topic, change); });
  };
  if (env_.context->subscriptions.Begin(topic, again)) change();
}

void SubscriptionChanges::Finish(storage::TopicId topic, const absl::Status& status,
                                 const Done& done) {
  env_.context->subscriptions.End(topic);
  done(status);
}

void SubscriptionChanges::Find(const TopicRegistry::Topic& topic, const std::string& name,
                               Found found) {
  SubscriptionRegistry& registry = env_.context->subscriptions;
  if (const std::optional<Subscription> known = registry.Find(topic.id, name)) {
    return found(*known);
  }
  if (!env_.context->options.topics_auto_create) {
    return found(SubscriptionNotFoundError(topic.name, name));
  }
  Wish wish;
  wish.topic = topic;
  wish.name = name;
  wish.by_use = true;
  Create(std::move(wish), [this, topic, name, found](const absl::Status& made) {
    if (!made.ok()) return found(made);
    const std::optional<Subscription> fresh = env_.context->subscriptions.Find(topic.id, name);
    if (fresh.has_value()) return found(*fresh);
    found(SubscriptionNotFoundError(topic.name, name));  // deleted again
  });
}

void SubscriptionChanges::Create(Wish wish, Done done) {
  const storage::TopicId topic = wish.topic.id;
  WhenFree(topic,
           [this, wish = std::move(wish), done = std::move(done)] { CreateNow(wish, done); });
}

void SubscriptionChanges::CreateNow(const Wish& wish, const Done& done) {
  SubscriptionRegistry& registry = env_.context->subscriptions;
  const storage::TopicId topic = wish.topic.id;
  // As it is by now: it may have been deleted, and then is there again.
  TopicRegistry::Topic now;
  absl::Status status =
      env_.context->Resolve(wish.topic.name, TopicRegistry::Use::kSubscribe, &now);
  if (!status.ok()) return Finish(topic, status, done);
  if (const std::optional<Subscription> found = registry.Find(topic, wish.name)) {
    protocol::SubscriptionSettings asked = wish.settings;
    asked.dead_letter = found->settings.dead_letter;  // follows from the name
    const bool fits = wish.by_use || asked == found->settings;
    return Finish(topic, fits ? absl::OkStatus() : ExistsError(wish.topic.name, wish.name), done);
  }
  SubscriptionCommand command;
  command.kind = SubscriptionCommand::Kind::kCreate;
  command.from_now = wish.from_now && registry.CountOf(topic) > 0;
  command.state.name = wish.name;
  command.state.settings = wish.settings;
  command.state.create_ms = env_.context->clock->Read().wall_ms;
  status = registry.NextId(topic, &command.state.id);
  if (status.ok()) status = Complete(now, &command);
  if (!status.ok()) return Finish(topic, status, done);
  PostToAll(command, [this, command, by_use = wish.by_use, done](const absl::Status& made) {
    const protocol::SubscriptionState& state = command.state;
    if (made.ok()) {
      // A topic that was only listened to still counts as one (TopicRegistry::Resolve).
      for (const auto& named : command.new_topics) {
        if (!by_use || named.first != state.topic) env_.context->topics.MarkDurable(named.first);
      }
      env_.context->subscriptions.Put({.id = state.id,
                                       .topic = state.topic,
                                       .name = state.name,
                                       .settings = state.settings,
                                       .create_ms = state.create_ms});
    }
    Finish(state.topic, made, done);
  });
}

void SubscriptionChanges::Update(const TopicRegistry::Topic& topic, const std::string& name,
                                 Edit edit, Done done) {
  WhenFree(topic.id, [this, topic, name, edit = std::move(edit), done = std::move(done)] {
    UpdateNow(topic, name, edit, done);
  });
}

void SubscriptionChanges::UpdateNow(const TopicRegistry::Topic& topic, const std::string& name,
                                    const Edit& edit, const Done& done) {
  std::optional<Subscription> found = env_.context->subscriptions.Find(topic.id, name);
  if (!found.has_value()) {
    return Finish(topic.id, SubscriptionNotFoundError(topic.name, name), done);
  }
  SubscriptionCommand command;
  command.kind = SubscriptionCommand::Kind::kUpdate;
  command.state.id = found->id;
  command.state.name = name;
  command.state.create_ms = found->create_ms;
  absl::Status status = edit(&found->settings);
  command.state.settings = found->settings;
  if (status.ok()) status = Complete(topic, &command);
  if (!status.ok()) return Finish(topic.id, status, done);
  found->settings = command.state.settings;
  PostToAll(command, [this, command, after = *found, done](const absl::Status& made) {
    if (made.ok()) {
      for (const auto& named : command.new_topics) {
        env_.context->topics.MarkDurable(named.first);
      }
      env_.context->subscriptions.Put(after);
    }
    Finish(after.topic, made, done);
  });
}

void SubscriptionChanges::Delete(const TopicRegistry::Topic& topic, const std::string& name,
                                 Done done) {
  WhenFree(topic.id, [this, topic, name, done = std::move(done)] { DeleteNow(topic, name, done); });
}

void SubscriptionChanges::DeleteNow(const TopicRegistry::Topic& topic, const std::string& name,
                                    const Done& done) {
  const std::optional<Subscription> found = env_.context->subscriptions.Find(topic.id, name);
  if (!found.has_value()) {
    return Finish(topic.id, SubscriptionNotFoundError(topic.name, name), done);
  }
  DeleteEverywhere(*found, [this, id = topic.id, done](const absl::Status& deleted) {
    Finish(id, deleted, done);
  });
}

void SubscriptionChanges::DeleteEverywhere(const Subscription& subscription, Done done) {
  SubscriptionCommand command;
  command.kind = SubscriptionCommand::Kind::kDelete;
  command.state.id = subscription.id;
  command.state.topic = subscription.topic;
  command.keep_messages = env_.context->subscriptions.CountOf(subscription.topic) == 1;
  PostToAll(command, [this, topic = subscription.topic, name = subscription.name,
                      done = std::move(done)](const absl::Status& deleted) {
    if (deleted.ok()) env_.context->subscriptions.Remove(topic, name);
    done(deleted);
  });
}

// One after the other: the next one is looked for when the one before is gone.
void SubscriptionChanges::DeleteAll(storage::TopicId topic, Done done) {
  const auto next = env_.context->subscriptions.List(topic, "", 1);
  if (next.empty()) return done(absl::OkStatus());
  DeleteEverywhere(next.front(), [this, topic, done](const absl::Status& deleted) {
    if (!deleted.ok()) return done(deleted);
    DeleteAll(topic, done);
  });
}

absl::Status SubscriptionChanges::Complete(const TopicRegistry::Topic& topic,
                                           SubscriptionCommand* command) {
  ServingContext* context = env_.context;
  protocol::SubscriptionState& state = command->state;
  state.topic = topic.id;
  state.topic_name = std::string(topic.name);
  if (!topic.durable) command->new_topics.emplace_back(topic.id, state.topic_name);
  state.settings.dead_letter = {};
  TopicRegistry::Topic dead_letters;
  dead_letters.durable = true;
  if (!state.settings.dead_letter_name.empty()) {
    absl::Status status = context->Resolve(state.settings.dead_letter_name,
                                           TopicRegistry::Use::kCreate, &dead_letters);
    if (!status.ok()) return status;
    state.settings.dead_letter = dead_letters.id;
  } else if (MakesDeadLetters(state.settings)) {
    if (absl::Status status = context->DeadLettersOf(topic, &dead_letters); !status.ok()) {
      return status;
    }
  }
  if (!dead_letters.durable) {
    command->new_topics.emplace_back(dead_letters.id, std::string(dead_letters.name));
  }
  return absl::OkStatus();
}

void SubscriptionChanges::PostToAll(const SubscriptionCommand& command, Done done) {
  runtime::Node* node = env_.context->node.load();
  const protocol::CallTag tag = env_.replies->Add(this);
  Open open;
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    SubscriptionCommand copy = command;
    copy.tag = tag;
    copy.position = shard;
    absl::Status status = node->Post(shard, std::move(copy));
    if (status.ok()) {
      ++open.shards;
    } else {
      open.status = std::move(status);
    }
  }
  if (open.shards == 0) {
    env_.replies->Remove(tag);
    return done(open.status);
  }
  open.done = std::move(done);
  open_.emplace(static_cast<uint64_t>(tag), std::move(open));
}

void SubscriptionChanges::OnReply(uint16_t, protocol::Reply reply) {
  const auto& changed = std::get<protocol::SubscriptionReply>(reply);
  const auto found = open_.find(static_cast<uint64_t>(changed.tag));
  DT_CHECK(found != open_.end());
  found->second.status.Update(changed.status);
  if (--found->second.shards > 0) return;
  const Open open = std::move(found->second);
  open_.erase(found);
  env_.replies->Remove(changed.tag);
  open.done(open.status);
}

}  // namespace duetime::api
