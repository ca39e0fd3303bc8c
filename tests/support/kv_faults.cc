// SPDX-License-Identifier: Apache-2.0
#include "tests/support/kv_faults.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "storage/key_text.h"

namespace duetime::test {

using storage::ColumnFamily;
using storage::DamagedBlock;
using storage::KvReader;
using storage::OnDamage;

class KvFaults::Reader final : public KvReader {
 public:
  Reader(KvFaults* faults, std::unique_ptr<KvReader> inner, ColumnFamily family,
         absl::string_view lower, absl::string_view upper, OnDamage on_damage)
      : faults_(faults),
        inner_(std::move(inner)),
        family_(family),
        lower_(lower),
        upper_(upper),
        on_damage_(on_damage),
        located_(faults->located()) {
    Settle(std::string(lower));
  }

  void Next() override {
    DT_CHECK(Valid());
    std::string from = absl::StrCat(key_, absl::string_view("\0", 1));
    inner_->Next();
    Settle(std::move(from));
  }
  void Seek(absl::string_view key) override {
    DT_CHECK(!stopped());
    inner_->Seek(key);
    detour_end_.reset();
    Settle(std::string(std::max(key, lower_)));
  }
  absl::Status status() const override { return status_; }

 private:
  // Finds the first readable key that is not less than `from`. REQUIRES: the inner reader is at its
  // own first such key.
  void Settle(std::string from) {
    valid_ = false;
    status_ = faults_->read_status();
    if (!status_.ok()) return;
    while (true) {
      const bool at_key = inner_->Valid();
      const absl::string_view to = at_key ? inner_->key() : upper_;
      if (detour_end_.has_value() && *detour_end_ <= to) {
        if (*detour_end_ < upper_ && MustStop()) {
          stop_ = *std::move(detour_end_);
          return;
        }
        from = std::max(from, *detour_end_);
        detour_end_.reset();
      }
      const auto met = faults_->Meet({family_, on_damage_, from, to, at_key});
      if (!met.has_value()) return Show();
      if (on_damage_ == OnDamage::kFail) {
        status_ = storage::DamageError(met->block);
        return;
      }
      went_around_ = true;
      if (!detour_end_.has_value()) {
        detour_end_ = absl::StrCat(met->block.last, absl::string_view("\0", 1));
      }
      if (*detour_end_ <= to) continue;
      if (!at_key) return Show();
      if (!met->hides_key) return Show();
      from = absl::StrCat(to, absl::string_view("\0", 1));
      inner_->Next();
    }
  }

  bool MustStop() const {
    return on_damage_ == OnDamage::kGoAroundInSteps && faults_->located() != located_;
  }

  // Shows what the inner reader shows.
  void Show() {
    went_around_ |= inner_->went_around();
    valid_ = inner_->Valid();
    if (valid_) {
      key_ = inner_->key();
      value_ = inner_->value();
      return;
    }
    status_ = inner_->status();
    if (inner_->stopped()) stop_ = inner_->stop();
  }

  KvFaults* const faults_;
  const std::unique_ptr<KvReader> inner_;
  const ColumnFamily family_;
  const absl::string_view lower_;
  const absl::string_view upper_;
  const OnDamage on_damage_;
  // The count of located ranges at the beginning.
  const uint64_t located_;
  // Where the range ends that the reader is in.
  std::optional<std::string> detour_end_;
  absl::Status status_;
};

class KvFaults::Source final : public storage::KvSource {
 public:
  Source(KvFaults* faults, std::shared_ptr<const storage::DamageList> list, KvSource* inner)
      : faults_(faults), list_(std::move(list)), inner_(inner) {}

  absl::StatusOr<std::optional<std::string>> Get(ColumnFamily family,
                                                 absl::string_view key) override {
    if (absl::Status status = faults_->read_status(); !status.ok()) return status;
    if (const auto block = faults_->Find(family, key); block.has_value()) {
      absl::Status status = storage::DamageError(*block);
      return family == ColumnFamily::kMeta ? absl::DataLossError(status.message()) : status;
    }
    return inner_->Get(family, key);
  }

  absl::Status GetMany(std::span<const storage::StoreKey> keys,
                       std::vector<std::optional<std::string>>* values) override {
    if (absl::Status status = faults_->read_status(); !status.ok()) return status;
    const size_t before = values->size();
    if (absl::Status status = inner_->GetMany(keys, values); !status.ok()) return status;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (faults_->Find(keys[i].family(), keys[i].bytes()).has_value()) (*values)[before + i] = "";
    }
    return absl::OkStatus();
  }

  std::unique_ptr<KvReader> NewReader(ColumnFamily family, absl::string_view lower,
                                      absl::string_view upper, OnDamage on_damage) override {
    return std::make_unique<Reader>(faults_, inner_->NewReader(family, lower, upper, on_damage),
                                    family, lower, upper, on_damage);
  }

  const storage::DamageList& damage() const override { return *list_; }

 private:
  KvFaults* const faults_;
  const std::shared_ptr<const storage::DamageList> list_;
  KvSource* const inner_;
};

class KvFaults::Store final : public storage::KvStore {
 public:
  Store(KvFaults* faults, std::shared_ptr<const storage::DamageList> list,
        std::unique_ptr<KvStore> inner)
      : faults_(faults),
        inner_(std::move(inner)),
        source_(faults, std::move(list), inner_->source()) {}

  absl::Status Append(absl::FunctionRef<void(storage::KvBatch*)> fill,
                      storage::Durability durability) override {
    if (fenced_) return absl::FailedPreconditionError("the store is fenced");
    if (const auto fault = faults_->TakeAppendFault(); fault.has_value()) {
      return Fail(*fault, fill);
    }
    KvChanges changes;
    // Keeps the changes only if it must, because most runs have no damage.
    const bool damaged = faults_->damaged();
    absl::Status status = inner_->Append(
        [&](storage::KvBatch* batch) {
          if (!damaged) return fill(batch);
          fill(&changes);
          changes.AddTo(batch);
        },
        durability);
    if (status.ok()) faults_->Accept(changes);
    return status;
  }

  void DropExpired(uint64_t until_ms) override { inner_->DropExpired(until_ms); }
  storage::KvSource* source() override { return &source_; }

 private:
  absl::Status Fail(AppendFault fault, absl::FunctionRef<void(storage::KvBatch*)> fill) {
    fenced_ = true;
    if (fault == AppendFault::kFenced) return absl::FailedPreconditionError("the store is fenced");
    KvChanges changes;
    fill(&changes);
    if (fault == AppendFault::kUnknownApplied) faults_->Keep(std::move(changes));
    return absl::InternalError("the write failed");
  }

  KvFaults* const faults_;
  const std::unique_ptr<KvStore> inner_;
  Source source_;
  // Confined to the caller of Append.
  bool fenced_ = false;
};

std::unique_ptr<storage::KvStore> KvFaults::Open(std::unique_ptr<storage::KvStore> inner) {
  std::optional<KvChanges> pending;
  std::shared_ptr<const storage::DamageList> list;
  {
    const base::MutexLock lock(&mutex_);
    append_fault_.reset();
    read_status_ = absl::OkStatus();
    pending = std::exchange(pending_, std::nullopt);
    list = list_ = std::make_shared<storage::DamageList>();
    for (Range& range : ranges_) {
      range.located = false;
      if (range.hides || find_at_once_) Locate(&range);
    }
  }
  auto store = std::make_unique<Store>(this, std::move(list), std::move(inner));
  if (pending.has_value()) {
    const absl::Status found = store->Append(
        [&](storage::KvBatch* batch) { pending->AddTo(batch); }, storage::Durability::kSynced);
    DT_CHECK(found.ok());
  }
  return store;
}

void KvFaults::FailNextAppend(AppendFault fault) {
  const base::MutexLock lock(&mutex_);
  append_fault_ = fault;
}

void KvFaults::FailReads(const absl::Status& status) {
  const base::MutexLock lock(&mutex_);
  read_status_ = status;
}

bool KvFaults::fails_reads() const {
  const base::MutexLock lock(&mutex_);
  return !read_status_.ok();
}

void KvFaults::Damage(ColumnFamily family, absl::string_view first, absl::string_view last) {
  AddRange(family, first, last, /*hides=*/false);
}

void KvFaults::Hide(ColumnFamily family, absl::string_view first, absl::string_view last) {
  AddRange(family, first, last, /*hides=*/true);
}

void KvFaults::AddRange(ColumnFamily family, absl::string_view first, absl::string_view last,
                        bool hides) {
  DT_CHECK(first <= last);
  const base::MutexLock lock(&mutex_);
  Range range;
  range.family = family;
  range.first = std::string(first);
  range.last = std::string(last);
  range.hides = hides;
  range.block = {.file = absl::StrCat(++files_, ".sst"),
                 .offset = 0,
                 .whole_table = hides,
                 .family = std::string(storage::LayoutOf(family).name),
                 .first = range.first,
                 .last = range.last,
                 .first_text = storage::KeyText(family, first),
                 .last_text = storage::KeyText(family, last)};
  if (hides || find_at_once_) Locate(&range);
  ranges_.push_back(std::move(range));
}

void KvFaults::Repair() {
  const base::MutexLock lock(&mutex_);
  ranges_.clear();
}

void KvFaults::CopyDamageTo(KvFaults* copy) const {
  const base::MutexLock lock(&mutex_);
  const base::MutexLock lock_copy(&copy->mutex_);
  DT_CHECK(copy->ranges_.empty());
  copy->ranges_ = ranges_;
  copy->files_ = files_;
  // What was written is durable in the copy.
  for (Range& range : copy->ranges_) {
    for (auto& [key, append] : range.written) append = 0;
  }
}

bool KvFaults::pending() const {
  const base::MutexLock lock(&mutex_);
  return pending_.has_value();
}

void KvFaults::DropPending() {
  const base::MutexLock lock(&mutex_);
  pending_.reset();
}

void KvFaults::TakeBack(size_t appends) {
  const base::MutexLock lock(&mutex_);
  DT_CHECK_LE(appends, appends_);
  appends_ -= appends;
  const uint64_t last = appends_;
  for (Range& range : ranges_) {
    std::erase_if(range.written, [last](const auto& entry) { return entry.second > last; });
  }
}

void KvFaults::Locate(Range* range) {
  if (range->located) return;
  range->located = true;
  ++located_;
  list_->Add(range->block);
}

std::optional<KvFaults::Obstacle> KvFaults::Meet(const Move& move) {
  const base::MutexLock lock(&mutex_);
  Range* met = nullptr;
  bool hides_key = false;
  for (Range& range : ranges_) {
    if (range.family != move.family || range.last < move.from) continue;
    if (move.at_key ? range.first > move.to : range.first >= move.to) continue;
    if (range.hides && move.on_damage == OnDamage::kFail) continue;
    if (range.first == range.last && range.written.contains(range.first)) continue;
    if (met == nullptr || range.first < met->first) met = &range;
    hides_key |= move.at_key && range.last >= move.to && !range.written.contains(move.to);
  }
  if (met == nullptr) return std::nullopt;
  Locate(met);
  return Obstacle{met->block, hides_key};
}

std::optional<DamagedBlock> KvFaults::Find(ColumnFamily family, absl::string_view key) {
  const base::MutexLock lock(&mutex_);
  for (Range& range : ranges_) {
    if (range.family != family || range.hides || key < range.first || key > range.last) continue;
    if (range.written.contains(key)) continue;
    Locate(&range);
    return range.block;
  }
  return std::nullopt;
}

void KvFaults::Accept(const KvChanges& changes) {
  const base::MutexLock lock(&mutex_);
  ++appends_;
  for (const KvChange& change : changes.changes()) {
    // The sum below a change stays unknown.
    if (change.kind == KvChange::Kind::kMerge) continue;
    for (Range& range : ranges_) {
      if (range.family != change.family || change.key < range.first || change.key > range.last) {
        continue;
      }
      // The first one counts: a power cut may undo a later one alone.
      range.written.emplace(change.key, appends_);
    }
  }
}

absl::Status KvFaults::read_status() const {
  const base::MutexLock lock(&mutex_);
  return read_status_;
}

bool KvFaults::damaged() const {
  const base::MutexLock lock(&mutex_);
  return !ranges_.empty();
}

uint64_t KvFaults::located() const {
  const base::MutexLock lock(&mutex_);
  return located_;
}

std::optional<KvFaults::AppendFault> KvFaults::TakeAppendFault() {
  const base::MutexLock lock(&mutex_);
  return std::exchange(append_fault_, std::nullopt);
}

void KvFaults::Keep(KvChanges pending) {
  const base::MutexLock lock(&mutex_);
  pending_ = std::move(pending);
}

}  // namespace duetime::test
