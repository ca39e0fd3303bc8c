// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite about subscriptions: their progress with messages, and the retries in
// their backlogs.
#include <cstdlib>
#include <limits>
#include <map>
#include <random>

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
  // Records of one batch apply in the order given.
  Append({Remove(2, Key(1, 1), kSecond), Put(2, Key(1, 1), kFirst, kSettled),
          Put(2, Key(1, 1), kFirst, kFailed)});
  EXPECT_THAT(*store_->GetProgress(2, Key(1, 1)), ElementsAre(Pair(kFirst, kFailed)));
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
