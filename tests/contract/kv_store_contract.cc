// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/kv_store_contract.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"

#include "storage/count_sum.h"
#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/value_codec.h"
#include "tests/support/test_seed.h"

namespace duetime::test {
namespace {

using storage::ColumnFamily;
using storage::CountDelta;
using storage::Durability;
using storage::KvBatch;
using storage::KvReader;
using storage::OnDamage;
using storage::StoreKey;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// A family without rules of its own.
constexpr ColumnFamily kPlain = ColumnFamily::kObjects;

std::string Numbered(absl::string_view prefix, size_t number) {
  return absl::StrFormat("%s%06d", prefix, number);
}

// The change of a topic's counter, which is also the form of the sum.
std::string Change(const CountDelta& delta) {
  const auto bytes = storage::EncodeCountDelta(delta);
  return std::string(bytes.data(), bytes.size());
}

std::string DayChange(size_t minute, const CountDelta& delta) {
  storage::DayEncoder day;
  day.Add(minute, delta);
  return day.bytes();
}

}  // namespace

void KvStoreContract::Append(absl::FunctionRef<void(KvBatch*)> fill, Durability durability) {
  const absl::Status status = store_->Append(fill, durability);
  EXPECT_TRUE(status.ok()) << status;
}

std::optional<std::string> KvStoreContract::Get(ColumnFamily family, absl::string_view key) {
  absl::StatusOr<std::optional<std::string>> value = store_->source()->Get(family, key);
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

KvStoreContract::Entries KvStoreContract::Rest(KvReader* reader) {
  Entries entries;
  for (; reader->Valid(); reader->Next()) {
    EXPECT_TRUE(reader->status().ok()) << reader->status();
    entries.emplace_back(reader->key(), reader->value());
  }
  EXPECT_TRUE(reader->status().ok()) << reader->status();
  EXPECT_FALSE(reader->went_around());
  EXPECT_FALSE(reader->stopped());
  return entries;
}

KvStoreContract::Entries KvStoreContract::Read(ColumnFamily family, absl::string_view lower,
                                               absl::string_view upper, OnDamage on_damage) {
  return Rest(store_->source()->NewReader(family, lower, upper, on_damage).get());
}

TEST_P(KvStoreContract, ChangesApplyInTheirOrder) {
  Append([](KvBatch* batch) {
    batch->Put(kPlain, "a", "1");
    batch->Put(kPlain, "a", "2");
    batch->Put(kPlain, "b", "1");
    batch->Delete(kPlain, "b");
    batch->Put(kPlain, "c", "1");
    batch->Delete(kPlain, "c");
    batch->Put(kPlain, "c", "2");
    batch->Delete(kPlain, "absent");
  });
  EXPECT_THAT(Read(kPlain), ElementsAre(Pair("a", "2"), Pair("c", "2")));
  Append([](KvBatch* batch) {
    batch->Delete(kPlain, "a");
    batch->Put(kPlain, "c", "3");
  });
  EXPECT_EQ(Get(kPlain, "a"), std::nullopt);
  EXPECT_EQ(Get(kPlain, "b"), std::nullopt);
  EXPECT_EQ(Get(kPlain, "c"), "3");
  Reopen();
  EXPECT_THAT(Read(kPlain), ElementsAre(Pair("c", "3")));
}

TEST_P(KvStoreContract, KeysAndValuesAreAnyBytes) {
  const std::string zeros("\0\0", 2);
  Append([&](KvBatch* batch) {
    std::string key = "key";
    std::string value = "value";
    batch->Put(kPlain, key, value);
    // The batch has copied both.
    key = "KEY";
    value = "VALUE";
    batch->Put(kPlain, zeros, zeros);
    batch->Put(kPlain, "empty", "");
    batch->Put(kPlain, "long", std::string(100000, 'x'));
  });
  EXPECT_EQ(Get(kPlain, "key"), "value");
  EXPECT_EQ(Get(kPlain, "KEY"), std::nullopt);
  EXPECT_EQ(Get(kPlain, zeros), zeros);
  EXPECT_EQ(Get(kPlain, "empty"), "");
  EXPECT_EQ(Get(kPlain, "long"), std::string(100000, 'x'));
}

TEST_P(KvStoreContract, FamiliesAreApart) {
  const std::string key(storage::kProgressPrefixBytes, 'k');
  const auto value = [](ColumnFamily family) {
    // kCounts has the form of a sum.
    return family == ColumnFamily::kCounts ? Change({7, 7})
                                           : Numbered("value", static_cast<size_t>(family));
  };
  for (size_t i = 0; i < storage::kColumnFamilyCount; ++i) {
    const auto family = static_cast<ColumnFamily>(i);
    EXPECT_EQ(Get(family, key), std::nullopt);
    Append([&](KvBatch* batch) { batch->Put(family, key, value(family)); });
  }
  for (size_t i = 0; i < storage::kColumnFamilyCount; ++i) {
    const auto family = static_cast<ColumnFamily>(i);
    EXPECT_EQ(Get(family, key), value(family));
    if (family == ColumnFamily::kMeta) continue;
    EXPECT_THAT(Read(family), ElementsAre(Pair(key, value(family))));
  }
}

TEST_P(KvStoreContract, TheBatchIsFilledOnceAndMayRead) {
  size_t calls = 0;
  Append([&](KvBatch* batch) {
    ++calls;
    batch->Put(kPlain, "a", "1");
    EXPECT_EQ(Get(kPlain, "a"), std::nullopt) << "before the append is accepted";
  });
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(Get(kPlain, "a"), "1");
}

TEST_P(KvStoreContract, AReaderKeepsItsBoundsAndOrder) {
  std::map<std::string, std::string> model;
  for (const absl::string_view key :
       {absl::string_view("\0", 1), absl::string_view("a"), absl::string_view("a\0", 2),
        absl::string_view("ab"), absl::string_view("b"), absl::string_view("\x7f"),
        absl::string_view("\x80"), absl::string_view("\xfe\xff"), absl::string_view("\xff"),
        absl::string_view("\xff\xfe")}) {
    model.emplace(key, absl::StrCat("value of ", key));
  }
  Append([&](KvBatch* batch) {
    for (auto entry = model.rbegin(); entry != model.rend(); ++entry) {
      batch->Put(kPlain, entry->first, entry->second);
    }
  });
  std::vector<std::string> bounds = {"", std::string(storage::kLastKey), "0", "aa", "\xc0"};
  for (const auto& [key, value] : model) bounds.push_back(key);
  for (const std::string& lower : bounds) {
    for (const std::string& upper : bounds) {
      if (lower > upper) continue;
      const Entries expected(model.lower_bound(lower), model.lower_bound(upper));
      for (const OnDamage on_damage :
           {OnDamage::kFail, OnDamage::kGoAround, OnDamage::kGoAroundInSteps}) {
        EXPECT_EQ(Read(kPlain, lower, upper, on_damage), expected);
      }
    }
  }
}

TEST_P(KvStoreContract, AReaderSeesTheStoreAsItWas) {
  const StoreKey counter = storage::CountKey(1, storage::TopicId{1});
  Append([&](KvBatch* batch) {
    for (const absl::string_view key : {"b", "d", "f"}) batch->Put(kPlain, key, "old");
    batch->Merge(counter.family(), counter.bytes(), Change({1, 10}));
  });
  const auto reader =
      store_->source()->NewReader(kPlain, "", storage::kLastKey, OnDamage::kGoAround);
  const auto sums =
      store_->source()->NewReader(counter.family(), "", storage::kLastKey, OnDamage::kGoAround);
  ASSERT_TRUE(reader->Valid());
  Append([&](KvBatch* batch) {
    for (const absl::string_view key : {"a", "c", "d", "g"}) batch->Put(kPlain, key, "new");
    batch->Delete(kPlain, "f");
    batch->Merge(counter.family(), counter.bytes(), Change({1, 10}));
  });
  EXPECT_EQ(Get(kPlain, "d"), "new");
  EXPECT_THAT(Rest(reader.get()),
              ElementsAre(Pair("b", "old"), Pair("d", "old"), Pair("f", "old")));
  EXPECT_THAT(Rest(sums.get()), ElementsAre(Pair(counter.bytes(), Change({1, 10}))));
  reader->Seek("");
  ASSERT_TRUE(reader->Valid());
  EXPECT_EQ(reader->key(), "b") << "a seek stays in the same state";
}

TEST_P(KvStoreContract, SeekGoesForwardAndBack) {
  Append([](KvBatch* batch) {
    for (const absl::string_view key : {"a", "c", "e", "g", "i"}) batch->Put(kPlain, key, key);
  });
  const auto reader = store_->source()->NewReader(kPlain, "b", "i", OnDamage::kGoAround);
  const auto at = [&]() -> std::string {
    return reader->Valid() ? std::string(reader->key()) : "end";
  };
  EXPECT_EQ(at(), "c");
  const std::pair<std::string, std::string> seeks[] = {
      {"g", "g"}, {"d", "e"}, {"h", "end"}, {"c", "c"}, {"", "c"}, {"i", "end"}, {"e", "e"}};
  for (const auto& [place, expected] : seeks) {
    reader->Seek(place);
    EXPECT_EQ(at(), expected) << "seek " << place;
  }
  reader->Next();
  EXPECT_EQ(at(), "g");
  EXPECT_EQ(reader->value(), "g");
  reader->Next();
  EXPECT_EQ(at(), "end") << "i is the upper bound";
  EXPECT_TRUE(reader->status().ok());
}

// Long runs of deleted keys lie between the stored ones.
TEST_P(KvStoreContract, GetManyKeepsTheOrderWithGaps) {
  constexpr uint16_t kShard = 3;
  constexpr uint64_t kKeys = 2000;
  const auto key = [](uint64_t due_ms) {
    return EncodeMessageKey(kShard, storage::MessageKey::FirstAt(due_ms));
  };
  const auto stays = [](uint64_t due_ms) { return due_ms % 500 == 7 || due_ms < 3; };
  Append([&](KvBatch* batch) {
    for (uint64_t due_ms = 0; due_ms < kKeys; ++due_ms) {
      batch->Put(ColumnFamily::kMessages, key(due_ms).bytes(), Numbered("value", due_ms));
    }
  });
  Append([&](KvBatch* batch) {
    for (uint64_t due_ms = 0; due_ms < kKeys; ++due_ms) {
      if (!stays(due_ms)) batch->Delete(ColumnFamily::kMessages, key(due_ms).bytes());
    }
  });
  std::vector<StoreKey> keys;
  std::vector<std::optional<std::string>> expected = {"before"};
  for (uint64_t due_ms = 0; due_ms < kKeys + 10; ++due_ms) {
    if (due_ms % 100 != 7 && due_ms > 5 && due_ms < kKeys) continue;
    keys.push_back(key(due_ms));
    expected.push_back(due_ms < kKeys && stays(due_ms)
                           ? std::optional<std::string>(Numbered("value", due_ms))
                           : std::nullopt);
  }
  ASSERT_EQ(keys.size(), 36u);
  std::vector<std::optional<std::string>> values = {"before"};
  const absl::Status read = store_->source()->GetMany(keys, &values);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(values, expected);
  EXPECT_TRUE(store_->source()->GetMany({}, &values).ok());
  EXPECT_EQ(values, expected);
  // The last one exists.
  EXPECT_TRUE(store_->source()->GetMany(std::vector{key(0), key(1)}, &values).ok());
  expected.insert(expected.end(), {Numbered("value", 0), Numbered("value", 1)});
  EXPECT_EQ(values, expected);
}

// Random changes of sums, whole values, deletions and openings, against CountSum alone.
TEST_P(KvStoreContract, ASumHasAllItsChanges) {
  std::mt19937_64 random(TestSeed(1));
  constexpr uint32_t kTopics = 4;
  std::map<std::string, std::string> model;
  for (int step = 0; step < 2000; ++step) {
    const storage::TopicId topic{static_cast<uint32_t>(1 + random() % kTopics)};
    const bool is_day = random() % 2 == 0;
    const StoreKey key =
        is_day ? storage::DayKey(0, topic, storage::kDayMs) : storage::CountKey(0, topic);
    const std::string bytes(key.bytes());
    const CountDelta delta = {static_cast<int64_t>(random() % 9) - 3,
                              static_cast<int64_t>(random() % 900) - 300};
    const std::string change = is_day ? DayChange(random() % 3, delta) : Change(delta);
    const uint64_t kind = random() % 60;
    Append(
        [&](KvBatch* batch) {
          if (kind == 0) {
            batch->Delete(key.family(), bytes);
            model.erase(bytes);
          } else if (kind == 1) {
            batch->Put(key.family(), bytes, change);
            model[bytes] = change;
          } else {
            storage::CountSum sum(bytes);
            EXPECT_TRUE(!model.contains(bytes) || sum.Add(model[bytes]));
            EXPECT_TRUE(sum.Add(change));
            batch->Merge(key.family(), bytes, change);
            model[bytes] = sum.Encode();
          }
        },
        random() % 8 == 0 ? Durability::kSynced : Durability::kBuffered);
    if (random() % 400 == 0) Reopen();
    if (random() % 20 != 0) continue;
    // A sum of zero may be absent.
    const auto is_zero = [](const auto& entry) {
      return storage::CountSum::IsZero(entry.first, entry.second);
    };
    Entries expected(model.begin(), model.end());
    std::erase_if(expected, is_zero);
    Entries found = Read(key.family());
    std::erase_if(found, is_zero);
    ASSERT_EQ(found, expected) << "step " << step;
    for (const auto& [at, sum] : expected) ASSERT_EQ(Get(key.family(), at), sum);
  }
}

TEST_P(KvStoreContract, AZeroSumIsZeroOrAbsent) {
  const StoreKey topic = storage::CountKey(0, storage::TopicId{1});
  const StoreKey day = storage::DayKey(0, storage::TopicId{1}, 0);
  Append([&](KvBatch* batch) {
    batch->Merge(topic.family(), topic.bytes(), Change({2, 20}));
    batch->Merge(topic.family(), topic.bytes(), Change({-2, -20}));
    batch->Merge(day.family(), day.bytes(), DayChange(5, {2, 20}));
    batch->Merge(day.family(), day.bytes(), DayChange(5, {-2, -20}));
  });
  const auto expect_zeros = [&] {
    EXPECT_EQ(Get(topic.family(), topic.bytes()).value_or(Change({})), Change({}));
    EXPECT_EQ(Get(day.family(), day.bytes()).value_or(""), "");
  };
  expect_zeros();
  store_->DropExpired(1);
  expect_zeros();
  Reopen();
  expect_zeros();
  Append([&](KvBatch* batch) {
    batch->Merge(topic.family(), topic.bytes(), Change({1, 10}));
    batch->Merge(day.family(), day.bytes(), DayChange(5, {1, 10}));
  });
  EXPECT_EQ(Get(topic.family(), topic.bytes()), Change({1, 10}));
  EXPECT_EQ(Get(day.family(), day.bytes()), DayChange(5, {1, 10}));
}

TEST_P(KvStoreContract, DropExpiredDropsNothingElse) {
  constexpr uint64_t kUntilMs = 1000;
  const StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  const std::string key(storage::kProgressPrefixBytes, 'k');
  const std::string expired = storage::EncodeNumber(1);
  const ColumnFamily families[] = {ColumnFamily::kMessages, ColumnFamily::kBacklog,
                                   ColumnFamily::kObjects, ColumnFamily::kProgress};
  Append([&](KvBatch* batch) {
    for (const ColumnFamily family : families) batch->Put(family, key, expired);
    for (const ColumnFamily family : {ColumnFamily::kIndex, ColumnFamily::kLocators}) {
      batch->Put(family, "at the time", storage::EncodeNumber(kUntilMs));
      batch->Put(family, "later", storage::EncodeNumber(kUntilMs + 1));
      batch->Put(family, "never", storage::EncodeNumber(0));
      batch->Put(family, "not valid", "");
    }
    batch->Merge(counter.family(), counter.bytes(), Change({1, 10}));
  });
  store_->DropExpired(kUntilMs);
  Append([&](KvBatch* batch) { batch->Merge(counter.family(), counter.bytes(), Change({1, 10})); });
  for (const ColumnFamily family : families) EXPECT_EQ(Get(family, key), expired);
  for (const ColumnFamily family : {ColumnFamily::kIndex, ColumnFamily::kLocators}) {
    EXPECT_EQ(Get(family, "at the time").value_or(storage::EncodeNumber(kUntilMs)),
              storage::EncodeNumber(kUntilMs));
    EXPECT_EQ(Get(family, "later"), storage::EncodeNumber(kUntilMs + 1));
    EXPECT_EQ(Get(family, "never"), storage::EncodeNumber(0));
    EXPECT_EQ(Get(family, "not valid"), "");
  }
  EXPECT_EQ(Get(counter.family(), counter.bytes()), Change({2, 20}));
}

TEST_P(KvStoreContract, AFailedAppendIsFoundWholeOrNotAndFences) {
  const StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  const auto fill = [&](KvBatch* batch) {
    batch->Put(kPlain, "a", "new");
    batch->Delete(kPlain, "b");
    batch->Merge(counter.family(), counter.bytes(), Change({1, 10}));
  };
  Append([&](KvBatch* batch) {
    batch->Put(kPlain, "a", "old");
    batch->Put(kPlain, "b", "old");
    batch->Merge(counter.family(), counter.bytes(), Change({1, 10}));
  });
  const Entries before = {{"a", "old"}, {"b", "old"}};
  const Entries after = {{"a", "new"}};
  harness_->FailNextAppend();
  const absl::Status failed = store_->Append(fill, Durability::kSynced);
  EXPECT_FALSE(failed.ok());
  EXPECT_FALSE(absl::IsFailedPrecondition(failed)) << failed;
  EXPECT_EQ(Read(kPlain), before);
  EXPECT_EQ(Get(counter.family(), counter.bytes()), Change({1, 10}));
  for (const Durability durability : {Durability::kSynced, Durability::kBuffered}) {
    const absl::Status fenced =
        store_->Append([](KvBatch* batch) { batch->Put(kPlain, "c", "new"); }, durability);
    EXPECT_TRUE(absl::IsFailedPrecondition(fenced)) << fenced;
  }
  EXPECT_EQ(Read(kPlain), before) << "a fenced store can be read";
  Reopen();
  const bool found = Get(kPlain, "a") == "new";
  EXPECT_EQ(Read(kPlain), found ? after : before);
  EXPECT_EQ(Get(counter.family(), counter.bytes()), found ? Change({2, 20}) : Change({1, 10}));
  Append([](KvBatch* batch) { batch->Put(kPlain, "c", "new"); });
  EXPECT_EQ(Get(kPlain, "c"), "new");
}

TEST_P(KvStoreContract, AnEmptySyncedAppendMakesEarlierOnesDurable) {
  Append([](KvBatch* batch) { batch->Put(kPlain, "a", "1"); }, Durability::kBuffered);
  Append([](KvBatch* /*batch*/) {}, Durability::kBuffered);
  Append([](KvBatch* /*batch*/) {}, Durability::kSynced);
  harness_->CutPower();
  Reopen();
  EXPECT_EQ(Get(kPlain, "a"), "1");
}

TEST_P(KvStoreContract, APowerCutLosesTheLastAppendsOnly) {
  constexpr size_t kSynced = 3;
  constexpr size_t kAppends = 20;
  const StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  for (int round = 0; round < 5; ++round) {
    const std::string prefix = absl::StrCat(round, "-");
    for (size_t i = 0; i < kAppends; ++i) {
      Append(
          [&](KvBatch* batch) {
            batch->Put(kPlain, Numbered(prefix, i), "value");
            batch->Put(kPlain, absl::StrCat(prefix, "last"), "not the last value");
            batch->Put(kPlain, absl::StrCat(prefix, "last"), absl::StrCat(i));
            if (i == 0) batch->Delete(counter.family(), counter.bytes());
            batch->Merge(counter.family(), counter.bytes(), Change({1, 10}));
          },
          i < kSynced ? Durability::kSynced : Durability::kBuffered);
    }
    harness_->CutPower();
    Reopen();
    const Entries found = Read(kPlain, prefix, absl::StrCat(round, "."));
    ASSERT_GT(found.size(), kSynced) << "the synced appends, and the number of the last one";
    const size_t appends = found.size() - 1;
    for (size_t i = 0; i < appends; ++i) EXPECT_EQ(found[i].first, Numbered(prefix, i));
    EXPECT_EQ(found.back(),
              std::make_pair(absl::StrCat(prefix, "last"), absl::StrCat(appends - 1)));
    const auto count = static_cast<int64_t>(appends);
    EXPECT_EQ(Get(counter.family(), counter.bytes()), Change({count, count * 10}));
  }
}

TEST_P(KvStoreContract, TheRowsOfOneMessageAreFoundAlone) {
  constexpr uint16_t kShard = 3;
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const auto message = [](uint64_t due_ms, uint64_t high, uint64_t low) {
    return storage::MessageKey{due_ms, storage::MessageId{high, low}};
  };
  const storage::MessageKey wanted = message(10, 5, kMax);
  const storage::MessageKey absent = message(10, 6, 1);
  const storage::MessageKey others[] = {message(10, 5, kMax - 1), message(10, 6, 0),
                                        message(9, 5, kMax), message(11, 5, kMax)};
  const auto key = [](const storage::MessageKey& at, uint32_t subscription) {
    return EncodeProgressKey(kShard, at, storage::SubscriptionId{subscription});
  };
  Append([&](KvBatch* batch) {
    for (const storage::MessageKey& other : others) {
      batch->Put(ColumnFamily::kProgress, key(other, 1).bytes(), "other");
    }
    for (const uint32_t subscription : {0u, 7u, 0xFFFFFFFFu}) {
      batch->Put(ColumnFamily::kProgress, key(wanted, subscription).bytes(), "wanted");
    }
  });
  const auto read = [&](const storage::MessageKey& at) {
    const StoreKey begin = storage::ProgressBegin(kShard, at);
    const StoreKey end = storage::ProgressEnd(kShard, at);
    return Read(ColumnFamily::kProgress, begin.bytes(), end.bytes(), OnDamage::kFail);
  };
  EXPECT_THAT(read(wanted), ElementsAre(Pair(key(wanted, 0).bytes(), "wanted"),
                                        Pair(key(wanted, 7).bytes(), "wanted"),
                                        Pair(key(wanted, 0xFFFFFFFFu).bytes(), "wanted")));
  EXPECT_THAT(read(absent), IsEmpty());
  Append([&](KvBatch* batch) { batch->Delete(ColumnFamily::kProgress, key(wanted, 7).bytes()); });
  EXPECT_EQ(read(wanted).size(), 2u);
  EXPECT_EQ(Read(ColumnFamily::kProgress).size(), 6u);
}

// Each append writes one number to both ends of a range, and adds it to a sum. No read sees half of
// one.
TEST_P(KvStoreContract, ReadersRunBesideAppends) {
  constexpr int kAppends = 300;
  const StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  const auto put = [&](int number) {
    Append(
        [&](KvBatch* batch) {
          batch->Put(kPlain, "a", absl::StrCat(number));
          batch->Put(kPlain, Numbered("b", static_cast<size_t>(number)), "");
          batch->Put(kPlain, "z", absl::StrCat(number));
          batch->Merge(counter.family(), counter.bytes(), Change({1, 1}));
        },
        number % 50 == 0 ? Durability::kSynced : Durability::kBuffered);
  };
  put(1);
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      size_t last = 1;
      while (!done) {
        const Entries entries = Read(kPlain);
        ASSERT_GT(entries.size(), last + 1) << "an older state after a newer one";
        last = entries.size() - 2;
        ASSERT_EQ(entries.front().second, absl::StrCat(last));
        ASSERT_EQ(entries.back().second, absl::StrCat(last));
        const auto sum = storage::DecodeCountDelta(*Get(counter.family(), counter.bytes()));
        ASSERT_GE(sum->messages, static_cast<int64_t>(last));
        store_->DropExpired(1);
      }
    });
  }
  for (int number = 2; number <= kAppends; ++number) put(number);
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace duetime::test
