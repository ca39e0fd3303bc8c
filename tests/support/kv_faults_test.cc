// SPDX-License-Identifier: Apache-2.0
#include "tests/support/kv_faults.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/value_codec.h"
#include "tests/support/map_disk.h"

namespace duetime::test {
namespace {

using storage::ColumnFamily;
using storage::Durability;
using storage::IsDamage;
using storage::KvBatch;
using storage::OnDamage;
using storage::StoreKey;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr ColumnFamily kFamily = ColumnFamily::kObjects;

// What a reader shows: its keys in one string, then how it ended.
std::string Story(storage::KvSource* source, OnDamage on_damage, absl::string_view lower = "",
                  absl::string_view upper = storage::kLastKey) {
  std::string story;
  const auto reader = source->NewReader(kFamily, lower, upper, on_damage);
  for (; reader->Valid(); reader->Next()) absl::StrAppend(&story, reader->key());
  if (reader->went_around()) absl::StrAppend(&story, " around");
  if (reader->stopped()) {
    absl::StrAppend(&story, " stop ", reader->stop().substr(0, reader->stop().size() - 1));
  } else if (!reader->status().ok()) {
    absl::StrAppend(&story, IsDamage(reader->status()) ? " damage" : " error");
  }
  return story;
}

class KvFaultsTest : public testing::TestWithParam<bool> {
 protected:
  // Stores a, b, ..., h.
  KvFaultsTest() {
    Append([](KvBatch* batch) {
      for (char key = 'a'; key <= 'h'; ++key) batch->Put(kFamily, {&key, 1}, "value");
    });
  }

  bool find_at_once() const { return GetParam(); }
  storage::KvSource* source() { return store_->source(); }
  void Reopen() {
    store_.reset();
    store_ = faults_.Open(disk_.Open());
  }
  absl::Status TryAppend(absl::FunctionRef<void(KvBatch*)> fill,
                         Durability durability = Durability::kSynced) {
    return store_->Append(fill, durability);
  }
  void Append(absl::FunctionRef<void(KvBatch*)> fill, Durability durability = Durability::kSynced) {
    const absl::Status status = TryAppend(fill, durability);
    EXPECT_TRUE(status.ok()) << status;
  }
  void Put(absl::string_view key, Durability durability = Durability::kSynced) {
    Append([&](KvBatch* batch) { batch->Put(kFamily, key, "new"); }, durability);
  }
  // The value, "absent" or "unknown".
  std::string Get(absl::string_view key) {
    const auto value = source()->Get(kFamily, key);
    if (!value.ok()) return IsDamage(value.status()) ? "unknown" : value.status().ToString();
    return value->value_or("absent");
  }
  // A reader that stops, if the damage is not located yet.
  std::string Steps(absl::string_view stops, absl::string_view goes_on) {
    return std::string(find_at_once() ? goes_on : stops);
  }

  MapDisk disk_;
  KvFaults faults_{GetParam()};
  std::unique_ptr<storage::KvStore> store_ = faults_.Open(disk_.Open());
};

INSTANTIATE_TEST_SUITE_P(Find, KvFaultsTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "AtOnce" : "ByReads"; });

TEST_P(KvFaultsTest, DamagedKeysAreUnknownUntilTheyAreWritten) {
  faults_.Damage(kFamily, "c", "e1");
  EXPECT_EQ(Get("b"), "value");
  for (const absl::string_view key : {"c", "d", "dd", "e", "e1"}) EXPECT_EQ(Get(key), "unknown");
  EXPECT_EQ(Get("e2"), "absent");
  Put("c");
  Put("dd");
  Append([](KvBatch* batch) { batch->Delete(kFamily, "d"); });
  EXPECT_EQ(Get("c"), "new");
  EXPECT_EQ(Get("dd"), "new");
  EXPECT_EQ(Get("d"), "absent");
  EXPECT_EQ(Get("e"), "unknown");
  Reopen();
  EXPECT_EQ(Get("c"), "new");
  EXPECT_EQ(Get("d"), "absent");
  EXPECT_EQ(Get("e"), "unknown");
  EXPECT_EQ(*source()->Get(ColumnFamily::kIndex, "c"), std::nullopt) << "another family";
  faults_.Repair();
  EXPECT_EQ(Get("e"), "value");
}

TEST_P(KvFaultsTest, ASumOverDamageStaysUnknown) {
  const StoreKey key = storage::CountKey(0, storage::TopicId{1});
  const auto one = storage::EncodeCountDelta({1, 1});
  const absl::string_view change(one.data(), one.size());
  const auto merge = [&](KvBatch* batch) { batch->Merge(key.family(), key.bytes(), change); };
  Append(merge);
  faults_.Damage(key.family(), key.bytes(), key.bytes());
  Append(merge);
  EXPECT_TRUE(IsDamage(source()->Get(key.family(), key.bytes()).status()));
  Append([&](KvBatch* batch) { batch->Delete(key.family(), key.bytes()); });
  Append(merge);
  EXPECT_EQ(*source()->Get(key.family(), key.bytes()), change);
}

TEST_P(KvFaultsTest, AReaderMeetsDamageInItsWay) {
  faults_.Damage(kFamily, "c", "e");
  EXPECT_EQ(Story(source(), OnDamage::kGoAroundInSteps), Steps("ab around stop e", "abfgh around"));
  EXPECT_EQ(Story(source(), OnDamage::kGoAroundInSteps), "abfgh around") << "located now";
  EXPECT_EQ(Story(source(), OnDamage::kGoAround), "abfgh around");
  EXPECT_EQ(Story(source(), OnDamage::kFail), "ab damage");
  Put("d");
  EXPECT_EQ(Story(source(), OnDamage::kGoAround), "abdfgh around");
  EXPECT_EQ(Story(source(), OnDamage::kFail), "ab damage");
  const struct {
    std::string lower;
    std::string upper;
    std::string around;
    std::string fail;
  } ranges[] = {
      {"", "c", "ab", "ab"},
      {"", "c0", "ab around", "ab damage"},
      {"d", "e", "d around", " damage"},
      {"e", "g", "f around", " damage"},
      {"e0", "g", "f", "f"},
  };
  for (const auto& range : ranges) {
    EXPECT_EQ(Story(source(), OnDamage::kGoAround, range.lower, range.upper), range.around);
    EXPECT_EQ(Story(source(), OnDamage::kFail, range.lower, range.upper), range.fail);
  }
}

TEST_P(KvFaultsTest, SteppingReadersStopBehindDamageThatTheyLocate) {
  faults_.Damage(kFamily, "b", "b");
  faults_.Damage(kFamily, "d", "e");
  faults_.Damage(kFamily, "e", "f0");
  Put("e");
  std::string stories;
  std::string lower;
  for (int pages = 0; pages < 9; ++pages) {
    const auto reader =
        source()->NewReader(kFamily, lower, storage::kLastKey, OnDamage::kGoAroundInSteps);
    for (; reader->Valid(); reader->Next()) absl::StrAppend(&stories, reader->key());
    if (!reader->stopped()) break;
    lower = reader->stop();
    absl::StrAppend(&stories, "|");
  }
  EXPECT_EQ(stories, Steps("a|ce||gh", "acegh"));
}

TEST_P(KvFaultsTest, AStepEndsAtTheEndOfTheRange) {
  faults_.Damage(kFamily, "c", "e");
  const absl::string_view behind("e\0", 2);
  for (const absl::string_view upper : {absl::string_view("e"), behind}) {
    EXPECT_EQ(Story(source(), OnDamage::kGoAroundInSteps, "", upper), "ab around");
    Reopen();
  }
}

TEST_P(KvFaultsTest, SeekLeavesDamage) {
  faults_.Damage(kFamily, "c", "e");
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kGoAround}) {
    const auto reader = source()->NewReader(kFamily, "c", storage::kLastKey, on_damage);
    EXPECT_EQ(reader->Valid(), on_damage == OnDamage::kGoAround);
    reader->Seek("g");
    ASSERT_TRUE(reader->Valid());
    EXPECT_EQ(reader->key(), "g");
    reader->Seek("d");
    EXPECT_EQ(reader->Valid(), on_damage == OnDamage::kGoAround);
    reader->Seek("h");
    reader->Next();
    EXPECT_FALSE(reader->Valid());
    EXPECT_TRUE(reader->status().ok());
  }
}

TEST_P(KvFaultsTest, SeekLeavesDamageBeforeAStep) {
  faults_.Damage(kFamily, "c", "e");
  Put("d");
  const auto reader =
      source()->NewReader(kFamily, "", storage::kLastKey, OnDamage::kGoAroundInSteps);
  while (reader->key() != "d") reader->Next();
  reader->Seek("g");
  ASSERT_TRUE(reader->Valid());
  EXPECT_EQ(reader->key(), "g");
}

TEST_P(KvFaultsTest, ReadersPassARangeOfOneKeyOnceItIsWritten) {
  faults_.Damage(kFamily, "c", "c");
  faults_.Damage(kFamily, "e", "e");
  Put("c");
  Append([](KvBatch* batch) { batch->Delete(kFamily, "e"); });
  for (const OnDamage on_damage :
       {OnDamage::kFail, OnDamage::kGoAround, OnDamage::kGoAroundInSteps}) {
    EXPECT_EQ(Story(source(), on_damage), "abcdfgh");
  }
}

TEST_P(KvFaultsTest, GetManyHasAnEmptyValueForAnUnknownKey) {
  const auto key = [](uint64_t due_ms) {
    return EncodeMessageKey(0, storage::MessageKey::FirstAt(due_ms));
  };
  Append([&](KvBatch* batch) {
    for (uint64_t i = 0; i < 4; ++i) batch->Put(ColumnFamily::kMessages, key(i).bytes(), "value");
  });
  faults_.Damage(ColumnFamily::kMessages, key(1).bytes(), key(2).bytes());
  Append([&](KvBatch* batch) { batch->Put(ColumnFamily::kMessages, key(2).bytes(), "new"); });
  std::vector<std::optional<std::string>> values = {"before"};
  const std::vector<StoreKey> keys = {key(0), key(1), key(2), key(9)};
  ASSERT_TRUE(source()->GetMany(keys, &values).ok());
  EXPECT_THAT(values, ElementsAre("before", "value", "", "new", std::nullopt));
}

TEST_P(KvFaultsTest, DamageInMetaIsPlainDataLoss) {
  faults_.Damage(ColumnFamily::kMeta, "a", "a");
  const absl::Status status = source()->Get(ColumnFamily::kMeta, "a").status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_FALSE(IsDamage(status));
}

TEST_P(KvFaultsTest, TheListHasWhatReadsHaveFound) {
  const absl::string_view name = storage::LayoutOf(kFamily).name;
  const auto count = [&] { return source()->damage().CountOf(name); };
  faults_.Damage(kFamily, "b", "b");
  faults_.Damage(kFamily, "f", "g");
  EXPECT_EQ(count(), find_at_once() ? 2u : 0u);
  EXPECT_EQ(Get("b"), "unknown");
  EXPECT_EQ(count(), find_at_once() ? 2u : 1u);
  Story(source(), OnDamage::kFail, "c");
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(source()->damage().report().blocks.back().first, "f");
  Reopen();
  EXPECT_EQ(count(), find_at_once() ? 2u : 0u) << "a store begins with an empty list";
}

TEST_P(KvFaultsTest, ReadersThatGoAroundLeaveOutHiddenKeys) {
  const absl::string_view name = storage::LayoutOf(kFamily).name;
  EXPECT_FALSE(source()->damage().TableOf(name));
  faults_.Hide(kFamily, "b", "g");
  Put("d");
  EXPECT_TRUE(source()->damage().TableOf(name));
  EXPECT_FALSE(source()->damage().TableOf("messages"));
  EXPECT_EQ(Story(source(), OnDamage::kGoAround), "adh around");
  EXPECT_EQ(Story(source(), OnDamage::kGoAroundInSteps), "adh around");
  EXPECT_EQ(Story(source(), OnDamage::kFail), "abcdefgh");
  EXPECT_EQ(Get("c"), "value");
  faults_.Damage(kFamily, "c", "c");
  EXPECT_EQ(Story(source(), OnDamage::kFail), "ab damage");
  EXPECT_TRUE(source()->damage().TableOf(name));
  Reopen();
  EXPECT_TRUE(source()->damage().TableOf(name));
}

TEST_P(KvFaultsTest, APowerCutTakesBackTheKeysThatWereWritten) {
  faults_.Damage(kFamily, "c", "e");
  Put("c", Durability::kSynced);
  Put("d", Durability::kBuffered);
  Put("c", Durability::kBuffered);
  Put("e", Durability::kBuffered);
  faults_.TakeBack(2);
  disk_.PowerCut(1);
  Reopen();
  EXPECT_EQ(Get("c"), "new") << "the synced value";
  EXPECT_EQ(Get("d"), "new");
  EXPECT_EQ(Get("e"), "unknown");
}

TEST_P(KvFaultsTest, AnAppendFailsAsTheTestSays) {
  using Fault = KvFaults::AppendFault;
  for (const Fault fault : {Fault::kUnknownApplied, Fault::kUnknownLost, Fault::kFenced}) {
    for (const bool drop : {false, true}) {
      Append([](KvBatch* batch) { batch->Delete(kFamily, "x"); });
      faults_.FailNextAppend(fault);
      const auto put = [](KvBatch* batch) { batch->Put(kFamily, "x", "new"); };
      const absl::Status failed = TryAppend(put);
      EXPECT_EQ(absl::IsFailedPrecondition(failed), fault == Fault::kFenced) << failed;
      EXPECT_TRUE(absl::IsFailedPrecondition(TryAppend(put)));
      EXPECT_EQ(Get("x"), "absent");
      EXPECT_EQ(faults_.pending(), fault == Fault::kUnknownApplied);
      if (drop) faults_.DropPending();
      Reopen();
      EXPECT_FALSE(faults_.pending());
      EXPECT_EQ(Get("x"), fault == Fault::kUnknownApplied && !drop ? "new" : "absent");
    }
  }
}

TEST_P(KvFaultsTest, AnAppendThatIsFoundLaterMakesItsKeysKnown) {
  faults_.Damage(kFamily, "c", "e");
  faults_.FailNextAppend(KvFaults::AppendFault::kUnknownApplied);
  EXPECT_FALSE(TryAppend([](KvBatch* batch) { batch->Put(kFamily, "d", "new"); }).ok());
  EXPECT_EQ(Get("d"), "unknown");
  Reopen();
  EXPECT_EQ(Get("d"), "new");
}

TEST_P(KvFaultsTest, EveryReadFailsAsTheTestSays) {
  const auto reader =
      source()->NewReader(kFamily, "", storage::kLastKey, OnDamage::kGoAroundInSteps);
  faults_.FailReads(absl::InternalError("why"));
  reader->Next();
  ASSERT_FALSE(reader->Valid());
  EXPECT_TRUE(absl::IsInternal(reader->status()));
  EXPECT_EQ(Story(source(), OnDamage::kGoAround), " error");
  EXPECT_EQ(Get("a"), "INTERNAL: why");
  std::vector<std::optional<std::string>> values;
  EXPECT_TRUE(absl::IsInternal(source()->GetMany({}, &values)));
  faults_.FailReads(absl::OkStatus());
  EXPECT_EQ(Get("a"), "value");
}

}  // namespace
}  // namespace duetime::test
