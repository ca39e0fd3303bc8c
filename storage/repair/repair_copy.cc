// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/repair_copy.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"
#include "storage/day_counts.h"
#include "storage/find_trace.h"
#include "storage/key_text.h"
#include "storage/locator.h"
#include "storage/repair_note.h"
#include "storage/rocksdb/file_system.h"
#include "storage/time_units.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

constexpr size_t kCopyBatchBytes = size_t{1} << 20;
// Bounds the memory of the counters of a batch.
constexpr size_t kCopyBatchRecords = 10'000;
// RocksDB ends the process when the disk is full, so the repair ends before. It looks after as many
// bytes as it requires to be free.
constexpr uint64_t kFreeBytesMin = uint64_t{64} << 20;
constexpr uint64_t kProgressRecords = 1'000'000;
// Bounds the memory of the list of lost messages.
constexpr size_t kLostMessagesMax = 100'000;
constexpr size_t kKeyShardBytes = sizeof(uint16_t);
constexpr absl::string_view kBacklogClaimMark = "backlog_claim/";
constexpr size_t kMessageKeyBytes = kKeyShardBytes + 8 + 16;

// An index key begins with its shard and topic.
char KindOfIndexKey(absl::string_view key) { return key[6]; }

// The shard of a key of `meta`; nullopt if the key is not that of this mark.
std::optional<uint16_t> ShardOfMark(absl::string_view mark, absl::string_view key) {
  if (key.size() != mark.size() + kKeyShardBytes || !absl::StartsWith(key, mark))
    return std::nullopt;
  return LoadBigEndian<uint16_t>(key.data() + mark.size());
}

}  // namespace

absl::Status RepairCopy::Run() {
  for (const auto step :
       {&RepairCopy::CopyMeta, &RepairCopy::CopyObjects, &RepairCopy::CopyMessages,
        &RepairCopy::CopyLocators, &RepairCopy::CopyBacklog, &RepairCopy::CopyProgress,
        &RepairCopy::CopyIndex, &RepairCopy::NameTopics}) {
    if (absl::Status status = (this->*step)(); !status.ok()) return status;
  }
  ReportBlocks();
  for (const auto step :
       {&RepairCopy::IndexKeys, &RepairCopy::CompareCounts, &RepairCopy::Finish}) {
    if (absl::Status status = (this->*step)(); !status.ok()) return status;
  }
  report_.Say(
      absl::StrCat(messages_, " messages and ", copied_ - messages_, " other records are copied"));
  const auto say = [this](uint64_t count, absl::string_view what) {
    if (count > 0) report_.Say(absl::StrCat(count, " ", what));
  };
  say(ended_, "messages are left out, because they had ended");
  say(moved_, "messages are left out at the place from which they had been moved");
  say(dropped_, "records are left out, because their message is not where they say");
  say(indexed_, "keys of messages are listed anew");
  say(lost_.size(), "lost messages are named by other records");
  return absl::OkStatus();
}

// ---- Copying

absl::Status RepairCopy::ForEach(ColumnFamily family, const Take& take) {
  const absl::string_view name = LayoutOf(family).name;
  uint64_t records = 0;
  std::string place;
  const auto range = source_.records()->NewReader(family, "", kLastKey, OnDamage::kGoAround);
  for (; range->Valid(); range->Next()) {
    place.assign(range->key().data(), range->key().size());
    if (absl::Status status = take(range->key(), range->value()); !status.ok()) return status;
    if (++records % kProgressRecords == 0) {
      report_.Say(absl::StrCat(name, ": ", records, " records read"));
    }
  }
  if (const absl::Status status = range->status(); !status.ok()) {
    // An error of the system is no loss: the records may be sound, and another repair may read
    // them.
    if (!absl::IsDataLoss(status)) return status;
    report_.Lost(absl::StrCat("the rest of ", name, " after ", KeyText(family, place),
                              " cannot be read: ", status.message()));
  }
  return Flush();
}

absl::Status RepairCopy::Put(ColumnFamily family, absl::string_view key, absl::string_view value) {
  changes_.push_back({family, std::string(key), std::string(value)});
  changed_bytes_ += key.size() + value.size();
  ++copied_;
  const bool full = changed_bytes_ >= kCopyBatchBytes || changes_.size() >= kCopyBatchRecords;
  return full ? Flush() : absl::OkStatus();
}

absl::Status RepairCopy::Flush() {
  if (changes_.empty()) return absl::OkStatus();
  unchecked_bytes_ += changed_bytes_;
  if (unchecked_bytes_ >= kFreeBytesMin) {
    unchecked_bytes_ = 0;
    const absl::StatusOr<uint64_t> free = FreeBytes(target_.data_dir());
    if (!free.ok()) return free.status();
    if (*free < 2 * kFreeBytesMin) {
      return absl::FailedPreconditionError(
          absl::StrCat("there is too little free space at ", target_.data_dir()));
    }
  }
  absl::Status status = target_.Write(
      [this](KvBatch* batch) {
        for (const Change& change : changes_) batch->Put(change.family, change.key, change.value);
        counts_.ForEachChange([batch](const StoreKey& key, absl::string_view change) {
          batch->Merge(key.family(), key.bytes(), change);
        });
      },
      Durability::kBuffered);
  changes_.clear();
  changed_bytes_ = 0;
  counts_.Clear();
  return status;
}

absl::Status RepairCopy::Undecodable(ColumnFamily family, absl::string_view key) {
  report_.Lost(absl::StrCat("a record cannot be decoded: ", LayoutOf(family).name, ", ",
                            KeyText(family, key)));
  return absl::OkStatus();
}

absl::Status RepairCopy::CopyMeta() {
  return ForEach(ColumnFamily::kMeta, [this](absl::string_view key, absl::string_view value) {
    return TakeMeta(key, value);
  });
}

absl::Status RepairCopy::TakeMeta(absl::string_view key, absl::string_view value) {
  // The target has its own.
  for (const StoreKey& own :
       {FormatVersionKey(), StoreIdKey(), ShardCountKey(), WitnessFileKey(), UpgradeKey()}) {
    if (key == own.bytes()) return absl::OkStatus();
  }
  if (key == LogPlaceKey().bytes()) {
    // The new directory is that of a single server. Its epochs go on after those of the cell.
    if (const auto place = DecodeLogPlace(value)) epoch_ = std::max(epoch_, place->epoch);
    return absl::OkStatus();
  }
  if (key == EpochKey().bytes()) {
    epoch_ = std::max(epoch_, DecodeNumber(value).value_or(0));
    return absl::OkStatus();
  }
  if (const auto shard = ShardOfMark("claim/", key); shard.has_value()) {
    const std::optional<ClaimValue> claim = DecodeClaim(value);
    if (!claim.has_value()) return Undecodable(ColumnFamily::kMeta, key);
    claims_[*shard] = claim->first;
    return absl::OkStatus();
  }
  if (ShardOfMark("safe/", key).has_value()) {
    low_watermarks_[std::string(key)] = std::string(value);
    return absl::OkStatus();
  }
  if (const std::optional<TopicId> topic = DecodeTopicKey(key); topic.has_value()) {
    names_.Add(*topic, value);
  }
  constexpr size_t kSubscriptionAt = kBacklogClaimMark.size() + kKeyShardBytes;
  if (key.size() == kSubscriptionAt + sizeof(uint32_t) &&
      absl::StartsWith(key, kBacklogClaimMark)) {
    NoteSubscription(SubscriptionId{LoadBigEndian<uint32_t>(key.data() + kSubscriptionAt)});
  }
  return Put(ColumnFamily::kMeta, key, value);
}

absl::Status RepairCopy::CopyObjects() {
  return ForEach(ColumnFamily::kObjects, [this](absl::string_view key, absl::string_view value) {
    return TakeObject(key, value);
  });
}

absl::Status RepairCopy::TakeObject(absl::string_view key, absl::string_view value) {
  const std::optional<absl::string_view> name = DecodeObjectKey(key);
  if (!name.has_value()) return Undecodable(ColumnFamily::kObjects, key);
  // A key begins with its kind and shard.
  const auto kind = static_cast<ObjectKind>(key[0]);
  if (kind == ObjectKind::kTopicSettings) names_.Reserve(*name);
  if (kind == ObjectKind::kCatalog && *name == kRepairNoteName) {
    // Of an earlier repair, without a start since.
    const auto noted = static_cast<uint32_t>(DecodeNumber(value).value_or(0));
    greatest_subscription_ = std::max(greatest_subscription_, noted);
  }
  const uint16_t shard = LoadBigEndian<uint16_t>(key.data() + 1);
  if (kind == ObjectKind::kSubscriptionStart) {
    const auto subscription = SubscriptionOfName(*name);
    const auto start = DecodeSubscriptionStart(value);
    if (!subscription.has_value() || !start.has_value()) {
      return Undecodable(ColumnFamily::kObjects, key);
    }
    static_cast<void>(starts_.Add(shard, *subscription, *start));
  }
  if (topics_of_ != nullptr) {
    for (const TopicId topic : topics_of_(kind, shard, *name, value)) names_.Note(topic);
  }
  return Put(ColumnFamily::kObjects, key, value);
}

void RepairCopy::NoteSubscription(SubscriptionId subscription) {
  const auto number = static_cast<uint32_t>(subscription);
  if (number < kSecondSubscription) {
    names_.Note(TopicId{number});
  } else {
    greatest_subscription_ = std::max(greatest_subscription_, number);
  }
}

absl::Status RepairCopy::NameTopics() {
  for (const RepairNames::Change& change : names_.Complete()) {
    if (change.loss) {
      report_.Lost(change.text);
    } else {
      report_.Say(change.text);
    }
    absl::Status status = Put(ColumnFamily::kMeta, TopicKey(change.topic).bytes(), change.name);
    if (!status.ok()) return status;
  }
  return Flush();
}

absl::Status RepairCopy::CopyMessages() {
  return ForEach(ColumnFamily::kMessages, [this](absl::string_view key, absl::string_view value) {
    return TakeMessage(key, value);
  });
}

absl::Status RepairCopy::TakeMessage(absl::string_view key, absl::string_view value) {
  const std::optional<uint16_t> shard = DecodeShard(key);
  const std::optional<MessageKey> place = DecodeMessageKey(key);
  if (!place.has_value() || !DecodeMessageRecord(value, &record_).ok()) {
    return Undecodable(ColumnFamily::kMessages, key);
  }
  const absl::StatusOr<bool> current = IsCurrent(*shard, *place);
  if (!current.ok()) return current.status();
  if (!*current) return absl::OkStatus();
  NoteEpoch(place->id);
  names_.NoteMessage(place->id, record_);
  if (record_.dead_letter.has_value()) names_.Note(record_.dead_letter->origin_topic);
  ++messages_;
  const CountDelta one{.messages = 1, .bytes = static_cast<int64_t>(value.size())};
  counts_.Add(*shard, record_.header.topic, place->due_ms, one);
  starts_.ForEachAfter(*shard, record_.header.topic, place->id, [&](SubscriptionId subscription) {
    counts_.AddDone(*shard, subscription, place->due_ms, one);
  });
  return Put(ColumnFamily::kMessages, key, value);
}

absl::StatusOr<bool> RepairCopy::IsCurrent(uint16_t shard, const MessageKey& key) {
  const auto locator = FindTrace(source_.records(), shard, key.id, OnDamage::kGoAround);
  if (!locator.ok()) return locator.status();
  if (locator->has_value() && (*locator)->tombstone.has_value()) {
    ++ended_;
    return false;
  }
  const uint64_t other_ms = locator->has_value() ? (*locator)->due_ms : key.id.due_ms();
  if (other_ms == key.due_ms) return true;
  // The message was moved, here or away from here. Without a locator, the place of its id counts.
  const auto other = source_.Get(EncodeMessageKey(shard, {.due_ms = other_ms, .id = key.id}));
  if (!other.ok()) return other.status();
  if (other->has_value()) {
    ++moved_;
    return false;
  }
  if (key.due_ms == key.id.due_ms()) return true;
  const std::string here = EncodeLocator({.due_ms = key.due_ms, .tombstone = std::nullopt});
  const StoreKey locator_key = EncodeLocatorKey(shard, key.id);
  if (absl::Status status = Put(ColumnFamily::kLocators, locator_key.bytes(), here); !status.ok()) {
    return status;
  }
  return true;
}

absl::Status RepairCopy::CopyLocators() {
  return ForEach(ColumnFamily::kLocators, [this](absl::string_view key, absl::string_view value) {
    const std::optional<MessageId> id = DecodeLocatorKey(key);
    if (!id.has_value()) return Undecodable(ColumnFamily::kLocators, key);
    const auto locator = ReadTraceRow(*id, value, *id);
    if (!locator.ok()) return Undecodable(ColumnFamily::kLocators, key);
    NoteEpoch(*id);
    if ((*locator)->tombstone.has_value()) {
      names_.Note((*locator)->tombstone->topic);
    } else {
      const uint16_t shard = *DecodeShard(key);
      const MessageKey place{.due_ms = (*locator)->due_ms, .id = *id};
      const auto kept = TargetHas(EncodeMessageKey(shard, place));
      if (!kept.ok()) return kept.status();
      if (!*kept) {
        ++dropped_;
        return LostMessage(shard, place, "its locator");
      }
    }
    return Put(ColumnFamily::kLocators, key, value);
  });
}

absl::Status RepairCopy::CopyBacklog() {
  return ForEach(ColumnFamily::kBacklog, [this](absl::string_view key, absl::string_view value) {
    return TakeBacklogEntry(key, value);
  });
}

absl::Status RepairCopy::TakeBacklogEntry(absl::string_view key, absl::string_view value) {
  const std::optional<BacklogPlace> place = DecodeBacklogKey(key);
  const std::optional<BacklogEntry> entry = DecodeBacklogEntry(value);
  if (!place.has_value() || !entry.has_value()) return Undecodable(ColumnFamily::kBacklog, key);
  const MessageKey message = {.due_ms = entry->due_ms != 0 ? entry->due_ms : place->key.due_ms,
                              .id = place->key.id};
  const StoreKey message_key = EncodeMessageKey(*DecodeShard(key), message);
  const auto kept = TargetHas(message_key);
  if (!kept.ok()) return kept.status();
  if (*kept) {
    NoteSubscription(place->subscription);
    return Put(ColumnFamily::kBacklog, key, value);
  }
  // A listing without a message is not always a loss: the message may have been moved since.
  ++dropped_;
  if (!source_.InDamage(message_key)) return absl::OkStatus();
  return LostMessage(*DecodeShard(key), message, "a backlog");
}

absl::Status RepairCopy::CopyProgress() {
  return ForEach(ColumnFamily::kProgress, [this](absl::string_view key, absl::string_view value) {
    return TakeProgress(key, value);
  });
}

absl::Status RepairCopy::TakeProgress(absl::string_view key, absl::string_view value) {
  const std::optional<SubscriptionId> subscription = DecodeProgressKey(key);
  std::optional<Progress> progress = DecodeProgress(value);
  if (!subscription.has_value() || !progress.has_value()) {
    return Undecodable(ColumnFamily::kProgress, key);
  }
  // The key begins with the key of the message.
  const absl::string_view message_key = key.substr(0, kMessageKeyBytes);
  const uint16_t shard = *DecodeShard(key);
  const std::optional<MessageKey> message = DecodeMessageKey(message_key);
  if (!message.has_value()) return Undecodable(ColumnFamily::kProgress, key);
  if (message_key != progress_of_) {
    const auto kept = TargetHas(ColumnFamily::kMessages, message_key);
    if (!kept.ok()) return kept.status();
    progress_of_ = std::string(message_key);
    progress_kept_ = *kept;
    if (!*kept && source_.InDamage(EncodeMessageKey(shard, *message))) {
      absl::Status status = LostMessage(shard, *message, "a subscription's progress");
      if (!status.ok()) return status;
    }
  }
  if (!progress_kept_) {
    ++dropped_;
    return absl::OkStatus();
  }
  NoteSubscription(*subscription);
  if (progress->state == Progress::State::kSettled) {
    counts_.AddDone(shard, *subscription, message->due_ms, {.messages = 1});
  }
  if (!progress->listed) return Put(ColumnFamily::kProgress, key, value);
  // Without its listing, no reader of the backlog would bring the message back.
  const auto listing = source_.Get(
      EncodeBacklogKey(shard, *subscription, {.due_ms = progress->retry_ms, .id = message->id}));
  if (!listing.ok()) return listing.status();
  progress->listed = listing->has_value();
  return Put(ColumnFamily::kProgress, key, EncodeProgress(*progress));
}

absl::Status RepairCopy::CopyIndex() {
  return ForEach(ColumnFamily::kIndex, [this](absl::string_view key, absl::string_view value) {
    return TakeIndexEntry(key, value);
  });
}

absl::Status RepairCopy::TakeIndexEntry(absl::string_view key, absl::string_view value) {
  const auto entry = DecodeIndexEntry(value);
  if (!DecodeIndexKey(key).has_value() || !entry.ok()) {
    return Undecodable(ColumnFamily::kIndex, key);
  }
  NoteEpoch(entry->id);
  const uint16_t shard = *DecodeShard(key);
  names_.Note(TopicId{LoadBigEndian<uint32_t>(key.data() + kKeyShardBytes)});
  const bool request = KindOfIndexKey(key) == static_cast<char>(IndexKind::kRequest);
  // The entry of a key expires after the message has ended.
  const bool pending = !request && entry->expire_ms == 0;
  if (!pending && !request) return Put(ColumnFamily::kIndex, key, value);
  const auto found = FindMessage(shard, entry->id);
  if (!found.ok()) return found.status();
  if (found->has_value()) return Put(ColumnFamily::kIndex, key, value);
  if (pending) {
    ++dropped_;
    return LostMessage(shard, {.due_ms = entry->id.due_ms(), .id = entry->id},
                       KeyText(ColumnFamily::kIndex, key));
  }
  // The request was answered. If its message may be lost, the client may ask once more.
  const auto trace = FindTrace(target_.source(), shard, entry->id, OnDamage::kGoAround);
  if (!trace.ok()) return trace.status();
  const StoreKey home = EncodeMessageKey(shard, {.due_ms = entry->id.due_ms(), .id = entry->id});
  if (trace->has_value() || (source_.sound() && !source_.InDamage(home))) {
    return Put(ColumnFamily::kIndex, key, value);
  }
  ++dropped_;
  return absl::OkStatus();
}

// A message whose key has no entry would not be found by its key, and the key could be given to a
// second message.
absl::Status RepairCopy::IndexKeys() {
  if (report_.lossless()) return absl::OkStatus();
  const auto range =
      target_.source()->NewReader(ColumnFamily::kMessages, "", kLastKey, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    if (!DecodeMessageRecord(range->value(), &record_).ok() || record_.key.empty()) continue;
    const std::optional<uint16_t> shard = DecodeShard(range->key());
    const std::optional<MessageKey> place = DecodeMessageKey(range->key());
    if (!shard.has_value() || !place.has_value()) continue;
    const NameKey key = NameKey::OfIndex(*shard, record_.header.topic,
                                         static_cast<uint8_t>(IndexKind::kUserKey), record_.key);
    const auto listed = target_.source()->Get(key.family(), key.bytes());
    if (!listed.ok()) return listed.status();
    if (listed->has_value()) {
      const auto known = DecodeIndexEntry(**listed);
      // The entry of a message that has ended is older than this message, whose entry is lost.
      if (known.ok() && known->expire_ms == 0) continue;
    }
    ++indexed_;
    IndexEntry entry;
    entry.id = place->id;
    if (absl::Status status = Put(ColumnFamily::kIndex, key.bytes(), EncodeIndexEntry(entry));
        !status.ok()) {
      return status;
    }
  }
  if (!range->status().ok()) return range->status();
  return Flush();
}

// ---- Reporting

void RepairCopy::ReportBlocks() {
  const DamageReport damage = source_.records()->damage().report();
  for (const DamagedBlock& block : damage.blocks) {
    const std::string text = absl::StrCat("table ", block.file, ": the block at byte ",
                                          block.offset, " is damaged: ", block.family, ", from ",
                                          block.first_text, " to ", block.last_text);
    report_.Lost(text);
  }
  if (damage.unlisted > 0) {
    report_.Lost(absl::StrCat(damage.unlisted, " reads met further damaged blocks"));
  }
}

// The counters of the source still count the messages that are lost.
absl::Status RepairCopy::CompareCounts() {
  const size_t blocks = source_.records()->damage().report().blocks.size();
  const absl::Status status =
      ForEach(ColumnFamily::kCounts, [this](absl::string_view key, absl::string_view value) {
        const std::optional<CountPlace> place = DecodeCountKey(key);
        if (!place.has_value()) return Undecodable(ColumnFamily::kCounts, key);
        if (place->row == CountRow::kDone) return absl::OkStatus();
        return Compare(*place, value);
      });
  // The target's counters are right in any case.
  if (source_.records()->damage().report().blocks.size() > blocks) {
    report_.Say("counters are damaged and counted anew; more messages may be lost than they tell");
  }
  return status;
}

absl::Status RepairCopy::Compare(const CountPlace& place, absl::string_view expected) {
  const StoreKey key = EncodeCountKey(place.shard, place.topic, place.row, place.start_ms);
  const auto counter = target_.source()->Get(key.family(), key.bytes());
  if (!counter.ok()) return counter.status();
  const std::string found = counter->value_or("");
  if (place.row == CountRow::kDay) {
    CompareDay(place, expected, found);
    return absl::OkStatus();
  }
  const int64_t before = DecodeCountDelta(expected).value_or(CountDelta{}).messages;
  const int64_t now = DecodeCountDelta(found).value_or(CountDelta{}).messages;
  const std::string where = absl::StrCat(names_.TextOf(place.topic), ", shard ", place.shard);
  if (before > now) {
    report_.Lost(absl::StrCat(where, ": ", before - now, " of ", before, " messages are lost"));
  } else if (before < now) {
    report_.Say(absl::StrCat(where, ": ", now - before,
                             " messages more than its counter tells, which may have ended"));
  }
  return absl::OkStatus();
}

void RepairCopy::CompareDay(const CountPlace& place, absl::string_view expected,
                            absl::string_view found) {
  std::map<size_t, int64_t> minutes;
  for (DayDecoder day(expected); day.Next();) minutes[day.minute()] += day.delta().messages;
  for (DayDecoder day(found); day.Next();) minutes[day.minute()] -= day.delta().messages;
  int64_t lost = 0;
  std::optional<size_t> first;
  size_t last = 0;
  for (const auto& [minute, messages] : minutes) {
    if (messages <= 0) continue;
    lost += messages;
    if (!first.has_value()) first = minute;
    last = minute;
  }
  if (!first.has_value()) return;
  report_.Lost(absl::StrCat("  ", names_.TextOf(place.topic), ": ", lost, " lost, due from ",
                            TimeText(place.start_ms + *first * kMinuteMs), " to ",
                            TimeText(place.start_ms + (last + 1) * kMinuteMs - 1)));
}

absl::Status RepairCopy::LostMessage(uint16_t shard, const MessageKey& place,
                                     absl::string_view where) {
  // A message that was moved back to its first time keeps its locator, which names an older place.
  const auto elsewhere = FindMessage(shard, place.id);
  if (!elsewhere.ok()) return elsewhere.status();
  if (elsewhere->has_value()) return absl::OkStatus();
  if (lost_.size() >= kLostMessagesMax || !lost_.insert(place.id).second) return absl::OkStatus();
  report_.Lost(absl::StrCat("message ", place.id.ToString(), " due ", TimeText(place.due_ms),
                            " is lost; ", where, " names it"));
  return absl::OkStatus();
}

// ---- The target

absl::StatusOr<bool> RepairCopy::TargetHas(ColumnFamily family, absl::string_view key) const {
  const auto value = target_.source()->Get(family, key);
  if (!value.ok()) return value.status();
  return value->has_value();
}

absl::StatusOr<std::optional<MessageKey>> RepairCopy::FindMessage(uint16_t shard,
                                                                  const MessageId& id) const {
  MessageKey key = {.due_ms = id.due_ms(), .id = id};
  absl::StatusOr<bool> found = TargetHas(EncodeMessageKey(shard, key));
  if (!found.ok()) return found.status();
  if (*found) return std::optional<MessageKey>(key);
  const StoreKey locator_key = EncodeLocatorKey(shard, id);
  const auto row = target_.source()->Get(locator_key.family(), locator_key.bytes());
  if (!row.ok()) return row.status();
  if (!row->has_value()) return std::optional<MessageKey>();
  const auto locator = ReadTraceRow(id, **row, id);
  if (!locator.ok() || (*locator)->tombstone.has_value()) return std::optional<MessageKey>();
  key.due_ms = (*locator)->due_ms;
  found = TargetHas(EncodeMessageKey(shard, key));
  if (!found.ok()) return found.status();
  return *found ? std::optional<MessageKey>(key) : std::nullopt;
}

absl::Status RepairCopy::Finish() {
  if (absl::Status status = Flush(); !status.ok()) return status;
  if (source_.witness().has_value()) epoch_ = std::max(epoch_, source_.witness()->epoch);
  return target_.Write([this](KvBatch* batch) { AddLastRecords(batch); }, Durability::kSynced);
}

void RepairCopy::AddLastRecords(KvBatch* batch) {
  const auto put = [batch](const StoreKey& key, const std::string& value) {
    batch->Put(key.family(), key.bytes(), value);
  };
  put(EpochKey(), EncodeNumber(std::max<uint64_t>(epoch_, 1)));
  // No file has this identity, so the first start takes the directory for a copy.
  put(WitnessFileKey(), std::string(2 * sizeof(uint64_t), '\0'));
  for (uint16_t shard = 0; shard < target_.shard_count(); ++shard) {
    put(ClaimKey(shard), EncodeNumber(std::max(claims_[shard], now_ms_)));
  }
  if (report_.lossless()) {
    for (const auto& [key, value] : low_watermarks_) {
      batch->Put(ColumnFamily::kMeta, key, value);
    }
  } else {
    const NameKey note = NameKey::OfObject(static_cast<uint8_t>(ObjectKind::kCatalog),
                                           kRepairNotePartition, kRepairNoteName);
    batch->Put(note.family(), note.bytes(), EncodeNumber(greatest_subscription_));
  }
}

}  // namespace duetime::storage
