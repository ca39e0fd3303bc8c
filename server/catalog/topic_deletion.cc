// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/topic_deletion.h"

#include <utility>

#include "server/base/check.h"
#include "server/catalog/catalog_errors.h"

namespace duetime::catalog {

TopicDeletion::TopicDeletion(CatalogState* state, Changes* changes, CatalogOutput* output,
                             SubscriptionChange* subscriptions, Finish finish)
    : state_(state),
      changes_(changes),
      output_(output),
      subscriptions_(subscriptions),
      finish_(std::move(finish)) {
  DT_CHECK(state != nullptr && changes != nullptr && output != nullptr);
  DT_CHECK(subscriptions != nullptr && finish_ != nullptr);
}

void TopicDeletion::Begin(const DeleteTopic& command) {
  TopicEntry* const entry = state_->Find(command.name);
  if (entry == nullptr || entry->topic->deleted) {
    return output_->AnswerLater({.tag = command.tag, .status = TopicNotFoundError(command.name)});
  }
  DT_CHECK(entry->phase == TopicPhase::kLive);
  Change* const change = changes_->Begin(entry->topic->id, command.tag);
  change->deletes_topic = true;
  Topic topic = *entry->topic;
  topic.touched = std::make_shared<TopicUse>();
  state_->Set(entry, std::move(topic));
  output_->Then([this, change, watched = entry->topic] {
    state_->Publish(watched);
    output_->SendStep(change, Step::kCounting, watched);
  });
}

void TopicDeletion::Resume(TopicEntry* entry, Change* change) {
  DT_CHECK(entry->phase == TopicPhase::kDeleting);
  change->deletes_topic = true;
  Hide(entry, change);
}

void TopicDeletion::OnReplies(TopicEntry* entry, Change* change) {
  DT_CHECK(change->deletes_topic);
  switch (change->step) {
    case Step::kCounting:
      return OnCounted(entry, change);
    case Step::kReverting:
      return finish_(entry, change->messages > 0
                                ? TopicNotEmptyError(entry->topic->name(), change->messages)
                                : TopicUsedError(entry->topic->name()));
    case Step::kHiding:
      return ForgetNextSubscription(entry, change);
    case Step::kWriting:
    case Step::kTelling:
    case Step::kForgetting:
    case Step::kSubscribing:
      break;
  }
  DT_CHECK(false);
}

void TopicDeletion::OnCounted(TopicEntry* entry, Change* change) {
  const absl::string_view name = entry->topic->name();
  DT_CHECK(entry->phase == TopicPhase::kLive);
  if (change->recurrences > 0) {
    change->messages = 0;
    return finish_(entry, TopicRecursError(name, change->recurrences));
  }
  if (change->messages > 0) return finish_(entry, TopicNotEmptyError(name, change->messages));
  change->step = Step::kWriting;
  entry->phase = TopicPhase::kDeleting;
  state_->Write(*entry, TopicPhase::kDeleting, entry->topic->settings);
  output_->Then([this, entry, change] { OnMarked(entry, change); });
}

void TopicDeletion::OnMarked(TopicEntry* entry, Change* change) {
  DT_CHECK(entry->phase == TopicPhase::kDeleting);
  // A shard's thread sets the flag before it posts TopicUsed, so the flag may be ahead of `used`.
  if (!change->used && !entry->topic->touched->used()) return Hide(entry, change);
  entry->phase = TopicPhase::kLive;
  state_->Write(*entry, TopicPhase::kLive, entry->topic->settings);
  output_->Then(
      [this, entry, change] { output_->SendStep(change, Step::kReverting, entry->topic); });
}

void TopicDeletion::Hide(TopicEntry* entry, Change* change) {
  Topic topic = *entry->topic;
  topic.deleted = true;
  CatalogState::ApplySettings({}, &topic);
  topic.dead_letters = {};
  state_->Set(entry, std::move(topic));
  output_->Then([this, change, hidden = entry->topic] {
    state_->Publish(hidden);
    output_->SendStep(change, Step::kHiding, hidden);
  });
}

void TopicDeletion::ForgetNextSubscription(TopicEntry* entry, Change* change) {
  if (entry->subscriptions.empty()) return End(entry, change);
  change->subscription = entry->subscriptions.begin()->first;
  subscriptions_->SendToShards(entry, change, SubscriptionPhase::kDeleting);
}

void TopicDeletion::End(TopicEntry* entry, Change* change) {
  DT_CHECK(entry->subscriptions.empty() && entry->phase == TopicPhase::kDeleting);
  const uint64_t free_ms = state_->EndOfName(*entry);
  if (change->used) {
    entry->phase = TopicPhase::kLive;
    state_->WriteDefaults(*entry);
  } else {
    entry->phase = TopicPhase::kDeleted;
    state_->Write(*entry, TopicPhase::kDeleted, {}, free_ms);
  }
  change->step = Step::kWriting;
  output_->Then([this, entry, free_ms, end_id = change->next_id] {
    if (entry->phase == TopicPhase::kDeleted) state_->SetEnd(entry, free_ms, end_id);
    finish_(entry, absl::OkStatus());
  });
}

}  // namespace duetime::catalog
