// SPDX-License-Identifier: Apache-2.0
#include "tests/support/map_disk.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/count_sum.h"
#include "storage/key_codec.h"

namespace duetime::test {

using storage::ColumnFamily;
using storage::LayoutOf;
using storage::OnDamage;
using storage::StoreKey;

class MapDisk::Reader final : public storage::KvReader {
 public:
  Reader(const MapDisk* disk, std::shared_ptr<const Family> family, absl::string_view lower,
         absl::string_view upper)
      : disk_(disk), family_(std::move(family)), lower_(lower), upper_(upper) {
    Seek(lower);
  }
  // Releases the family under the lock, because Writable() then changes it.
  ~Reader() override {
    const base::MutexLock lock(&disk_->mutex_);
    family_.reset();
  }

  void Next() override {
    DT_CHECK(Valid());
    ++at_;
    Show();
  }
  void Seek(absl::string_view key) override {
    at_ = family_->lower_bound(std::max(key, lower_));
    Show();
  }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  void Show() {
    valid_ = at_ != family_->end() && at_->first < upper_;
    if (!valid_) return;
    key_ = at_->first;
    if (at_->second.changes.empty()) {
      value_ = *at_->second.base;
    } else {
      sum_ = Read(at_->first, at_->second);
      value_ = sum_;
    }
  }

  const MapDisk* const disk_;
  std::shared_ptr<const Family> family_;
  const absl::string_view lower_;
  const absl::string_view upper_;
  Family::const_iterator at_;
  std::string sum_;
};

class MapDisk::Source final : public storage::KvSource {
 public:
  explicit Source(const MapDisk* disk) : disk_(disk) {}

  absl::StatusOr<std::optional<std::string>> Get(ColumnFamily family,
                                                 absl::string_view key) override {
    const base::MutexLock lock(&disk_->mutex_);
    const Family& values = *disk_->families_[static_cast<size_t>(family)];
    const auto value = values.find(key);
    if (value == values.end()) return std::optional<std::string>();
    return Read(key, value->second);
  }

  absl::Status GetMany(std::span<const StoreKey> keys,
                       std::vector<std::optional<std::string>>* values) override {
    for (size_t i = 0; i < keys.size(); ++i) {
      DT_CHECK(keys[i].whole() && keys[i].family() == keys[0].family());
      DT_CHECK(i == 0 || keys[i - 1] < keys[i]);
      values->push_back(*Get(keys[i].family(), keys[i].bytes()));
      DT_CHECK(values->back() != "");
    }
    return absl::OkStatus();
  }

  std::unique_ptr<storage::KvReader> NewReader(ColumnFamily family, absl::string_view lower,
                                               absl::string_view upper,
                                               OnDamage on_damage) override {
    DT_CHECK(lower <= upper);
    if (family == ColumnFamily::kProgress && on_damage == OnDamage::kFail) {
      DT_CHECK_EQ(lower.size(), storage::kProgressPrefixBytes);
      DT_CHECK_EQ(upper.size(), storage::kProgressPrefixBytes);
    }
    std::shared_ptr<const Family> values;
    {
      const base::MutexLock lock(&disk_->mutex_);
      values = disk_->families_[static_cast<size_t>(family)];
    }
    return std::make_unique<Reader>(disk_, std::move(values), lower, upper);
  }

  const storage::DamageList& damage() const override { return damage_; }

 private:
  const MapDisk* const disk_;
  const storage::DamageList damage_;
};

class MapDisk::Store final : public storage::KvStore {
 public:
  Store(MapDisk* disk, uint64_t opening) : disk_(disk), opening_(opening), source_(disk) {}

  absl::Status Append(absl::FunctionRef<void(storage::KvBatch*)> fill,
                      storage::Durability durability) override {
    {
      const base::MutexLock lock(&disk_->mutex_);
      if (fenced()) return Fenced();
    }
    // Without the lock, because `fill` may read.
    KvChanges batch;
    fill(&batch);
    const base::MutexLock lock(&disk_->mutex_);
    if (fenced()) return Fenced();
    const bool synced = durability == storage::Durability::kSynced;
    std::vector<Undo> undo;
    for (const KvChange& change : batch.changes()) disk_->Apply(change, synced ? nullptr : &undo);
    if (synced) {
      disk_->unsynced_.clear();
    } else {
      disk_->unsynced_.push_back(std::move(undo));
    }
    return absl::OkStatus();
  }

  void DropExpired(uint64_t until_ms) override {
    const base::MutexLock lock(&disk_->mutex_);
    if (fenced()) return;
    for (size_t i = 0; i < storage::kColumnFamilyCount; ++i) {
      const auto family = static_cast<ColumnFamily>(i);
      if (!LayoutOf(family).sums && !LayoutOf(family).expires) continue;
      std::erase_if(disk_->Writable(family), [&](const auto& entry) {
        return storage::MayDrop(family, entry.first, Read(entry.first, entry.second), until_ms);
      });
    }
  }

  storage::KvSource* source() override { return &source_; }

 private:
  static absl::Status Fenced() { return absl::FailedPreconditionError("the store is fenced"); }
  bool fenced() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(disk_->mutex_) {
    return opening_ != disk_->opening_;
  }

  MapDisk* const disk_;
  const uint64_t opening_;
  Source source_;
};

MapDisk::MapDisk() {
  for (std::shared_ptr<Family>& family : families_) family = std::make_shared<Family>();
}

std::unique_ptr<storage::KvStore> MapDisk::Open() {
  const base::MutexLock lock(&mutex_);
  unsynced_.clear();
  return std::make_unique<Store>(this, ++opening_);
}

void MapDisk::PowerCut(size_t kept, bool torn) {
  const base::MutexLock lock(&mutex_);
  while (unsynced_.size() > kept) {
    const std::vector<Undo>& append = unsynced_.back();
    TakeBack(append, torn && unsynced_.size() == kept + 1 ? append.size() / 2 : 0);
    unsynced_.pop_back();
  }
  unsynced_.clear();
  ++opening_;
}

void MapDisk::Sync() {
  const base::MutexLock lock(&mutex_);
  unsynced_.clear();
}

size_t MapDisk::unsynced_appends() const {
  const base::MutexLock lock(&mutex_);
  return unsynced_.size();
}

std::unique_ptr<KvDisk> MapDisk::Copy() {
  auto copy = std::make_unique<MapDisk>();
  const base::MutexLock lock(&mutex_);
  const base::MutexLock lock_copy(&copy->mutex_);
  for (size_t i = 0; i < families_.size(); ++i) *copy->families_[i] = *families_[i];
  return copy;
}

std::string MapDisk::Read(absl::string_view key, const Value& value) {
  if (value.changes.empty()) return *value.base;
  storage::CountSum sum(key);
  if (value.base.has_value()) DT_CHECK(sum.Add(*value.base));
  for (const std::string& change : value.changes) DT_CHECK(sum.Add(change));
  return sum.Encode();
}

MapDisk::Family& MapDisk::Writable(ColumnFamily family) {
  std::shared_ptr<Family>& values = families_[static_cast<size_t>(family)];
  if (values.use_count() > 1) values = std::make_shared<Family>(*values);
  return *values;
}

void MapDisk::Apply(const KvChange& change, std::vector<Undo>* undo) {
  Family& values = Writable(change.family);
  const auto [at, absent] = values.try_emplace(change.key);
  if (undo != nullptr) {
    undo->push_back(
        {change.family, change.key, absent ? std::nullopt : std::optional<Value>(at->second)});
  }
  Value& value = at->second;
  switch (change.kind) {
    case KvChange::Kind::kPut:
      value = {.base = change.value, .changes = {}};
      break;
    case KvChange::Kind::kDelete:
      values.erase(at);
      break;
    case KvChange::Kind::kMerge:
      DT_CHECK(LayoutOf(change.family).sums);
      value.changes.push_back(change.value);
      if (value.changes.size() == kChangesMax) {
        value = {.base = Read(change.key, value), .changes = {}};
      }
      break;
  }
}

void MapDisk::TakeBack(const std::vector<Undo>& append, size_t kept) {
  for (size_t i = append.size(); i > kept; --i) {
    const Undo& undo = append[i - 1];
    Family& values = Writable(undo.family);
    if (undo.before.has_value()) {
      values.insert_or_assign(undo.key, *undo.before);
    } else {
      values.erase(undo.key);
    }
  }
}

}  // namespace duetime::test
