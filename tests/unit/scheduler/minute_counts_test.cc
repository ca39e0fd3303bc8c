// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/minute_counts.h"

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/scheduler/message_writer.h"
#include "storage/time_units.h"
#include "tests/support/test_seed.h"
#include "tests/support/test_store.h"

namespace duetime::scheduler {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using storage::kMinuteMs;
using storage::MessageId;
using storage::MessageKey;
using storage::TopicId;

constexpr TopicId kCounted{1};

// A writer whose batches are appended and completed when the test says so.
class MinuteCountsTest : public testing::Test {
 protected:
  void Put(TopicId topic, uint64_t due_ms) {
    const MessageKey key = {.due_ms = due_ms, .id = MessageId::Make(1, ++sequence_, 0, due_ms)};
    writer_.Put(key, topic, "m");
    pending_.emplace_back(topic, key);
    ++model_[{topic, MinuteOf(due_ms)}];
  }

  void Erase(size_t index) {
    const auto [topic, key] = pending_[index];
    pending_[index] = pending_.back();
    pending_.pop_back();
    writer_.Erase(key, topic, 1, Durability::kBuffered);
    --model_[{topic, MinuteOf(key.due_ms)}];
  }

  // Takes a batch. Returns false while the writer is settling.
  bool Take() {
    if (writer_.waits_to_count()) return false;
    EXPECT_TRUE(writer_.BeginWaitingCounts().ok());
    if (auto batch = writes_.Take(); batch.has_value()) taken_.push_back(*std::move(batch));
    return true;
  }

  void Append() {
    if (appended_ == taken_.size()) return;
    const PendingWrites::Batch& batch = taken_[appended_++];
    EXPECT_EQ(store_.Append(std::span(&batch.records, 1), Durability::kBuffered),
              AppendOutcome::kAccepted);
  }

  void Complete() {
    if (appended_ == 0) return;
    writes_.Complete({}, taken_.front().sequence, true);
    taken_.pop_front();
    --appended_;
  }

  void Settle() {
    for (;;) {
      while (!taken_.empty()) {
        Append();
        Complete();
      }
      EXPECT_TRUE(Take());
      if (taken_.empty()) return;
    }
  }

  int64_t At(TopicId topic, uint64_t due_ms) {
    const auto messages = writer_.minutes().At(topic, MinuteOf(due_ms));
    EXPECT_TRUE(messages.ok());
    return messages.ok() ? *messages : -1;
  }

  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  PendingWrites writes_;
  MessageWriter writer_{0, &store_, &writes_};
  std::deque<PendingWrites::Batch> taken_;
  // The number of taken batches that the store has.
  size_t appended_ = 0;
  uint64_t sequence_ = 0;
  std::vector<std::pair<TopicId, MessageKey>> pending_;
  std::map<std::pair<TopicId, uint64_t>, int64_t> model_;
};

TEST_F(MinuteCountsTest, WhatIsOnItsWayCountsOnce) {
  writer_.CountMinutes(kCounted, true);
  Put(kCounted, 1);
  EXPECT_EQ(At(kCounted, 0), 1);
  ASSERT_TRUE(Take());
  EXPECT_EQ(At(kCounted, 0), 1);
  Put(kCounted, kMinuteMs - 1);
  Append();
  EXPECT_EQ(At(kCounted, 0), 2);
  Complete();
  EXPECT_EQ(At(kCounted, 0), 2);
  EXPECT_EQ(At(kCounted, kMinuteMs), 0);
  Erase(0);
  EXPECT_EQ(At(kCounted, 0), 1);
}

TEST_F(MinuteCountsTest, BeginsWithWhatTheOpenBatchHas) {
  Put(kCounted, 1);
  Put(kCounted, kMinuteMs);
  Put(kCounted, 1);
  writer_.CountMinutes(kCounted, true);
  EXPECT_EQ(At(kCounted, 0), 2);
  EXPECT_EQ(At(kCounted, kMinuteMs), 1);
}

TEST_F(MinuteCountsTest, BeginsWhenWhatIsOnItsWayIsThere) {
  Put(kCounted, 1);
  ASSERT_TRUE(Take());
  Put(kCounted, 1);
  writer_.CountMinutes(kCounted, true);
  EXPECT_TRUE(writer_.waits_to_count());
  EXPECT_FALSE(writer_.minutes().Has(kCounted));
  Append();
  Put(kCounted, 1);
  EXPECT_FALSE(Take());
  Complete();
  EXPECT_TRUE(Take());
  EXPECT_TRUE(writer_.minutes().Has(kCounted));
  EXPECT_EQ(At(kCounted, 0), 3);
}

TEST_F(MinuteCountsTest, FindsTheFirstMinuteWithRoom) {
  writer_.CountMinutes(kCounted, true);
  for (const uint64_t minute : {2u, 2u, 3u, 3u, 4u, 5u, 5u}) Put(kCounted, minute * kMinuteMs + 7);
  for (uint64_t minute = 100; minute < 300; ++minute) Put(kCounted, minute * kMinuteMs);
  const auto find = [this](uint64_t from, uint64_t until, int64_t max) {
    const auto found =
        writer_.minutes().FirstBelow(kCounted, max, from * kMinuteMs, until * kMinuteMs);
    EXPECT_TRUE(found.ok());
    return found->has_value() ? **found / kMinuteMs : 0;
  };
  for (const bool settled : {false, true}) {
    if (settled) Settle();
    EXPECT_EQ(find(2, 6, 2), 4u);
    EXPECT_EQ(find(2, 4, 2), 0u);
    EXPECT_EQ(find(2, 5, 2), 4u);
    EXPECT_EQ(find(5, 6, 2), 0u);
    EXPECT_EQ(find(5, 7, 2), 6u);
    EXPECT_EQ(find(1, 7, 2), 1u);
    EXPECT_EQ(find(2, 9, 1), 6u);
    EXPECT_EQ(find(3, 3, 9), 0u);
    // The search skips many full minutes.
    EXPECT_EQ(find(100, 300, 1), 0u);
    EXPECT_EQ(find(100, 301, 1), 300u);
  }
}

TEST_F(MinuteCountsTest, KeepsABoundedNumber) {
  writer_.CountMinutes(kCounted, true);
  for (uint64_t minute = 0; minute < 50'000; ++minute) {
    Put(kCounted, minute * kMinuteMs);
    if (minute % 1000 == 0) Settle();
    EXPECT_LT(writer_.minutes().size(), 20'000u);
  }
  for (uint64_t minute = 0; minute < 50'000; minute += 97) {
    EXPECT_EQ(At(kCounted, minute * kMinuteMs), 1);
  }
}

TEST_F(MinuteCountsTest, WhatCannotBeReadIsNotGuessed) {
  writer_.CountMinutes(kCounted, true);
  store_.FailReads(absl::InternalError("bad sector"));
  EXPECT_FALSE(writer_.minutes().At(kCounted, 0).ok());
  EXPECT_FALSE(writer_.BeginWaitingCounts().ok());
}

// Batches may be taken, appended and completed in any order. The counts always include every
// decided message.
TEST_F(MinuteCountsTest, IsExactInAnyOrder) {
  std::mt19937_64 random(test::TestSeed());
  size_t compared = 0;
  for (int step = 0; step < 60'000; ++step) {
    const TopicId topic{static_cast<uint32_t>(1 + random() % 2)};
    switch (random() % 12) {
      case 0:
      case 1:
      case 2:
      case 3:
        Put(topic, random() % (10 * kMinuteMs));
        break;
      case 4:
      case 5:
      case 6:
        if (!pending_.empty()) Erase(random() % pending_.size());
        break;
      case 7:
        Take();
        break;
      case 8:
        Append();
        break;
      case 9:
        Complete();
        break;
      case 10:
        if (random() % 20 == 0) writer_.CountMinutes(topic, random() % 4 > 0);
        break;
      default:
        // Many look-ups of other minutes evict the cached ones.
        if (random() % 1000 == 0) {
          for (uint64_t i = 0; i < 17'000; ++i) At(topic, (100 + i) * kMinuteMs);
        }
    }
    if (!writer_.minutes().Has(topic)) continue;
    const uint64_t minute_ms = random() % 10 * kMinuteMs;
    ASSERT_EQ(At(topic, minute_ms), (model_[{topic, minute_ms}])) << "step " << step;
    ++compared;
  }
  EXPECT_GT(compared, 1000u);
}

}  // namespace
}  // namespace duetime::scheduler
