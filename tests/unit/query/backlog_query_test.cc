// SPDX-License-Identifier: Apache-2.0
#include "server/query/backlog_query.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/protocol/subscription_state.h"
#include "storage/message_record.h"
#include "storage/subscription_starts.h"
#include "storage/time_units.h"
#include "tests/support/test_store.h"

namespace duetime::query {
namespace {

using storage::kMinuteMs;
using storage::MessageId;
using storage::MessageKey;
using storage::Progress;
using storage::Record;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;
using testing::ElementsAre;

constexpr TopicId kTopic{7};
constexpr SubscriptionId kFirst = storage::FirstSubscription(kTopic);
constexpr SubscriptionId kSecond{storage::kSecondSubscription};
// In the middle of a minute.
constexpr uint64_t kNow = 1'000 * kMinuteMs + 30'000;
constexpr uint64_t kMinute = 1'000 * kMinuteMs;

class BacklogQueryTest : public ::testing::Test {
 protected:
  MessageKey Add(uint64_t due_ms, TopicId topic = kTopic, uint16_t shard = 0) {
    Record accept;
    accept.type = RecordType::kAccept;
    accept.shard = shard;
    accept.topic = topic;
    accept.key = {.due_ms = due_ms, .id = MessageId::Make(1, ++next_, 0, due_ms)};
    accept.value = storage::EncodeMessageRecord({.header = {.topic = topic}, .payload = "x"});
    Append(accept);
    return accept.key;
  }
  void Settle(const MessageKey& key, SubscriptionId subscription) {
    Record record;
    record.type = RecordType::kProgress;
    record.key = key;
    record.subscription = subscription;
    record.progress = {.state = Progress::State::kSettled, .attempts = 1};
    Append(record);
  }
  void Begin(SubscriptionId subscription) {
    Record record;
    record.type = RecordType::kObject;
    record.kind = static_cast<uint8_t>(storage::ObjectKind::kSubscriptionStart);
    record.name = protocol::SubscriptionObjectName(subscription);
    record.value = storage::EncodeSubscriptionStart(
        {.topic = kTopic, .first = MessageId::Make(1, next_ + 1, 0, 0)});
    Append(record);
  }
  std::vector<Backlog> Read(const BacklogBudget& budget = {}) {
    const std::vector<SubscriptionId> both = {kFirst, kSecond};
    std::vector<Backlog> backlogs;
    EXPECT_TRUE(ReadBacklogs(&store_, kTopic, both, kNow, budget, &backlogs).ok());
    return backlogs;
  }

 private:
  void Append(const Record& record) {
    ASSERT_EQ(store_.Append(std::vector<storage::RecordBatch>{{record}}, {}),
              storage::AppendOutcome::kAccepted);
  }

  test::TestDisk disk_{2};
  test::TestStore store_{&disk_};
  uint64_t next_ = 0;
};

TEST_F(BacklogQueryTest, CountsWhatIsDueAndNotSettled) {
  EXPECT_THAT(Read(), ElementsAre(Backlog{}, Backlog{}));
  Add(kNow + 1);
  Add(kMinute, TopicId{8});
  EXPECT_THAT(Read(), ElementsAre(Backlog{}, Backlog{}));
  const MessageKey old = Add(kMinuteMs);
  const MessageKey late = Add(kMinute + 1);
  Add(kNow, kTopic, 1);
  EXPECT_THAT(Read(), ElementsAre(Backlog{3, kMinuteMs}, Backlog{3, kMinuteMs}));
  Settle(old, kSecond);
  EXPECT_THAT(Read(), ElementsAre(Backlog{3, kMinuteMs}, Backlog{2, kMinute + 1}));
  Settle(late, kSecond);
  EXPECT_THAT(Read(), ElementsAre(Backlog{3, kMinuteMs}, Backlog{1, kNow}));
}

TEST_F(BacklogQueryTest, TheOldestIsFoundAmongSettledOnes) {
  const MessageKey first = Add(kMinute);
  const MessageKey second = Add(kMinute + 1);
  Add(kMinute + 2);
  Settle(first, kSecond);
  Settle(second, kSecond);
  EXPECT_THAT(Read(), ElementsAre(Backlog{3, kMinute}, Backlog{1, kMinute + 2}));
  EXPECT_THAT(Read({.progress = 2}), ElementsAre(Backlog{3, kMinute}, Backlog{1, kMinute}));
}

// A subscription that gets no older message: not those that are due, and not those of this minute
// that will be.
TEST_F(BacklogQueryTest, OlderMessagesAreLeftOut) {
  Add(kMinute);
  Add(kNow + 1);
  Begin(kSecond);
  Add(kMinute + 5);
  EXPECT_THAT(Read(), ElementsAre(Backlog{2, kMinute}, Backlog{1, kMinute + 5}));
}

// Messages of other topics do not hide the oldest one.
TEST_F(BacklogQueryTest, OtherTopicsArePassed) {
  for (int i = 0; i < 300; ++i) Add(kMinute + 1, TopicId{8});
  Add(kMinute + 2);
  EXPECT_THAT(Read(), ElementsAre(Backlog{1, kMinute + 2}, Backlog{1, kMinute + 2}));
}

TEST_F(BacklogQueryTest, TheLastMinuteIsCountedUpToItsBudget) {
  for (int i = 0; i < 4; ++i) Add(kMinute + 1);
  Add(kMinute - 1);
  EXPECT_THAT(Read({.counted = 3}), ElementsAre(Backlog{4, kMinute - 1}, Backlog{4, kMinute - 1}));
}

}  // namespace
}  // namespace duetime::query
