// SPDX-License-Identifier: Apache-2.0
#include "storage/memory_store.h"

#include <limits>
#include <tuple>

#include "absl/strings/match.h"

#include "server/base/check.h"
#include "storage/message_record.h"

namespace duetime::storage {
namespace {

constexpr MessageKey kLastPlace{
    std::numeric_limits<uint64_t>::max(),
    MessageId{std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max()}};

absl::Status CountBelowZero() {
  return absl::DataLossError("the store holds a counter below zero");
}

}  // namespace

void MemoryDisk::Image::Apply(const Record& record) {
  Count(record);
  Mend(record);
  switch (record.type) {
    case RecordType::kAccept:
      messages.insert_or_assign({record.shard, record.key}, record.value);
      break;
    case RecordType::kErase:
      messages.erase({record.shard, record.key});
      break;
    case RecordType::kClaim:
      marks[record.shard].claim_ms = record.mark_ms;
      marks[record.shard].claim_return = record.claim_return;
      break;
    case RecordType::kLowWatermark:
      marks[record.shard].low_watermark_ms = record.mark_ms;
      break;
    case RecordType::kSpill:
      backlog.insert_or_assign({record.shard, record.subscription, record.key}, record.backlog);
      break;
    case RecordType::kUnspill:
      backlog.erase({record.shard, record.subscription, record.key});
      break;
    case RecordType::kBacklogClaim:
      backlog_claims.insert_or_assign({record.shard, record.subscription}, record.key);
      break;
    case RecordType::kTopic:
      topics.insert_or_assign(record.topic, record.value);
      break;
    case RecordType::kIndex:
      index.insert_or_assign({record.shard, record.topic, record.kind, record.name}, record.value);
      break;
    case RecordType::kLocator:
      locators.insert_or_assign({record.shard, record.key.id}, record.value);
      break;
    case RecordType::kObject:
      objects.insert_or_assign({record.kind, record.shard, record.name}, record.value);
      break;
    case RecordType::kUnobject:
      objects.erase({record.kind, record.shard, record.name});
      break;
    case RecordType::kProgress:
      progress.insert_or_assign({record.shard, record.key, record.subscription}, record.progress);
      break;
    case RecordType::kUnprogress:
      progress.erase({record.shard, record.key, record.subscription});
      break;
  }
}

void MemoryDisk::Image::Mend(const Record& record) {
  if (record.type == RecordType::kSpill || record.type == RecordType::kUnspill) {
    damaged_backlog.erase({record.shard, record.subscription, record.key});
    hidden_backlog.erase({record.shard, record.subscription, record.key});
  } else if (record.type == RecordType::kProgress || record.type == RecordType::kUnprogress) {
    damaged_progress.erase({record.shard, record.key, record.subscription});
  }
}

bool MemoryDisk::Image::ProgressDamaged(uint16_t shard, const MessageKey& key) const {
  const auto it = damaged_progress.lower_bound({shard, key, SubscriptionId{}});
  return it != damaged_progress.end() && std::get<uint16_t>(*it) == shard &&
         std::get<MessageKey>(*it) == key;
}

void MemoryDisk::Image::Count(const Record& record) {
  const CountDelta delta = CountOf(record);
  if (delta.messages == 0) return;
  for (const CountLevel level : kCountLevels) {
    const CountPlace place{record.shard, record.topic, level,
                           BucketStart(level, record.key.due_ms)};
    CountDelta& sum = counts[place];
    sum.messages += delta.messages;
    sum.bytes += delta.bytes;
    if (sum == CountDelta{}) counts.erase(place);
  }
}

void MemoryDisk::Image::DropExpired(uint64_t until_ms) {
  const auto expired = [until_ms](const auto& entry) {
    const std::optional<uint64_t> expire_ms = ExpireTimeOf(entry.second);
    return expire_ms.has_value() && *expire_ms != 0 && *expire_ms <= until_ms;
  };
  std::erase_if(index, expired);
  std::erase_if(locators, expired);
}

void MemoryDisk::Image::Apply(const std::vector<RecordBatch>& group) {
  for (const RecordBatch& batch : group) {
    for (const Record& record : batch) Apply(record);
  }
}

void MemoryDisk::SyncLocked() {
  for (const std::vector<RecordBatch>& group : unsynced_) durable_.Apply(group);
  unsynced_.clear();
}

uint64_t MemoryDisk::Open() {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  // An append of unknown outcome was invisible to readers but is found now.
  visible_ = durable_;
  return ++epoch_;
}

void MemoryDisk::PowerCut(size_t kept) {
  const base::MutexLock lock(&mutex_);
  if (kept < unsynced_.size()) unsynced_.resize(kept);
  SyncLocked();
  visible_ = durable_;
  // No store gets this epoch. It only fences the open store.
  ++epoch_;
}

std::unique_ptr<MemoryDisk> MemoryDisk::Checkpoint() const {
  auto copy = std::make_unique<MemoryDisk>(shard_count_);
  const base::MutexLock lock(&mutex_);
  const base::MutexLock lock_copy(&copy->mutex_);
  copy->visible_ = copy->durable_ = visible_;
  return copy;
}

void MemoryDisk::Damage(uint16_t shard, const MessageKey& key) {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  DT_CHECK(visible_.messages.contains({shard, key}));
  visible_.messages[{shard, key}].clear();
  durable_.messages[{shard, key}].clear();
}

void MemoryDisk::DamageIndex(uint16_t shard, TopicId topic, IndexKind kind,
                             absl::string_view name) {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  const IndexPlace place{shard, topic, static_cast<uint8_t>(kind), std::string(name)};
  DT_CHECK(visible_.index.contains(place));
  visible_.index[place].clear();
  durable_.index[place].clear();
}

void MemoryDisk::DamageBacklog(uint16_t shard, SubscriptionId subscription,
                               const MessageKey& place) {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  ++damaged_backlog_;
  for (Image* const image : {&visible_, &durable_}) {
    image->backlog.erase({shard, subscription, place});
    image->damaged_backlog.insert({shard, subscription, place});
  }
}

void MemoryDisk::HideBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& place) {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  ++damaged_backlog_;
  backlog_hidden_ = true;
  for (Image* const image : {&visible_, &durable_}) {
    image->hidden_backlog.insert({shard, subscription, place});
  }
}

void MemoryDisk::DamageProgress(uint16_t shard, const MessageKey& key,
                                SubscriptionId subscription) {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  for (Image* const image : {&visible_, &durable_}) {
    image->progress.erase({shard, key, subscription});
    image->damaged_progress.insert({shard, key, subscription});
  }
}

void MemoryDisk::DamageCounts(uint16_t shard, TopicId topic) {
  const base::MutexLock lock(&mutex_);
  for (Image* const image : {&visible_, &durable_}) image->damaged_counts.emplace(shard, topic);
}

void MemoryDisk::Repair(uint16_t shard, const MessageKey& key, std::string record) {
  const base::MutexLock lock(&mutex_);
  SyncLocked();
  const auto it = visible_.messages.find({shard, key});
  if (it == visible_.messages.end() || !it->second.empty()) return;
  it->second = record;
  durable_.messages[{shard, key}] = std::move(record);
}

uint64_t MemoryDisk::damaged_backlog() const {
  const base::MutexLock lock(&mutex_);
  return damaged_backlog_;
}

bool MemoryDisk::backlog_hidden() const {
  const base::MutexLock lock(&mutex_);
  return backlog_hidden_;
}

size_t MemoryDisk::unsynced_appends() const {
  const base::MutexLock lock(&mutex_);
  return unsynced_.size();
}

void MemoryStore::FailNextAppend(Fault fault) {
  const base::MutexLock lock(&disk_->mutex_);
  next_fault_ = fault;
}

void MemoryStore::FailReads(absl::Status status) {
  const base::MutexLock lock(&disk_->mutex_);
  read_status_ = std::move(status);
}

uint64_t MemoryStore::accepted_appends() const {
  const base::MutexLock lock(&disk_->mutex_);
  return accepted_appends_;
}

AppendOutcome MemoryStore::Append(std::span<const RecordBatch> group, Durability durability) {
  const base::MutexLock lock(&disk_->mutex_);
  if (fenced_ || disk_->epoch_ != epoch_) return AppendOutcome::kFenced;
  if (next_fault_.has_value()) {
    fenced_ = true;
    if (*next_fault_ == Fault::kFenced) return AppendOutcome::kFenced;
    if (*next_fault_ == Fault::kUnknownApplied) {
      disk_->unsynced_.emplace_back(group.begin(), group.end());
    }
    return AppendOutcome::kUnknown;
  }

  disk_->unsynced_.emplace_back(group.begin(), group.end());
  disk_->visible_.Apply(disk_->unsynced_.back());
  if (durability == Durability::kSynced) disk_->SyncLocked();
  ++accepted_appends_;
  return AppendOutcome::kAccepted;
}

absl::Status MemoryStore::Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                               const ScanLimit& limit, Page<MessageRef>* page) {
  const base::MutexLock lock(&disk_->mutex_);
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  if (!read_status_.ok()) return read_status_;
  size_t bytes = 0;
  for (auto it = disk_->visible_.messages.lower_bound({shard, from});
       it != disk_->visible_.messages.end() && it->first < std::pair(shard, until); ++it) {
    const MessageKey& key = it->first.second;
    if (it->second.empty()) {
      page->damaged = true;
      continue;
    }
    if (!page->items.empty() && (page->items.size() >= limit.entries || bytes >= limit.bytes)) {
      page->next = key;
      break;
    }
    MessageHeader header;
    if (absl::Status status = DecodeMessageHeader(it->second, &header); !status.ok()) {
      return status;
    }
    page->items.push_back(
        {key, header.topic, static_cast<uint32_t>(it->second.size()), header.flags});
    bytes += it->second.size();
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                                   std::vector<std::optional<std::string>>* values) {
  const base::MutexLock lock(&disk_->mutex_);
  values->clear();
  if (!read_status_.ok()) return read_status_;
  for (const MessageKey& key : keys) {
    const auto it = disk_->visible_.messages.find({shard, key});
    if (it == disk_->visible_.messages.end()) {
      values->emplace_back();
    } else {
      values->emplace_back(it->second);
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::ScanBacklog(uint16_t shard, SubscriptionId subscription,
                                      const MessageKey& from, const ScanLimit& limit,
                                      Page<BacklogRef>* page) {
  const base::MutexLock lock(&disk_->mutex_);
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  if (!read_status_.ok()) return read_status_;
  bool hidden = false;
  for (auto it = disk_->visible_.backlog.lower_bound({shard, subscription, from});
       it != disk_->visible_.backlog.end() &&
       it->first <= std::tuple(shard, subscription, kLastPlace);
       ++it) {
    const MessageKey& key = std::get<MessageKey>(it->first);
    if (!page->items.empty() && page->items.size() >= limit.entries) {
      page->next = key;
      break;
    }
    if (disk_->visible_.hidden_backlog.contains(it->first)) {
      hidden = true;
    } else {
      page->items.push_back({key, it->second});
    }
  }
  const auto& damaged = disk_->visible_.damaged_backlog;
  const auto first = damaged.lower_bound({shard, subscription, from});
  page->damaged =
      hidden || (first != damaged.end() &&
                 *first < std::tuple(shard, subscription, page->next.value_or(kLastPlace)));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BacklogEntry>> MemoryStore::GetBacklog(uint16_t shard,
                                                                    SubscriptionId subscription,
                                                                    const MessageKey& key) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  if (disk_->visible_.damaged_backlog.contains({shard, subscription, key})) return DamageError({});
  const auto it = disk_->visible_.backlog.find({shard, subscription, key});
  if (it == disk_->visible_.backlog.end()) return std::optional<BacklogEntry>();
  return std::optional<BacklogEntry>(it->second);
}

absl::StatusOr<BacklogOwners> MemoryStore::BacklogSubscriptions(uint16_t shard) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  const auto& backlog = disk_->visible_.backlog;
  BacklogOwners owners;
  const auto& damaged = disk_->visible_.damaged_backlog;
  const auto first = damaged.lower_bound({shard, SubscriptionId{}, MessageKey{}});
  owners.damaged = first != damaged.end() && std::get<uint16_t>(*first) == shard;
  auto it = backlog.lower_bound({shard, SubscriptionId{}, MessageKey{}});
  while (it != backlog.end() && std::get<uint16_t>(it->first) == shard) {
    owners.subscriptions.push_back(std::get<SubscriptionId>(it->first));
    it = backlog.upper_bound({shard, owners.subscriptions.back(), kLastPlace});
  }
  return owners;
}

absl::StatusOr<std::optional<MessageKey>> MemoryStore::BacklogClaim(uint16_t shard,
                                                                    SubscriptionId subscription) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  const auto it = disk_->visible_.backlog_claims.find({shard, subscription});
  if (it == disk_->visible_.backlog_claims.end()) return std::optional<MessageKey>();
  return std::optional<MessageKey>(it->second);
}

absl::StatusOr<std::vector<ProgressRef>> MemoryStore::GetProgress(uint16_t shard,
                                                                  const MessageKey& key) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  if (disk_->visible_.ProgressDamaged(shard, key)) return DamageError({});
  const auto& progress = disk_->visible_.progress;
  std::vector<ProgressRef> found;
  for (auto it = progress.lower_bound({shard, key, SubscriptionId{}}); it != progress.end(); ++it) {
    const auto& [at_shard, at_key, subscription] = it->first;
    if (at_shard != shard || at_key != key) break;
    found.emplace_back(subscription, it->second);
  }
  return found;
}

absl::Status MemoryStore::ScanHeads(uint16_t shard, TopicId topic, const KeyRange& keys,
                                    const ScanLimit& limit, size_t scan_max,
                                    Page<MessageHeadRef>* page) {
  const base::MutexLock lock(&disk_->mutex_);
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  if (!read_status_.ok()) return read_status_;
  size_t bytes = 0;
  size_t examined = 0;
  for (auto it = disk_->visible_.messages.lower_bound({shard, keys.from});
       it != disk_->visible_.messages.end() && it->first < std::pair(shard, keys.until); ++it) {
    const MessageKey& key = it->first.second;
    if (it->second.empty()) {
      page->damaged = true;
      continue;
    }
    const bool full =
        !page->items.empty() && (page->items.size() >= limit.entries || bytes >= limit.bytes);
    if (full || (examined != 0 && examined >= scan_max)) {
      page->next = key;
      break;
    }
    ++examined;
    MessageHeader header;
    absl::string_view head;
    absl::Status status = DecodeMessageHeader(it->second, &header);
    status.Update(MessageHead(it->second, &head));
    if (!status.ok()) return status;
    if (header.topic != topic) continue;
    page->items.push_back({key, static_cast<uint32_t>(it->second.size()), std::string(head)});
    bytes += head.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<IndexEntry>> MemoryStore::GetIndex(uint16_t shard, TopicId topic,
                                                                IndexKind kind,
                                                                absl::string_view name) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  const auto it =
      disk_->visible_.index.find({shard, topic, static_cast<uint8_t>(kind), std::string(name)});
  if (it == disk_->visible_.index.end()) return std::optional<IndexEntry>();
  if (it->second.empty()) return DamageError({});
  return DecodeIndexEntry(it->second);
}

absl::Status MemoryStore::ScanIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                    const NameRange& names, size_t limit,
                                    std::vector<IndexRef>* entries) {
  const base::MutexLock lock(&disk_->mutex_);
  entries->clear();
  if (!read_status_.ok()) return read_status_;
  const auto& index = disk_->visible_.index;
  const auto kind_number = static_cast<uint8_t>(kind);
  auto it = names.after < names.prefix
                ? index.lower_bound({shard, topic, kind_number, std::string(names.prefix)})
                : index.upper_bound({shard, topic, kind_number, std::string(names.after)});
  for (; it != index.end() && entries->size() < limit; ++it) {
    const auto& [at_shard, at_topic, at_kind, name] = it->first;
    if (std::tie(at_shard, at_topic, at_kind) != std::tie(shard, topic, kind_number)) break;
    if (!absl::StartsWith(name, names.prefix)) break;
    if (it->second.empty()) continue;  // damaged
    const absl::StatusOr<IndexEntry> entry = DecodeIndexEntry(it->second);
    if (!entry.ok()) return entry.status();
    entries->push_back({name, *entry});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Locator>> MemoryStore::GetLocator(uint16_t shard,
                                                               const MessageId& id) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  const auto& rows = disk_->visible_.locators;
  if (const auto own = rows.find({shard, id}); own != rows.end()) {
    return ReadTraceRow(id, own->second, id);
  }
  const auto [begin, end] = TraceNeighbours(id);
  const auto last = rows.lower_bound({shard, end});
  for (auto it = rows.lower_bound({shard, begin}); it != last; ++it) {
    auto found = ReadTraceRow(it->first.second, it->second, id);
    if (!found.ok() || found->has_value()) return found;
  }
  return std::optional<Locator>();
}

absl::Status MemoryStore::ReadCounts(uint16_t shard, TopicId topic, CountLevel level,
                                     const MsRange& times, size_t limit,
                                     std::vector<BucketCount>* counts) {
  {
    const base::MutexLock lock(&disk_->mutex_);
    if (disk_->visible_.damaged_counts.contains({shard, topic})) return DamageError({});
  }
  return ScanCounts(shard, topic, level, times, limit, counts);
}

absl::Status MemoryStore::ScanCounts(uint16_t shard, TopicId topic, CountLevel level,
                                     const MsRange& times, size_t limit,
                                     std::vector<BucketCount>* counts) {
  const base::MutexLock lock(&disk_->mutex_);
  counts->clear();
  if (!read_status_.ok()) return read_status_;
  const MemoryDisk::CountPlace until{shard, topic, level, times.until_ms};
  for (auto it = disk_->visible_.counts.lower_bound({shard, topic, level, times.from_ms});
       it != disk_->visible_.counts.end() && it->first < until && counts->size() < limit; ++it) {
    if (it->second.messages < 0 || it->second.bytes < 0) return CountBelowZero();
    counts->push_back({std::get<uint64_t>(it->first), static_cast<uint64_t>(it->second.messages),
                       static_cast<uint64_t>(it->second.bytes)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> MemoryStore::GetObject(ObjectKind kind, uint16_t shard,
                                                                  absl::string_view name) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  const auto it =
      disk_->visible_.objects.find({static_cast<uint8_t>(kind), shard, std::string(name)});
  if (it == disk_->visible_.objects.end()) return std::optional<std::string>();
  return std::optional<std::string>(it->second);
}

absl::Status MemoryStore::ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after,
                                      size_t limit, std::vector<ObjectRef>* objects) {
  const base::MutexLock lock(&disk_->mutex_);
  objects->clear();
  if (!read_status_.ok()) return read_status_;
  const auto kind_number = static_cast<uint8_t>(kind);
  auto it = disk_->visible_.objects.upper_bound({kind_number, shard, std::string(after)});
  for (; it != disk_->visible_.objects.end() && objects->size() < limit; ++it) {
    const auto& [at_kind, at_shard, name] = it->first;
    if (std::tie(at_kind, at_shard) != std::tie(kind_number, shard)) break;
    objects->push_back({name, it->second});
  }
  return absl::OkStatus();
}

void MemoryStore::DropExpired(uint64_t until_ms) {
  const base::MutexLock lock(&disk_->mutex_);
  disk_->visible_.DropExpired(until_ms);
  disk_->durable_.DropExpired(until_ms);
}

absl::StatusOr<ShardMarks> MemoryStore::Marks(uint16_t shard) {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  const auto it = disk_->visible_.marks.find(shard);
  return it == disk_->visible_.marks.end() ? ShardMarks{} : it->second;
}

absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> MemoryStore::Topics() {
  const base::MutexLock lock(&disk_->mutex_);
  if (!read_status_.ok()) return read_status_;
  return std::vector<std::pair<TopicId, std::string>>(disk_->visible_.topics.begin(),
                                                      disk_->visible_.topics.end());
}

}  // namespace duetime::storage
