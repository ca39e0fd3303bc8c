// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/live_topics.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "server/base/check.h"
#include "server/catalog/catalog_errors.h"

namespace duetime::catalog {

using storage::TopicId;

LiveTopics::LiveTopics(const CatalogOptions& options, CatalogState* state, Changes* changes,
                       CatalogOutput* output)
    : auto_create_(options.auto_create), state_(state), changes_(changes), output_(output) {
  DT_CHECK(state != nullptr && changes != nullptr && output != nullptr);
}

void LiveTopics::Ensure(const EnsureTopic& command) {
  TopicEntry* entry = state_->Find(command.name);
  const bool live = entry != nullptr && !entry->topic->deleted;
  std::optional<std::string> dead_letters;
  if (command.dead_letters) dead_letters = DefaultDeadLettersName(command.name);
  absl::Status status = CheckCreation(command.name, /*used=*/true, dead_letters);
  // A live topic gets its link first, so that a refused command does not void its deletion.
  if (status.ok() && live && command.dead_letters) status = LinkDeadLetters(entry, /*needed=*/true);
  if (status.ok()) status = Use(command.name, /*used=*/true, auto_create_, &entry);
  if (status.ok() && !live && command.dead_letters)
    status = LinkDeadLetters(entry, /*needed=*/true);
  DT_CHECK(!status.ok() || !entry->topic->deleted);
  output_->AnswerLater(
      {.tag = command.tag, .status = status, .topic = status.ok() ? entry->topic : nullptr});
}

void LiveTopics::Create(const CreateTopic& command) {
  TopicEntry* entry = state_->Find(command.name);
  const bool exists = entry != nullptr && !entry->topic->deleted;
  absl::Status status;
  if (exists && entry->topic->settings != command.settings) {
    status = TopicExistsError(command.name);
  } else if (!exists) {
    status = CheckRoomFor(command.settings, state_->NeedOf(entry));
  }
  if (status.ok() && !exists && !command.settings.dead_letter_topic().empty()) {
    status = CheckNoCycle(command.name, command.settings.dead_letter_topic());
  }
  if (status.ok()) {
    status = Use(command.name, /*used=*/true, /*create=*/true, &entry);
  }
  DT_CHECK(!status.ok() || !entry->topic->deleted);
  if (status.ok() && !exists) return ChangeSettings(entry, command.tag, command.settings);
  output_->AnswerLater(
      {.tag = command.tag, .status = status, .topic = status.ok() ? entry->topic : nullptr});
}

void LiveTopics::Update(const UpdateTopic& command) {
  TopicEntry* const entry = state_->Find(command.name);
  absl::Status status;
  TopicSettings settings;
  if (entry == nullptr || entry->topic->deleted) {
    status = TopicNotFoundError(command.name);
  } else {
    settings = entry->topic->settings;
    status = command.edit(&settings);
    settings.set_paused_by_restore(entry->topic->settings.paused_by_restore() && settings.paused());
    const bool renamed = settings.dead_letter_topic() != entry->topic->settings.dead_letter_topic();
    if (status.ok() && renamed) {
      const std::string& named = settings.dead_letter_topic();
      status =
          CheckNoCycle(command.name, named.empty() ? DefaultDeadLettersName(command.name) : named);
      if (status.ok()) status = CheckRoomFor(settings, {});
    }
  }
  if (status.ok()) return ChangeSettings(entry, command.tag, settings);
  output_->AnswerLater({.tag = command.tag, .status = status});
}

void LiveTopics::ChangeSettings(TopicEntry* entry, RequestTag tag, const TopicSettings& settings) {
  DT_CHECK(!entry->topic->deleted && entry->phase == TopicPhase::kLive);
  Change* const change = changes_->Begin(entry->topic->id, tag);
  const bool linked = entry->topic->dead_letters != TopicId{};
  Topic topic = *entry->topic;
  CatalogState::ApplySettings(settings, &topic);
  topic.used = true;
  state_->Set(entry, std::move(topic));
  entry->longest_retention_ms =
      std::max(entry->longest_retention_ms, settings.tombstone_retention_ms());
  state_->Write(*entry, TopicPhase::kLive, settings);
  // Without room for the default dead-letter topic there is no link, and the shards refuse dead
  // letters. The next start, and a client's dead-letter settlement, try again.
  const bool unlinked = linked && entry->topic->dead_letters == TopicId{};
  if (unlinked || LacksDeadLetters(*entry)) {
    static_cast<void>(LinkDeadLetters(entry, /*needed=*/false));
  }
  output_->Then([this, change, changed = entry->topic] {
    state_->Publish(changed);
    output_->SendStep(change, Step::kTelling, changed);
  });
}

// ---- For all changes ---------------------------------------------------------------------------

absl::Status LiveTopics::Use(absl::string_view name, bool used, bool create, TopicEntry** entry,
                             bool dead_letters) {
  *entry = state_->Find(name);
  if (*entry == nullptr) {
    if (!create) return TopicNotFoundError(name);
    absl::Status status =
        state_->CheckRoom(/*listened=*/!used, state_->NeedOf(nullptr, dead_letters));
    if (!status.ok()) return status;
    *entry = Add(name, used);
    state_->PublishLater((*entry)->topic);
    return absl::OkStatus();
  }
  if ((*entry)->topic->deleted) {
    if (!create) return TopicNotFoundError(name);
    const bool listened = !used && !(*entry)->topic->used;
    absl::Status status = state_->CheckRoom(listened, state_->NeedOf(*entry));
    if (!status.ok()) return status;
  }
  Revive(*entry);
  if (used && !(*entry)->topic->used) {
    Topic topic = *(*entry)->topic;
    topic.used = true;
    state_->Set(*entry, std::move(topic));
    state_->PublishLater((*entry)->topic);
  }
  DT_CHECK(!(*entry)->topic->deleted);
  return absl::OkStatus();
}

TopicEntry* LiveTopics::Add(absl::string_view name, bool used) {
  TopicEntry* const entry = state_->Add(name, used);
  if (entry->topic->first_id != storage::MessageId{}) {
    // Readers see the new name later, and no shard has dead letters for it, so no message comes
    // before this command.
    output_->Then([this, added = entry->topic] { output_->SendSettings(added, kNoChange); });
  }
  return entry;
}

void LiveTopics::Revive(TopicEntry* entry) {
  Change* const change = changes_->Find(entry->topic->id);
  const bool deleting = change != nullptr && change->deletes_topic;
  if (deleting) change->used = true;
  if (!entry->topic->deleted) return;
  DT_CHECK(deleting || entry->phase == TopicPhase::kDeleted);
  Topic topic = *entry->topic;
  topic.deleted = false;
  state_->Set(entry, std::move(topic));
  // A running deletion writes the topic's new record itself, in TopicDeletion::End.
  if (entry->phase == TopicPhase::kDeleted) {
    entry->phase = TopicPhase::kLive;
    state_->WriteDefaults(*entry);
  }
  state_->PublishLater(entry->topic);
  // A message may be there that expires into the dead-letter topic.
  if (state_->Find(DeadLettersName(*entry->topic)) == nullptr) return;
  static_cast<void>(LinkDeadLetters(entry, /*needed=*/false));
}

absl::Status LiveTopics::CheckCreation(absl::string_view name, bool used,
                                       const std::optional<std::string>& dead_letters) {
  const TopicEntry* const entry = state_->Find(name);
  if ((entry != nullptr && !entry->topic->deleted) || !auto_create_) return absl::OkStatus();
  TopicNeed need = state_->NeedOf(entry);
  if (dead_letters.has_value()) {
    if (dead_letters->empty()) return NoDeadLetterTopicError(name);
    if (absl::Status status = CheckNoCycle(name, *dead_letters); !status.ok()) return status;
    need += state_->NeedOf(state_->Find(*dead_letters), /*reserve=*/true);
  }
  return state_->CheckRoom(!used && (entry == nullptr || !entry->topic->used), need);
}

absl::Status LiveTopics::CheckRoomFor(const TopicSettings& settings, TopicNeed need) {
  const std::string& name = settings.dead_letter_topic();
  if (!name.empty()) need += state_->NeedOf(state_->Find(name), /*reserve=*/true);
  return state_->CheckRoom(/*listened=*/false, need);
}

bool LiveTopics::LacksDeadLetters(const TopicEntry& entry) {
  const Topic& topic = *entry.topic;
  if (topic.deleted || topic.dead_letters != TopicId{}) return false;
  if (!topic.settings.dead_letter_topic().empty()) return true;
  for (const auto& [name, subscription] : entry.subscriptions) {
    const protocol::SubscriptionSettings& settings = subscription.stored.settings;
    if (settings.dead_letter_name().empty() && protocol::MakesDeadLetters(settings)) return true;
  }
  return false;
}

std::vector<std::string> LiveTopics::DeadLettersOf(absl::string_view topic) {
  const TopicEntry* const entry = state_->Find(topic);
  if (entry == nullptr) return {DefaultDeadLettersName(topic)};
  std::vector<std::string> names = {DeadLettersName(*entry->topic)};
  for (const auto& [name, subscription] : entry->subscriptions) {
    const std::string& own = subscription.stored.settings.dead_letter_name();
    if (!own.empty()) names.push_back(own);
  }
  return names;
}

absl::Status LiveTopics::CheckNoCycle(absl::string_view topic, absl::string_view dead_letters) {
  // Each topic that was reached, and the one before it. Every default name is longer than its
  // topic's, so the search ends.
  absl::flat_hash_map<std::string, std::string> reached = {{std::string(dead_letters), ""}};
  std::vector<std::string> open = {std::string(dead_letters)};
  while (!open.empty()) {
    const std::string from = std::move(open.back());
    open.pop_back();
    if (from == topic) {
      std::vector<std::string> path;
      for (std::string at = from; !at.empty(); at = reached[at]) path.push_back(at);
      std::reverse(path.begin(), path.end());
      return DeadLetterCycleError(topic, dead_letters, path);
    }
    for (std::string& to : DeadLettersOf(from)) {
      if (!to.empty() && reached.emplace(to, from).second) open.push_back(std::move(to));
    }
  }
  return absl::OkStatus();
}

absl::Status LiveTopics::Reserve(absl::string_view name, TopicEntry** entry) {
  *entry = state_->Find(name);
  if (*entry != nullptr && !(*entry)->topic->deleted) {
    return Use(name, /*used=*/true, /*create=*/false, entry);
  }
  absl::Status status =
      state_->CheckRoom(/*listened=*/false, state_->NeedOf(*entry, /*reserve=*/true));
  if (!status.ok() || *entry != nullptr) return status;
  *entry = state_->Add(name, /*used=*/true);
  Topic topic = *(*entry)->topic;
  topic.deleted = true;
  topic.touched = std::make_shared<TopicUse>();
  state_->Set(*entry, std::move(topic));
  (*entry)->phase = TopicPhase::kDeleted;
  // Nothing names the number yet. While a link does, the name does not end.
  const uint64_t free_ms = std::max<uint64_t>(state_->now_ms(), 1);
  state_->Write(**entry, TopicPhase::kDeleted, {}, free_ms);
  state_->SetEnd(*entry, free_ms, (*entry)->topic->first_id);
  // Before every link to it, so that no dead letter comes before the shards watch it.
  output_->Then([this, reserved = (*entry)->topic] {
    state_->Publish(reserved);
    output_->SendSettings(reserved, kNoChange);
  });
  return absl::OkStatus();
}

absl::Status LiveTopics::LinkDeadLetters(TopicEntry* entry, bool needed) {
  const std::string name = DeadLettersName(*entry->topic);
  if (name.empty()) return NoDeadLetterTopicError(entry->topic->name());
  TopicEntry* target = state_->Find(name);
  absl::Status status;
  if (target == nullptr || entry->topic->dead_letters != target->topic->id) {
    status = CheckNoCycle(entry->topic->name(), name);
  }
  if (status.ok()) {
    status = needed ? Use(name, /*used=*/true, /*create=*/true, &target, /*dead_letters=*/true)
                    : Reserve(name, &target);
  }
  DT_CHECK(!status.ok() || target != nullptr);
  if (!status.ok() || entry->topic->dead_letters == target->topic->id) return status;
  // That would be a cycle.
  DT_CHECK(target != entry);
  Topic topic = *entry->topic;
  topic.dead_letters = target->topic->id;
  state_->Set(entry, std::move(topic));
  output_->Then([this, linked = entry->topic] {
    state_->Publish(linked);
    output_->SendSettings(linked, kNoChange);
  });
  return absl::OkStatus();
}

}  // namespace duetime::catalog
