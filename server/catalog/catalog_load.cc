// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_load.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/catalog/catalog_records.h"
#include "server/protocol/subscription_state.h"
#include "storage/repair_note.h"
#include "storage/restore_note.h"
#include "storage/value_codec.h"

namespace duetime::catalog {
namespace {

using protocol::SubscriptionState;
using storage::MessageStore;
using storage::ObjectKind;
using storage::ObjectRef;
using storage::SubscriptionId;
using storage::TopicId;

static_assert(storage::kRepairNotePartition == kPartition);

constexpr size_t kObjectsPerRead = 1'000;

// One subscription: its state in each shard, or null if the shard has none.
using Parts = std::vector<const SubscriptionState*>;

bool Gone(const SubscriptionState* part) {
  return part != nullptr && (part->deleting || part->deleted);
}

// True if every shard has the subscription as it is here.
bool Everywhere(const Parts& parts, const StoredSubscription& stored) {
  return std::all_of(parts.begin(), parts.end(), [&stored](const SubscriptionState* part) {
    return part != nullptr && !part->deleting && part->name == stored.name &&
           part->settings == stored.settings;
  });
}

class Loader {
 public:
  Loader(const CatalogOptions& options, MessageStore* store, scheduler::PendingWrites* writes,
         CatalogState* state)
      : options_(options), store_(store), shards_(options.shards), writes_(writes), state_(state) {}

  absl::Status Load() {
    if (absl::Status status = LoadNames(); !status.ok()) return status;
    auto own = store_->GetObject(ObjectKind::kCatalog, kPartition, kStateName);
    if (!own.ok()) return own.status();
    auto note = store_->GetObject(ObjectKind::kCatalog, kPartition, storage::kRepairNoteName);
    if (!note.ok()) return note.status();
    absl::Status status = LoadTopics();
    if (!status.ok()) return status;
    if (own->has_value()) {
      const auto stored = DecodeState(**own);
      if (!stored.ok()) return stored.status();
      state_->SetNextSubscription(stored->next_subscription);
      state_->SetLongestRetention(stored->longest_retention_ms);
    }
    if (note->has_value()) {
      // A repair may have brought back the end of a former topic of the same name.
      free_ms_.clear();
      status = MendSubscriptions(**note);
    } else {
      status = LoadSubscriptions();
    }
    if (!status.ok()) return status;
    // Revives topics, which then need their links, too.
    if (status = EndDeletions(); !status.ok()) return status;
    SetEnds();
    if (status = PauseIfRestored(); !status.ok()) return status;
    LinkKnownDeadLetters();
    return absl::OkStatus();
  }

 private:
  template <typename Visit>
  absl::Status Scan(ObjectKind kind, uint16_t partition, Visit visit) {
    std::vector<ObjectRef> read;
    do {
      const std::string after = read.empty() ? "" : read.back().name;
      read.clear();
      absl::Status status = store_->ScanObjects(kind, partition, after, kObjectsPerRead, &read);
      if (!status.ok()) return status;
      for (const ObjectRef& object : read) {
        if (status = visit(object); !status.ok()) return status;
      }
    } while (read.size() == kObjectsPerRead);
    return absl::OkStatus();
  }

  absl::Status LoadNames() {
    auto names = store_->Topics();
    if (!names.ok()) return names.status();
    for (const auto& [id, name] : *names) {
      if (id == TopicId{} || name.empty() || state_->Find(name) != nullptr) {
        return absl::DataLossError("the store holds an invalid name of a topic");
      }
      state_->Load(id, name);
    }
    return absl::OkStatus();
  }

  TopicEntry* Put(const std::string& name, const StoredTopic& stored) {
    TopicEntry* entry = state_->Find(name);
    // A repair may have lost the topic's number.
    if (entry == nullptr) entry = state_->Add(name, /*used=*/true);
    Topic topic = *entry->topic;
    // A deleted topic has none, whatever its record has.
    if (stored.phase != TopicPhase::kDeleted) {
      CatalogState::ApplySettings(stored.settings, &topic);
    }
    topic.deleted = stored.phase == TopicPhase::kDeleted;
    topic.first_id = stored.first_id;
    // The shards will watch the topic, so it needs the flag.
    if (stored.phase != TopicPhase::kLive) {
      topic.touched = std::make_shared<TopicUse>();
    }
    state_->Set(entry, std::move(topic));
    entry->phase = stored.phase;
    entry->longest_retention_ms =
        std::max(stored.longest_retention_ms, stored.settings.tombstone_retention_ms());
    if (stored.free_ms > 0) free_ms_[entry->topic->id] = stored.free_ms;
    return entry;
  }

  absl::Status LoadTopics() {
    return Scan(ObjectKind::kTopicSettings, kPartition, [this](const ObjectRef& object) {
      const auto stored = DecodeTopic(object.value);
      if (stored.ok()) Put(object.name, *stored);
      return stored.status();
    });
  }

  absl::Status Known(TopicId topic) const {
    if (state_->Contains(topic)) return absl::OkStatus();
    return absl::DataLossError("the store holds a subscription of a topic without a name");
  }

  void Put(SubscriptionId id, StoredSubscription stored) {
    TopicEntry* const entry = state_->Of(stored.topic);
    if (stored.name.empty()) {
      entry->nameless = id;
      return;
    }
    if (entry->subscriptions.empty()) entry->nameless.reset();
    state_->SetSubscription(
        entry, {.id = id, .stored = std::move(stored), .incarnation = state_->NextIncarnation()});
  }

  absl::Status LoadSubscriptions() {
    return Scan(ObjectKind::kSubscription, kPartition, [this](const ObjectRef& object) {
      auto stored = DecodeSubscription(object.value);
      if (!stored.ok()) return stored.status();
      uint32_t id = 0;
      if (object.name.size() != 8 || !absl::SimpleHexAtoi(object.name, &id)) {
        return absl::DataLossError("a record of the catalog has a damaged name");
      }
      if (absl::Status status = Known(stored->topic); !status.ok()) return status;
      Put(SubscriptionId{id}, *std::move(stored));
      return absl::OkStatus();
    });
  }

  // A repair may have lost records of the catalog and of the shards.
  absl::Status MendSubscriptions(const std::string& note) {
    const std::optional<uint64_t> greatest = storage::DecodeNumber(note);
    if (!greatest.has_value()) return absl::DataLossError("the note of a repair is damaged");
    if (absl::Status status = JoinSubscriptions(); !status.ok()) return status;
    state_->ReserveSubscriptions(static_cast<uint32_t>(*greatest));
    state_->WriteState();
    storage::Record erase;
    erase.type = storage::RecordType::kUnobject;
    erase.shard = kPartition;
    erase.kind = static_cast<uint8_t>(ObjectKind::kCatalog);
    erase.name = std::string(storage::kRepairNoteName);
    writes_->Add(std::move(erase), storage::Durability::kSynced);
    return absl::OkStatus();
  }

  // Also takes over the subscriptions that only shards have, with names and settings.
  absl::Status JoinSubscriptions() {
    std::vector<std::vector<SubscriptionState>> states(shards_);
    for (uint16_t shard = 0; shard < shards_; ++shard) {
      absl::Status status = Scan(ObjectKind::kSubscription, shard, [&](const ObjectRef& object) {
        auto state = protocol::DecodeSubscription(object.name, object.value);
        if (!state.ok()) return state.status();
        if (absl::Status known = Known(state->topic); !known.ok()) return known;
        states[shard].push_back(*std::move(state));
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
    }
    std::map<uint32_t, Parts> by_id;
    for (uint16_t shard = 0; shard < shards_; ++shard) {
      for (const SubscriptionState& state : states[shard]) {
        Parts& parts = by_id[static_cast<uint32_t>(state.id)];
        parts.resize(shards_);
        parts[shard] = &state;
        // The store holds an object of one of the topic's subscriptions. So the topic has no
        // nameless subscription without an object.
        state_->Of(state.topic)->nameless.reset();
      }
    }
    if (absl::Status status = LoadSubscriptions(); !status.ok()) return status;
    const std::set<uint32_t> known = KnownSubscriptions();
    if (!known.empty()) state_->ReserveSubscriptions(*known.rbegin());
    SendAgain(by_id);
    for (const auto& [id, parts] : by_id) {
      state_->ReserveSubscriptions(id);
      if (!known.contains(id)) TakeOver(SubscriptionId{id}, parts);
    }
    for (TopicEntry* const entry : state_->All()) {
      // Every shard was deleting the topic's only subscription.
      if (entry->nameless.has_value() || !entry->subscriptions.empty()) continue;
      entry->nameless = storage::FirstSubscription(entry->topic->id);
    }
    return absl::OkStatus();
  }

  std::set<uint32_t> KnownSubscriptions() const {
    std::set<uint32_t> known;
    for (const TopicEntry* const entry : state_->All()) {
      if (entry->nameless.has_value()) known.insert(static_cast<uint32_t>(*entry->nameless));
      for (const auto& [name, subscription] : entry->subscriptions) {
        known.insert(static_cast<uint32_t>(subscription.id));
      }
    }
    return known;
  }

  // Creates the catalog's subscriptions once more if a shard does not have them as they are. Such a
  // shard lists all messages that it still has. If a shard has begun to delete one, the catalog's
  // record of the deletion is lost, and the deletion goes on.
  void SendAgain(const std::map<uint32_t, Parts>& by_id) {
    for (TopicEntry* const entry : state_->All()) {
      for (auto& [name, subscription] : entry->subscriptions) {
        StoredSubscription& stored = subscription.stored;
        const auto parts = by_id.find(static_cast<uint32_t>(subscription.id));
        const bool whole = parts != by_id.end() && Everywhere(parts->second, stored);
        if (whole || stored.phase == SubscriptionPhase::kDeleting) continue;
        const bool gone =
            parts != by_id.end() && std::any_of(parts->second.begin(), parts->second.end(), Gone);
        stored.phase = gone ? SubscriptionPhase::kDeleting : SubscriptionPhase::kCreating;
        stored.from_now = false;
        state_->Write(subscription);
      }
    }
  }

  // After a repair, another subscription of the topic may have the name. A name has only ASCII
  // characters (api/validation_error.h), so any cut leaves a valid one.
  std::string FreeName(const SubscriptionState& state) {
    const auto& taken = state_->Of(state.topic)->subscriptions;
    std::string name = state.name;
    for (int tries = 1; taken.contains(name); ++tries) {
      name = absl::StrCat("recovered-", static_cast<uint32_t>(state.id), "-",
                          tries == 1 ? "" : absl::StrCat(tries, "-"), state.name);
      name.resize(std::min(name.size(), kTopicBytesMax));
    }
    return name;
  }

  // No client got an answer to a change that reached only some shards. So this function completes
  // deletions and creations. If settings differ, those of the first shard win.
  void TakeOver(SubscriptionId id, const Parts& parts) {
    const SubscriptionState* any = nullptr;
    const SubscriptionState* named = nullptr;
    bool deleting = false;
    bool deleting_everywhere = true;
    for (const SubscriptionState* const part : parts) {
      if (part == nullptr) continue;
      any = part;
      if (named == nullptr && !part->name.empty()) named = part;
      deleting |= Gone(part);
      deleting_everywhere &= Gone(part);
    }
    DT_CHECK(any != nullptr);
    if (deleting && (deleting_everywhere || named == nullptr)) return;
    StoredSubscription stored;
    stored.topic = any->topic;
    if (named != nullptr) {
      stored.name = FreeName(*named);
      stored.settings = named->settings;
      stored.create_ms = named->create_ms;
      if (!Everywhere(parts, stored)) stored.phase = SubscriptionPhase::kCreating;
      if (deleting) stored.phase = SubscriptionPhase::kDeleting;
    }
    const SubscriptionEntry entry{.id = id, .stored = stored, .incarnation = 0};
    state_->Write(entry);
    Put(id, std::move(stored));
  }

  // After a restore, pauses all topics that are not paused, once. What the original server
  // delivered after the backup is then delivered again only if an operator wants it.
  absl::Status PauseIfRestored() {
    const auto bytes =
        store_->GetObject(ObjectKind::kCatalog, kPartition, storage::kRestoreNoteName);
    if (!bytes.ok()) return bytes.status();
    if (!bytes->has_value()) return absl::OkStatus();
    std::optional<storage::RestoreNote> note = storage::DecodeRestoreNote(**bytes);
    if (!note.has_value()) return absl::DataLossError("the note of a restore is damaged");
    if (note->paused) return absl::OkStatus();
    for (TopicEntry* const entry : state_->All()) {
      if (entry->phase != TopicPhase::kLive || entry->topic->settings.paused()) continue;
      Topic topic = *entry->topic;
      topic.settings.set_paused(true);
      topic.settings.set_paused_by_restore(true);
      state_->Set(entry, std::move(topic));
      state_->Write(*entry, TopicPhase::kLive, entry->topic->settings);
    }
    note->paused = true;
    storage::Record record;
    record.type = storage::RecordType::kObject;
    record.shard = kPartition;
    record.kind = static_cast<uint8_t>(ObjectKind::kCatalog);
    record.name = std::string(storage::kRestoreNoteName);
    record.value = storage::EncodeRestoreNote(*note);
    writes_->Add(std::move(record), storage::Durability::kSynced);
    return absl::OkStatus();
  }

  // Links each topic to its dead-letter topic if that exists.
  void LinkKnownDeadLetters() {
    for (TopicEntry* const entry : state_->All()) {
      if (entry->topic->deleted) continue;
      const TopicEntry* const target = state_->Find(DeadLettersName(*entry->topic));
      if (target == nullptr) continue;
      Topic topic = *entry->topic;
      topic.dead_letters = target->topic->id;
      state_->Set(entry, std::move(topic));
    }
  }

  // Lets the names of deleted topics end. After a loss, or without a time in the record of an older
  // program, longer retentions of the past are not known.
  void SetEnds() {
    state_->NoteRetention(std::max(options_.tombstone_retention_ms, options_.request_retention_ms));
    // No message of a deleted topic is of this epoch.
    const storage::MessageId end_id = storage::MessageId::Make(store_->epoch(), 0, 0, 0);
    for (TopicEntry* const entry : state_->All()) {
      if (entry->phase != TopicPhase::kDeleted) continue;
      const auto stored = free_ms_.find(entry->topic->id);
      const bool known = stored != free_ms_.end();
      const uint64_t free_ms = known ? stored->second : state_->EndOfName(*entry);
      // Otherwise the time would begin anew at each start.
      if (!known) state_->Write(*entry, TopicPhase::kDeleted, {}, free_ms);
      state_->SetEnd(entry, free_ms, end_id);
    }
  }

  absl::StatusOr<bool> HasMessages(TopicId topic) {
    for (uint16_t shard = 0; shard < shards_; ++shard) {
      std::vector<storage::BucketCount> counts;
      absl::Status status =
          store_->ReadCounts(shard, topic, storage::CountLevel::kTopic, {0, 1}, 1, &counts);
      // To count the messages could take minutes. A topic that lives on loses nothing.
      if (storage::IsDamage(status)) return true;
      if (!status.ok()) return status;
      if (!counts.empty() && counts[0].messages > 0) return true;
    }
    return false;
  }

  // Revives topics that got a message during or after their deletion. A shard accepted the message,
  // and the server ended before the catalog got the report.
  absl::Status EndDeletions() {
    for (TopicEntry* const entry : state_->All()) {
      if (entry->phase == TopicPhase::kLive) continue;
      const auto messages = HasMessages(entry->topic->id);
      if (!messages.ok()) return messages.status();
      const bool deleted = entry->phase == TopicPhase::kDeleted;
      // After a repair, subscriptions of a deleted topic may be there.
      if (!*messages && (!deleted || entry->subscriptions.empty())) continue;
      Topic topic = *entry->topic;
      topic.deleted = false;
      state_->Set(entry, std::move(topic));
      entry->phase = TopicPhase::kLive;
      if (deleted) {
        state_->WriteDefaults(*entry);
      } else {
        state_->Write(*entry, TopicPhase::kLive, entry->topic->settings);
      }
    }
    return absl::OkStatus();
  }

  const CatalogOptions& options_;
  MessageStore* const store_;
  const uint16_t shards_;
  scheduler::PendingWrites* const writes_;
  CatalogState* const state_;
  // When the names of deleted topics may end, as stored.
  absl::flat_hash_map<TopicId, uint64_t> free_ms_;
};

}  // namespace

absl::Status LoadCatalog(const CatalogOptions& options, MessageStore* store,
                         scheduler::PendingWrites* writes, CatalogState* state) {
  DT_CHECK(store != nullptr && writes != nullptr && state != nullptr);
  DT_CHECK_EQ(state->topics(), 0u);
  return Loader(options, store, writes, state).Load();
}

}  // namespace duetime::catalog
