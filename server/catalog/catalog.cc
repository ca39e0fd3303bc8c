// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog.h"

#include <algorithm>
#include <concepts>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/catalog/catalog_load.h"

namespace duetime::catalog {

using storage::TopicId;

namespace {

// True for commands that get a reply: those of clients and of the server's start.
template <typename C>
constexpr bool kIsRequest = requires(C command) {
  { command.tag } -> std::same_as<RequestTag&>;
};

bool IsDefault(const Topic& topic) {
  return topic.settings == TopicSettings{} && topic.dead_letters == TopicId{} && !topic.deleted &&
         topic.first_id == storage::MessageId{};
}

}  // namespace

Catalog::Catalog(const CatalogOptions& options, storage::MessageStore* store)
    : options_(options),
      store_(store),
      state_(options, &writes_),
      output_(options, &changes_, &writes_),
      topics_(options, &state_, &changes_, &output_),
      subscriptions_(options, &state_, &changes_, &output_, &topics_),
      deletion_(&state_, &changes_, &output_, &subscriptions_,
                [this](TopicEntry* entry, const absl::Status& status) { Finish(entry, status); }) {
  DT_CHECK(store != nullptr);
}

Catalog::~Catalog() = default;

absl::Status Catalog::Recover(base::Now now) {
  DT_CHECK_EQ(state_.topics(), 0u);
  SetNow(now);
  absl::Status status = LoadCatalog(options_, store_, &writes_, &state_);
  if (!status.ok()) return status;
  for (TopicEntry* const entry : state_.All()) {
    // Without room for one more topic there is no link, and the shards refuse dead letters. The
    // next start, and a client's dead-letter settlement, try again.
    if (LiveTopics::LacksDeadLetters(*entry)) {
      static_cast<void>(topics_.LinkDeadLetters(entry, /*needed=*/false));
    }
  }
  state_.AllowTakeOvers();
  const std::vector<TopicEntry*> all = state_.All();
  if (all.empty()) return absl::OkStatus();
  output_.Then([this, all] {
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
      output_.SendSettings(entry->topic, kRecovery);
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
  for (const RequestTag tag : std::exchange(await_recovery_, {})) output_.Answer({.tag = tag});
}

void Catalog::Handle(base::Now now, Command command) {
  SetNow(now);
  std::visit(
      [&]<typename C>(C& alternative) {
        if constexpr (kIsRequest<C>) output_.Open(alternative.tag);
        if (failed_) return output_.Close(base::StorageFailedError());
        Do(alternative);
      },
      command);
}

void Catalog::OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome) {
  SetNow(now);
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
  Effects effects = output_.Take();
  effects.snapshot = state_.TakeSnapshot();
  return effects;
}

void Catalog::Fail() {
  if (std::exchange(failed_, true)) return;
  writes_.Abandon(now_);
  output_.Fail();
}

void Catalog::Stop() {
  changes_.DropWaiting();
  output_.Close(base::DrainingError());
}

void Catalog::CheckInvariants() const {
  state_.CheckInvariants();
  changes_.CheckInvariants();
}

// ---- Commands ----------------------------------------------------------------------------------

void Catalog::Finish(TopicEntry* entry, const absl::Status& status) {
  const TopicId topic = entry->topic->id;
  const Change change = changes_.End(topic);
  // Every shard has answered.
  DT_CHECK_EQ(change.open, 0u);
  Reply reply{.tag = change.tag, .status = status};
  if (status.ok() && !change.deletes_topic) {
    reply.topic = entry->topic;
    reply.subscription = state_.FindPublished(topic, change.subscription);
  } else if (!status.ok()) {
    reply.messages = change.messages;
  }
  output_.Answer(std::move(reply));
  if (change.resumed) OnRecoveryReply();
  // Continue until a command begins a change; some commands begin none.
  while (std::optional<Command> next = changes_.Next(topic)) {
    std::visit([&](auto& alternative) { Do(alternative); }, *next);
  }
}

void Catalog::Do(EnsureTopic& command) { topics_.Ensure(command); }

void Catalog::Do(CreateTopic& command) {
  if (!Waits(command.name, command)) topics_.Create(command);
}

void Catalog::Do(UpdateTopic& command) {
  if (!Waits(command.name, command)) topics_.Update(command);
}

void Catalog::Do(DeleteTopic& command) {
  if (!Waits(command.name, command)) deletion_.Begin(command);
}

void Catalog::Do(CreateSubscription& command) {
  if (!Waits(command.topic, command)) subscriptions_.Create(now_, command);
}

void Catalog::Do(UpdateSubscription& command) {
  if (!Waits(command.topic, command)) subscriptions_.Update(command);
}

void Catalog::Do(DeleteSubscription& command) {
  if (!Waits(command.topic, command)) subscriptions_.Delete(command);
}

void Catalog::Do(AwaitRecovery& command) {
  if (recovering_ == 0) return output_.Answer({.tag = command.tag});
  await_recovery_.push_back(command.tag);
}

void Catalog::Do(TopicUsed& command) { topics_.Revive(state_.Of(command.topic)); }

void Catalog::Do(protocol::TopicReply& reply) {
  // A shard that has failed stops the server (P7). The next start continues the change.
  if (!reply.status.ok()) return Fail();
  // The shard may have accepted a message before it watched the topic.
  if (reply.messages > 0) topics_.Revive(state_.Of(reply.topic));
  // An older program may have deleted a topic that has a recurrence.
  if (reply.tag == kRecovery && reply.recurrences > 0) topics_.Revive(state_.Of(reply.topic));
  if (reply.tag == kNoChange) return;
  if (reply.tag == kRecovery) return OnRecoveryReply();
  TopicEntry* const entry = state_.Of(TopicId{static_cast<uint32_t>(reply.tag)});
  Change* const change = changes_.Find(entry->topic->id);
  DT_CHECK(change != nullptr);
  // Before a crash, the shard may have accepted a recurrence while the deletion wrote its record.
  if (reply.recurrences > 0 && change->step == Step::kHiding) topics_.Revive(entry);
  change->messages += reply.messages;
  change->recurrences += reply.recurrences;
  change->next_id = std::max(change->next_id, reply.next_id);
  DT_CHECK_GT(change->open, 0u);
  if (--change->open > 0) return;
  if (change->step == Step::kTelling) return Finish(entry, absl::OkStatus());
  deletion_.OnReplies(entry, change);
}

void Catalog::Do(protocol::SubscriptionReply& reply) {
  TopicEntry* const entry = state_.Of(TopicId{static_cast<uint32_t>(reply.tag)});
  Change* const change = changes_.Find(entry->topic->id);
  DT_CHECK(change != nullptr);
  DT_CHECK(change->step == Step::kSubscribing || change->step == Step::kForgetting);
  if (!reply.status.ok()) return Fail();
  DT_CHECK_GT(change->open, 0u);
  if (--change->open > 0) return;
  subscriptions_.OnReplies(entry, *change);
  if (change->deletes_topic) return deletion_.ForgetNextSubscription(entry, change);
  Finish(entry, absl::OkStatus());
}

void Catalog::Do(Resume& command) {
  TopicEntry* const entry = state_.Of(command.topic);
  if (Waits(entry->topic->name(), command)) return;
  Change* const change = changes_.Begin(entry->topic->id, RequestTag{});
  change->resumed = true;
  change->subscription = command.subscription;
  if (command.subscription.empty()) return deletion_.Resume(entry, change);
  const auto found = entry->subscriptions.find(command.subscription);
  DT_CHECK(found != entry->subscriptions.end());
  subscriptions_.SendToShards(entry, change, found->second.stored.phase);
}

}  // namespace duetime::catalog
