// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog.h"

#include <concepts>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/catalog/catalog_errors.h"
#include "server/catalog/catalog_load.h"

namespace duetime::catalog {

using protocol::CallTag;
using storage::TopicId;

namespace {

// The tag of a command to a shard is the number of the topic whose change sends it. Two more tags:
constexpr CallTag kNoChange{};
constexpr CallTag kRecovery{uint64_t{1} << 32};

CallTag TagOf(TopicId topic) { return CallTag{static_cast<uint32_t>(topic)}; }

// True for commands that get a reply: those of clients and of the server's start.
template <typename C>
constexpr bool kIsRequest = requires(C command) {
  { command.tag } -> std::same_as<RequestTag&>;
};

bool IsDefault(const Topic& topic) {
  return topic.settings == TopicSettings{} && topic.dead_letters == TopicId{} && !topic.deleted;
}

}  // namespace

Catalog::Catalog(const CatalogOptions& options, storage::MessageStore* store)
    : options_(options), store_(store), state_(options, &writes_) {
  DT_CHECK_GT(options.shards, 0u);
  DT_CHECK(store != nullptr);
}

Catalog::~Catalog() = default;

absl::Status Catalog::Recover(base::Now now) {
  DT_CHECK_EQ(state_.topics(), 0u);
  now_ = now;
  absl::Status status = LoadCatalog(store_, options_.shards, &writes_, &state_);
  if (!status.ok()) return status;
  for (TopicEntry* const entry : state_.All()) {
    // If there is no room for one more topic, the first dead letter makes the link.
    if (LacksDeadLetters(*entry)) static_cast<void>(LinkDeadLetters(entry));
  }
  const std::vector<TopicEntry*> all = state_.All();
  if (all.empty()) return absl::OkStatus();
  Then([this, all](base::Now) {
    for (const TopicEntry* const entry : all) {
      state_.Publish(entry->topic);
      for (const auto& [name, subscription] : entry->subscriptions) {
        const SubscriptionPhase phase = subscription.stored.phase;
        const bool there =
            phase == SubscriptionPhase::kLive || phase == SubscriptionPhase::kUpdating;
        if (there) state_.Publish(Published(subscription));
      }
      if (IsDefault(*entry->topic)) continue;
      recovering_ += options_.shards;
      Tell(entry->topic, entry->topic->deleted, kRecovery);
    }
    OnRecoveryReply();
  });
  // This count holds until the continuation above has run.
  ++recovering_;
  ResumeChanges();
  return absl::OkStatus();
}

void Catalog::ResumeChanges() {
  std::vector<Resume> open;
  for (const TopicEntry* const entry : state_.All()) {
    for (const auto& [name, subscription] : entry->subscriptions) {
      if (subscription.stored.phase == SubscriptionPhase::kLive) continue;
      open.push_back({.topic = entry->topic->id, .subscription = name});
    }
    if (entry->phase == TopicPhase::kDeleting) {
      open.push_back({.topic = entry->topic->id, .subscription = ""});
    }
  }
  recovering_ += open.size();
  for (Resume& resume : open) Do(resume);
}

void Catalog::OnRecoveryReply() {
  DT_CHECK_GT(recovering_, 0u);
  if (--recovering_ > 0) return;
  for (const RequestTag tag : std::exchange(await_recovery_, {})) Answer({.tag = tag});
}

void Catalog::Handle(base::Now now, Command command) {
  now_ = now;
  std::visit(
      [&]<typename C>(C& alternative) {
        if constexpr (kIsRequest<C>) requests_.insert(alternative.tag);
        if (failed_) return CloseRequests(base::StorageFailedError());
        Do(alternative);
      },
      command);
}

void Catalog::OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome) {
  now_ = now;
  const bool accepted = outcome == storage::AppendOutcome::kAccepted;
  writes_.Complete(now, sequence, accepted && !failed_);
  if (!accepted) Fail();
}

std::optional<scheduler::PendingWrites::Batch> Catalog::TakeBatch() {
  if (failed_) return std::nullopt;
  // A decision without a record applies at once, unless earlier records are in flight.
  while (writes_.holds_already()) writes_.Complete(now_, writes_.Take()->sequence, true);
  return writes_.Take();
}

Effects Catalog::TakeEffects() {
  effects_.snapshot = state_.TakeSnapshot();
  return std::exchange(effects_, Effects{});
}

void Catalog::Fail() {
  if (std::exchange(failed_, true)) return;
  effects_.failed = true;
  writes_.Abandon(now_);
  CloseRequests(base::StorageFailedError());
}

void Catalog::Stop() {
  changes_.DropWaiting();
  CloseRequests(base::DrainingError());
}

void Catalog::CloseRequests(const absl::Status& status) {
  DT_CHECK(!status.ok());
  for (const RequestTag tag : std::set<RequestTag>(requests_)) {
    Answer({.tag = tag, .status = status});
  }
  DT_CHECK(requests_.empty());
}

void Catalog::CheckInvariants() const {
  state_.CheckInvariants();
  changes_.CheckInvariants();
}

// ---- Changes -----------------------------------------------------------------------------------

void Catalog::Then(std::function<void(base::Now)> next) {
  writes_.Then([this, next = std::move(next)](base::Now now, bool ok) {
    if (ok && !failed_) next(now);
  });
}

void Catalog::PublishLater(TopicPtr topic) {
  Then([this, topic = std::move(topic)](base::Now) { state_.Publish(topic); });
}

void Catalog::Answer(Reply reply) {
  if (requests_.erase(reply.tag) == 0) return;  // no client waits, or Stop or Fail has answered
  effects_.replies.push_back(std::move(reply));
}

void Catalog::AnswerLater(Reply reply) {
  Then([this, reply = std::move(reply)](base::Now) { Answer(reply); });
}

void Catalog::Finish(TopicEntry* entry, const absl::Status& status) {
  const TopicId topic = entry->topic->id;
  const Change change = changes_.End(topic);
  Reply reply{.tag = change.tag, .status = status};
  if (status.ok() && !change.deletes_topic) {
    reply.topic = entry->topic;
    reply.subscription = state_.FindPublished(topic, change.subscription);
  } else if (!status.ok()) {
    reply.messages = change.messages;
  }
  Answer(std::move(reply));
  if (change.resumed) OnRecoveryReply();
  // Continue until a command begins a change; some commands begin none.
  while (std::optional<Command> next = changes_.Next(topic)) {
    std::visit([&](auto& alternative) { Do(alternative); }, *next);
  }
}

void Catalog::Tell(const TopicPtr& topic, bool watch, CallTag tag) {
  protocol::TopicCommand command;
  command.tag = tag;
  command.topic = topic->id;
  const TopicSettings& settings = topic->settings;
  command.tombstone_retention_ms =
      settings.tombstone_retention_ms.value_or(options_.tombstone_retention_ms);
  command.quota = topic->quota;
  command.watch = watch;
  const Change* const change = changes_.Find(topic->id);
  command.count = watch || (change != nullptr && change->deletes_topic);
  command.paused = settings.paused;
  command.pace = topic->pace;
  command.minute_max = settings.minute_max;
  command.bucket_policy = settings.minute_policy;
  // The unit of the spread is a minute.
  command.spread_minutes_max = static_cast<uint32_t>(settings.minute_spread_ms / 60'000);
  command.dead_letter = topic->dead_letters;
  std::vector<ShardCommand>& commands = watch ? effects_.watches : effects_.commands;
  for (uint16_t shard = 0; shard < options_.shards; ++shard) {
    commands.push_back({.shard = shard, .command = command});
  }
}

// ---- Topics ------------------------------------------------------------------------------------

absl::Status Catalog::Use(absl::string_view name, bool used, bool create, TopicEntry** entry) {
  *entry = state_.Find(name);
  if (*entry == nullptr) {
    if (!create) return TopicNotFoundError(name);
    if (absl::Status status = state_.CheckRoom(/*listened=*/!used, 1); !status.ok()) return status;
    *entry = state_.Add(name, used);
    PublishLater((*entry)->topic);
    return absl::OkStatus();
  }
  if ((*entry)->topic->deleted && !create) return TopicNotFoundError(name);
  Revive(*entry);
  if (used && !(*entry)->topic->used) {
    Topic topic = *(*entry)->topic;
    topic.used = true;
    state_.Set(*entry, std::move(topic));
    PublishLater((*entry)->topic);
  }
  DT_CHECK(!(*entry)->topic->deleted);
  return absl::OkStatus();
}

void Catalog::Revive(TopicEntry* entry) {
  Change* const change = changes_.Find(entry->topic->id);
  const bool deleting = change != nullptr && change->deletes_topic;
  if (deleting) change->used = true;
  if (!entry->topic->deleted) return;
  DT_CHECK(deleting || entry->phase == TopicPhase::kDeleted);
  Topic topic = *entry->topic;
  topic.deleted = false;
  state_.Set(entry, std::move(topic));
  // A running deletion writes the topic's new record itself, in EndDeletion.
  if (entry->phase == TopicPhase::kDeleted) {
    entry->phase = TopicPhase::kLive;
    state_.WriteDefaults(*entry);
  }
  PublishLater(entry->topic);
}

absl::Status Catalog::CheckCreation(absl::string_view name, bool used,
                                    const std::optional<std::string>& dead_letters) {
  const TopicEntry* const entry = state_.Find(name);
  if ((entry != nullptr && !entry->topic->deleted) || !options_.auto_create) {
    return absl::OkStatus();
  }
  size_t topics = entry == nullptr ? 1 : 0;
  if (dead_letters.has_value()) {
    if (dead_letters->empty()) return NoDeadLetterTopicError(name);
    if (state_.Find(*dead_letters) == nullptr) ++topics;
  }
  return state_.CheckRoom(/*listened=*/!used, topics);
}

bool Catalog::LacksDeadLetters(const TopicEntry& entry) {
  const Topic& topic = *entry.topic;
  if (topic.deleted || topic.dead_letters != TopicId{}) return false;
  if (!topic.settings.dead_letter_topic.empty()) return true;
  for (const auto& [name, subscription] : entry.subscriptions) {
    const protocol::SubscriptionSettings& settings = subscription.stored.settings;
    if (settings.dead_letter_name.empty() && settings.MakesDeadLetters()) return true;
  }
  return false;
}

absl::Status Catalog::LinkDeadLetters(TopicEntry* entry) {
  const std::string name = DeadLettersName(*entry->topic);
  if (name.empty()) return NoDeadLetterTopicError(entry->topic->name());
  TopicEntry* target = nullptr;
  absl::Status status = Use(name, /*used=*/true, /*create=*/true, &target);
  if (!status.ok() || entry->topic->dead_letters == target->topic->id) return status;
  Topic topic = *entry->topic;
  topic.dead_letters = target->topic->id;
  state_.Set(entry, std::move(topic));
  const Change* const change = changes_.Find(entry->topic->id);
  const bool watch = change != nullptr && change->deletes_topic;
  Then([this, linked = entry->topic, watch](base::Now) {
    state_.Publish(linked);
    Tell(linked, watch, kNoChange);
  });
  return absl::OkStatus();
}

void Catalog::ChangeSettings(TopicEntry* entry, RequestTag tag, const TopicSettings& settings) {
  DT_CHECK(!entry->topic->deleted && entry->phase == TopicPhase::kLive);
  Change* const change = changes_.Begin(entry->topic->id, tag);
  const bool linked = entry->topic->dead_letters != TopicId{};
  Topic topic = *entry->topic;
  CatalogState::ApplySettings(settings, &topic);
  topic.used = true;
  state_.Set(entry, std::move(topic));
  state_.Write(*entry, TopicPhase::kLive, settings);
  // If there is no room for one more topic, the first dead letter makes the link.
  const bool unlinked = linked && entry->topic->dead_letters == TopicId{};
  if (unlinked || LacksDeadLetters(*entry)) static_cast<void>(LinkDeadLetters(entry));
  Then([this, change, changed = entry->topic](base::Now) {
    state_.Publish(changed);
    change->step = Step::kTelling;
    change->open = options_.shards;
    Tell(changed, /*watch=*/false, TagOf(changed->id));
  });
}

void Catalog::Do(EnsureTopic& command) {
  TopicEntry* entry = nullptr;
  std::optional<std::string> dead_letters;
  if (command.dead_letters) dead_letters = DefaultDeadLettersName(command.name);
  absl::Status status = CheckCreation(command.name, /*used=*/true, dead_letters);
  if (status.ok()) status = Use(command.name, /*used=*/true, options_.auto_create, &entry);
  if (status.ok() && command.dead_letters) status = LinkDeadLetters(entry);
  AnswerLater(
      {.tag = command.tag, .status = status, .topic = status.ok() ? entry->topic : nullptr});
}

void Catalog::Do(CreateTopic& command) {
  TopicEntry* entry = state_.Find(command.name);
  if (entry != nullptr && Queue(*entry, command)) return;
  const bool exists = entry != nullptr && !entry->topic->deleted;
  absl::Status status;
  if (exists && entry->topic->settings != command.settings) {
    status = TopicExistsError(command.name);
  } else {
    status = Use(command.name, /*used=*/true, /*create=*/true, &entry);
  }
  if (status.ok() && !exists) return ChangeSettings(entry, command.tag, command.settings);
  AnswerLater(
      {.tag = command.tag, .status = status, .topic = status.ok() ? entry->topic : nullptr});
}

void Catalog::Do(UpdateTopic& command) {
  TopicEntry* const entry = state_.Find(command.name);
  if (entry != nullptr && Queue(*entry, command)) return;
  absl::Status status;
  TopicSettings settings;
  if (entry == nullptr || entry->topic->deleted) {
    status = TopicNotFoundError(command.name);
  } else {
    settings = entry->topic->settings;
    status = command.edit(&settings);
  }
  if (status.ok()) return ChangeSettings(entry, command.tag, settings);
  AnswerLater({.tag = command.tag, .status = status});
}

void Catalog::Do(AwaitRecovery& command) {
  if (recovering_ == 0) return Answer({.tag = command.tag});
  await_recovery_.push_back(command.tag);
}

void Catalog::Do(TopicUsed& command) { Revive(state_.Of(command.topic)); }

void Catalog::Do(protocol::TopicReply& reply) {
  if (reply.tag == kNoChange) return;
  // A shard that has failed stops the server (P7). The next start continues the change.
  if (!reply.status.ok()) return Fail();
  // The shard may have accepted a message before it watched the topic.
  if (reply.messages > 0) Revive(state_.Of(reply.topic));
  if (reply.tag == kRecovery) return OnRecoveryReply();
  TopicEntry* const entry = state_.Of(TopicId{static_cast<uint32_t>(reply.tag)});
  Change* const change = changes_.Find(entry->topic->id);
  DT_CHECK(change != nullptr);
  // Before a crash, the shard may have accepted a recurrence while the deletion wrote its record.
  if (reply.recurrences > 0 && change->step == Step::kHiding) Revive(entry);
  change->messages += reply.messages;
  change->recurrences += reply.recurrences;
  DT_CHECK_GT(change->open, 0u);
  if (--change->open > 0) return;
  switch (change->step) {
    case Step::kTelling:
      return Finish(entry, absl::OkStatus());
    case Step::kCounting:
      return OnCounted(entry, change);
    case Step::kReverting:
      return Finish(entry, change->messages > 0
                               ? TopicNotEmptyError(entry->topic->name(), change->messages)
                               : TopicUsedError(entry->topic->name()));
    case Step::kHiding:
      return ForgetNextSubscription(entry, change);
    case Step::kWriting:
    case Step::kForgetting:
    case Step::kSubscribing:
      break;
  }
  DT_CHECK(false);
}

// ---- Deletion of a topic -----------------------------------------------------------------------

void Catalog::Do(DeleteTopic& command) {
  TopicEntry* const entry = state_.Find(command.name);
  if (entry != nullptr && Queue(*entry, command)) return;
  if (entry == nullptr || entry->topic->deleted) {
    return AnswerLater({.tag = command.tag, .status = TopicNotFoundError(command.name)});
  }
  Change* const change = changes_.Begin(entry->topic->id, command.tag);
  change->deletes_topic = true;
  Topic topic = *entry->topic;
  topic.touched = std::make_shared<std::atomic<bool>>(false);
  state_.Set(entry, std::move(topic));
  Then([this, change, watched = entry->topic](base::Now) {
    state_.Publish(watched);
    change->step = Step::kCounting;
    change->open = options_.shards;
    Tell(watched, /*watch=*/true, TagOf(watched->id));
  });
}

void Catalog::OnCounted(TopicEntry* entry, Change* change) {
  const absl::string_view name = entry->topic->name();
  if (change->recurrences > 0) {
    change->messages = 0;
    return Finish(entry, TopicRecursError(name, change->recurrences));
  }
  if (change->messages > 0) return Finish(entry, TopicNotEmptyError(name, change->messages));
  change->step = Step::kWriting;
  entry->phase = TopicPhase::kDeleting;
  state_.Write(*entry, TopicPhase::kDeleting, entry->topic->settings);
  Then([this, entry, change](base::Now) { OnMarked(entry, change); });
}

void Catalog::OnMarked(TopicEntry* entry, Change* change) {
  DT_CHECK(entry->phase == TopicPhase::kDeleting);
  // A shard's thread sets the flag before it posts TopicUsed, so the flag may be ahead of `used`.
  if (!change->used && !entry->topic->touched->load()) return Hide(entry, change);
  entry->phase = TopicPhase::kLive;
  state_.Write(*entry, TopicPhase::kLive, entry->topic->settings);
  Then([this, entry, change](base::Now) {
    change->step = Step::kReverting;
    change->open = options_.shards;
    Tell(entry->topic, /*watch=*/false, TagOf(entry->topic->id));
  });
}

void Catalog::Hide(TopicEntry* entry, Change* change) {
  Topic topic = *entry->topic;
  topic.deleted = true;
  CatalogState::ApplySettings({}, &topic);
  state_.Set(entry, std::move(topic));
  Then([this, change, hidden = entry->topic](base::Now) {
    state_.Publish(hidden);
    change->step = Step::kHiding;
    change->open = options_.shards;
    Tell(hidden, /*watch=*/true, TagOf(hidden->id));
  });
}

void Catalog::ForgetNextSubscription(TopicEntry* entry, Change* change) {
  if (entry->subscriptions.empty()) return EndDeletion(entry, change);
  change->subscription = entry->subscriptions.begin()->first;
  SendToShards(entry, change, SubscriptionPhase::kDeleting);
}

void Catalog::EndDeletion(TopicEntry* entry, Change* change) {
  DT_CHECK(entry->subscriptions.empty() && entry->phase == TopicPhase::kDeleting);
  if (change->used) {
    entry->phase = TopicPhase::kLive;
    state_.WriteDefaults(*entry);
  } else {
    entry->phase = TopicPhase::kDeleted;
    state_.Write(*entry, TopicPhase::kDeleted, {});
  }
  change->step = Step::kWriting;
  Then([this, entry](base::Now) { Finish(entry, absl::OkStatus()); });
}

void Catalog::Do(Resume& command) {
  TopicEntry* const entry = state_.Of(command.topic);
  if (Queue(*entry, command)) return;
  Change* const change = changes_.Begin(entry->topic->id, RequestTag{});
  change->resumed = true;
  change->subscription = command.subscription;
  if (command.subscription.empty()) {
    DT_CHECK(entry->phase == TopicPhase::kDeleting);
    change->deletes_topic = true;
    return Hide(entry, change);
  }
  const auto found = entry->subscriptions.find(command.subscription);
  DT_CHECK(found != entry->subscriptions.end());
  SendToShards(entry, change, found->second.stored.phase);
}

}  // namespace duetime::catalog
