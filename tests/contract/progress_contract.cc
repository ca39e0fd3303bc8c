// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite about subscriptions: their progress with messages, and the retries in
// their backlogs.
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "storage/subscription_starts.h"
#include "tests/contract/message_store_contract.h"
#include "tests/support/test_seed.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::BacklogEntry;
using storage::BacklogRef;
using storage::Durability;
using storage::MessageId;
using storage::MessageKey;
using storage::Progress;
using storage::ProgressRef;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr SubscriptionId kFirst{7};
constexpr SubscriptionId kSecond{0x80000000};

const Progress kSettled{.state = Progress::State::kSettled, .attempts = 1};
const Progress kFailed{.state = Progress::State::kFailed,
                       .listed = true,
                       .attempts = 0xfffffffe,
                       .retry_ms = 0x0102030405060708,
                       .reason = 255};

Record Put(uint16_t shard, const MessageKey& key, SubscriptionId subscription,
           const Progress& progress) {
  Record record;
  record.type = RecordType::kProgress;
  record.shard = shard;
  record.key = key;
  record.subscription = subscription;
  record.progress = progress;
  return record;
}

Record Remove(uint16_t shard, const MessageKey& key, SubscriptionId subscription) {
  Record record;
  record.type = RecordType::kUnprogress;
  record.shard = shard;
  record.key = key;
  record.subscription = subscription;
  return record;
}

Record Message(uint16_t shard, const MessageKey& key, size_t payload_bytes) {
  const std::string payload(payload_bytes, 'x');
  Record record;
  record.type = RecordType::kAccept;
  record.shard = shard;
  record.key = key;
  record.value = storage::EncodeMessageRecord({.payload = payload});
  return record;
}

std::vector<storage::BucketCount> Done(storage::MessageStore* store, SubscriptionId subscription,
                                       storage::MsRange times = {0, storage::MessageId::kDueMax}) {
  std::vector<storage::BucketCount> counts;
  EXPECT_TRUE(store->ReadDone(0, subscription, times, 1'000, &counts).ok());
  return counts;
}

Record Erased(const Record& message) {
  Record erase;
  erase.type = RecordType::kErase;
  erase.topic = message.topic;
  erase.key = message.key;
  erase.bytes = static_cast<uint32_t>(message.value.size());
  return erase;
}

}  // namespace

TEST_P(MessageStoreContract, ProgressIsKeptByMessageAndSubscription) {
  EXPECT_THAT(*store_->GetProgress(0, Key(5, 5)), IsEmpty());
  constexpr SubscriptionId kLast{std::numeric_limits<uint32_t>::max()};
  Append({Put(0, Key(5, 5), kLast, kSettled), Put(0, Key(5, 5), kSecond, kFailed),
          Put(0, Key(5, 5), SubscriptionId{0}, kSettled), Put(0, Key(5, 6), kFirst, kFailed)});
  EXPECT_THAT(*store_->GetProgress(0, Key(5, 5)),
              ElementsAre(Pair(SubscriptionId{0}, kSettled), Pair(kSecond, kFailed),
                          Pair(kLast, kSettled)));
  EXPECT_THAT(*store_->GetProgress(0, Key(5, 6)), ElementsAre(Pair(kFirst, kFailed)));
  // Keys with a neighbouring time or id, and the same key in another shard.
  for (const MessageKey& key : {Key(4, 5), Key(5, 4), Key(5, 7), Key(6, 5)}) {
    EXPECT_THAT(*store_->GetProgress(0, key), IsEmpty());
  }
  EXPECT_THAT(*store_->GetProgress(1, Key(5, 5)), IsEmpty());

  Append({Put(0, Key(5, 6), kFirst, kSettled)});
  EXPECT_THAT(*store_->GetProgress(0, Key(5, 6)), ElementsAre(Pair(kFirst, kSettled)));
}

TEST_P(MessageStoreContract, ProgressIsRemovedOneByOneAndTheRemovalMayBeRepeated) {
  Append({Put(2, Key(1, 1), kFirst, kFailed), Put(2, Key(1, 1), kSecond, kSettled)});
  Append({Remove(2, Key(1, 1), kFirst), Remove(2, Key(9, 9), kFirst)});
  Append({Remove(2, Key(1, 1), kFirst)});
  EXPECT_THAT(*store_->GetProgress(2, Key(1, 1)), ElementsAre(Pair(kSecond, kSettled)));
  EXPECT_EQ(*store_->GetProgressOf(2, Key(1, 1), kSecond), kSettled);
  EXPECT_EQ(*store_->GetProgressOf(2, Key(1, 1), kFirst), std::nullopt);
  // Records of one batch apply in the order given.
  Append({Remove(2, Key(1, 1), kSecond), Put(2, Key(1, 1), kFirst, kSettled),
          Put(2, Key(1, 1), kFirst, kFailed)});
  EXPECT_THAT(*store_->GetProgress(2, Key(1, 1)), ElementsAre(Pair(kFirst, kFailed)));
}

TEST_P(MessageStoreContract, SettledMessagesAreDoneAsLongAsTheyExist) {
  using storage::BucketCount;
  const MessageKey early = Key(1, 1);
  const MessageKey late = Key(storage::kDayMs + 2, 2);
  Append({Message(0, early, 1), Message(0, late, 1), Put(0, early, kSecond, kSettled),
          Put(0, early, kFirst, kFailed), Put(0, late, kSecond, kFailed)});
  EXPECT_THAT(Done(store_, kSecond), ElementsAre(BucketCount{0, 1, 0}));
  EXPECT_THAT(Done(store_, kFirst), IsEmpty());
  Append({Put(0, late, kSecond, kSettled)});
  Reopen();
  EXPECT_THAT(Done(store_, kSecond),
              ElementsAre(BucketCount{0, 1, 0}, BucketCount{storage::kDayMs, 1, 0}));
  EXPECT_THAT(Done(store_, kSecond, {1, storage::kDayMs}), IsEmpty());
  Record settled = Remove(0, early, kSecond);
  settled.progress.state = Progress::State::kSettled;
  Append({settled, Remove(0, early, kFirst)});
  EXPECT_THAT(Done(store_, kSecond), ElementsAre(BucketCount{storage::kDayMs, 1, 0}));
}

TEST_P(MessageStoreContract, OlderMessagesAreDoneForASubscriptionThatBegins) {
  using storage::BucketCount;
  const auto begin = [](SubscriptionId subscription, const storage::MessageId& first) {
    Record start;
    start.type = RecordType::kObject;
    start.kind = static_cast<uint8_t>(storage::ObjectKind::kSubscriptionStart);
    start.name = absl::StrFormat("%08x", static_cast<uint32_t>(subscription));
    start.value = storage::EncodeSubscriptionStart({.topic = TopicId{7}, .first = first});
    return start;
  };
  const auto message = [](uint64_t due_ms, uint64_t number) {
    Record record = Message(0, Key(due_ms, number), 1);
    record.topic = TopicId{7};
    record.value = storage::EncodeMessageRecord({.header = {.topic = TopicId{7}}, .payload = "x"});
    return record;
  };
  const auto minutes = [&](SubscriptionId subscription) {
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (const BucketCount& one : Done(store_, subscription)) {
      all.emplace_back(one.start_ms / storage::kMinuteMs, one.messages);
    }
    return all;
  };
  const Record one = message(5, 1);
  const Record two = message(storage::kMinuteMs, 2);
  const Record three = message(storage::kMinuteMs, 3);
  Append({one});
  // In the order of the batch: the second is older, the third is not.
  Append({two, begin(kSecond, Key(0, 3).id), three});
  EXPECT_THAT(minutes(kSecond), ElementsAre(Pair(0, 1), Pair(1, 1)));
  // A move of an older message, and the end of one.
  Record moved = one;
  moved.key.due_ms = 3 * storage::kMinuteMs;
  Append({Erased(one), moved, Erased(two), Erased(three)});
  EXPECT_THAT(minutes(kSecond), ElementsAre(Pair(3, 1)));
  Reopen();
  constexpr SubscriptionId kThird{0x80000001};
  Append({begin(kThird, Key(0, 9).id)});
  EXPECT_THAT(minutes(kThird), ElementsAre(Pair(3, 1)));
  Append({Erased(moved)});
  EXPECT_THAT(minutes(kSecond), IsEmpty());
  EXPECT_THAT(minutes(kThird), IsEmpty());
  // The end of a subscription takes its counters along.
  Append({message(7, 10), Put(0, Key(7, 10), kThird, kSettled)});
  EXPECT_THAT(minutes(kThird), ElementsAre(Pair(0, 1)));
  Record end = begin(kThird, {});
  end.type = RecordType::kUnobject;
  Append({end});
  EXPECT_THAT(minutes(kThird), IsEmpty());
  EXPECT_THAT(minutes(kSecond), IsEmpty());
  Append({message(7, 5)});
  EXPECT_THAT(minutes(kThird), IsEmpty());
}

TEST_P(MessageStoreContract, OlderMessagesAreDoneForSixteenSubscriptionsOfATopic) {
  Record older = Message(0, Key(5, 1), 1);
  older.topic = TopicId{7};
  Append({older});
  const auto first = static_cast<uint32_t>(kSecond);
  for (uint32_t i = 0; i < 17; ++i) {
    Record start;
    start.type = RecordType::kObject;
    start.kind = static_cast<uint8_t>(storage::ObjectKind::kSubscriptionStart);
    start.name = absl::StrFormat("%08x", first + i);
    start.value = storage::EncodeSubscriptionStart({.topic = TopicId{7}, .first = Key(0, 9).id});
    Append({start});
  }
  for (int run = 0; run < 2; ++run) {
    for (uint32_t i = 0; i < 17; ++i) {
      EXPECT_EQ(Done(store_, SubscriptionId{first + i}).size(), i < 16 ? 1u : 0u) << i;
    }
    Reopen();
  }
  Append({Erased(older)});
  EXPECT_THAT(Done(store_, kSecond), IsEmpty());
}

TEST_P(MessageStoreContract, ProgressAndMessageAreAtomic) {
  Append({Message(0, Key(1, 1), 10), Put(0, Key(1, 1), kSecond, kFailed)});
  Reopen();
  EXPECT_THAT(*store_->GetProgress(0, Key(1, 1)), ElementsAre(Pair(kSecond, kFailed)));
  Record erase;
  erase.type = RecordType::kErase;
  erase.key = Key(1, 1);
  harness_->FailNextAppend();
  const std::vector<RecordBatch> last = {{erase, Remove(0, Key(1, 1), kSecond)}};
  EXPECT_EQ(store_->Append(last, Durability::kSynced), AppendOutcome::kUnknown);
  Reopen();
  EXPECT_EQ(store_->GetProgress(0, Key(1, 1))->size(),
            store_->Get(0, Key(1, 1))->has_value() ? 1u : 0u);
}

// Random changes compared with a simple model, for messages with and without progress, in memtables
// and in tables.
TEST_P(MessageStoreContract, ProgressIsNeverWrong) {
  std::mt19937_64 random(test::TestSeed(1));
  constexpr uint64_t kMessages = 500;
  std::map<uint64_t, std::map<SubscriptionId, Progress>> model;
  const auto check = [&](uint64_t number) {
    const auto& rows = model[number];
    const std::vector<ProgressRef> expected(rows.begin(), rows.end());
    EXPECT_EQ(*store_->GetProgress(1, Key(number / 4, number)), expected) << "message " << number;
  };
  for (int append = 0; append < 1000; ++append) {
    RecordBatch batch;
    for (uint64_t i = 1 + random() % 6; i != 0; --i) {
      const uint64_t number = random() % kMessages;
      const SubscriptionId subscription{static_cast<uint32_t>(0x80000000 + random() % 4)};
      const MessageKey key = Key(number / 4, number);
      if (random() % 3 == 0) {
        model[number].erase(subscription);
        batch.push_back(Remove(1, key, subscription));
      } else {
        const Progress progress{.attempts = static_cast<uint32_t>(append), .retry_ms = random()};
        model[number][subscription] = progress;
        batch.push_back(Put(1, key, subscription, progress));
      }
    }
    // A large record that fills the memtables.
    batch.push_back(Message(0, Key(1, random() % 100), 3000));
    const std::vector<RecordBatch> group = {std::move(batch)};
    ASSERT_EQ(store_->Append(group, Durability::kBuffered), AppendOutcome::kAccepted);
    if (random() % 100 == 0) Reopen();
    check(random() % kMessages);
  }
  for (uint64_t number = 0; number < kMessages; ++number) check(number);
}

TEST_P(MessageStoreContract, ABacklogEntryKeepsTheDueTimeOfARetriedMessage) {
  const MessageKey own = Key(5, 5);
  const MessageKey retry{900, own.id};
  const BacklogEntry entry{
      .attempts = 2, .bytes = 9, .maybe_delivered = true, .due_ms = own.due_ms};
  Record spill;
  spill.type = RecordType::kSpill;
  spill.subscription = kSecond;
  spill.key = retry;
  spill.backlog = entry;
  Append({spill});
  Reopen();
  EXPECT_EQ(*store_->GetBacklog(0, kSecond, retry), entry);
  EXPECT_EQ(*store_->GetBacklog(0, kSecond, own), std::nullopt);
  EXPECT_THAT(ScanBacklogAll(0, kSecond, 10), ElementsAre(BacklogRef{retry, entry}));
}

}  // namespace duetime::test
