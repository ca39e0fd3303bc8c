// SPDX-License-Identifier: Apache-2.0
//
// The journal of a cell on brokers: two members, a change of leader, and faults of the brokers.
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/cell/replica.h"
#include "server/cell/replicated_journal.h"
#include "tests/support/number_state.h"
#include "tests/unit/kafka/mock_brokers.h"

namespace duetime::kafka {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using test::MockBrokers;
using ::testing::ElementsAre;

struct Member {
  Member(const MockBrokers& brokers, uint64_t seed)
      : log(brokers.Open()), journal(log.get(), &replica, [seed] { return seed; }) {}
  AppendOutcome Append(uint32_t number) {
    return journal.Append(test::GroupOf(number), Durability::kSynced);
  }

  std::unique_ptr<KafkaLog> log;
  test::NumberState state;
  cell::Replica replica{log.get(), &state};
  cell::ReplicatedJournal journal;
};

TEST(ReplicatedJournalKafkaTest, TheNextLeaderFencesTheLast) {
  const MockBrokers brokers;
  Member a(brokers, 1);
  Member b(brokers, 2);
  ASSERT_TRUE(a.journal.Lead().ok());
  for (uint32_t i = 1; i <= 5; ++i) EXPECT_EQ(a.Append(i), AppendOutcome::kAccepted);
  ASSERT_TRUE(b.journal.Lead().ok());
  EXPECT_THAT(b.state.numbers(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(a.Append(6), AppendOutcome::kFenced);
  EXPECT_EQ(b.Append(7), AppendOutcome::kAccepted);
  ASSERT_TRUE(a.journal.Follow().ok());
  EXPECT_THAT(a.state.numbers(), ElementsAre(1, 2, 3, 4, 5, 7));
  EXPECT_EQ(a.state.numbers(), b.state.numbers());
}

TEST(ReplicatedJournalKafkaTest, EachGroupCountsOnceWhileBrokersFail) {
  MockBrokers brokers;
  Member a(brokers, 1);
  ASSERT_TRUE(a.journal.Lead().ok());
  std::vector<uint32_t> all;
  for (uint32_t i = 1; i <= 12; ++i) {
    switch (i % 4) {
      case 0:
        brokers.SetLeader(static_cast<int>(i / 4 % 3) + 1);
        break;
      case 1:
        brokers.FailNext(MockBrokers::kProduce, {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS});
        break;
      case 2:
        brokers.FailNext(MockBrokers::kFetch, {RD_KAFKA_RESP_ERR_UNKNOWN});
        break;
      default:
        brokers.FailNext(MockBrokers::kProduce, {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT});
        brokers.FailNext(MockBrokers::kListOffsets, {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE});
    }
    EXPECT_EQ(a.Append(i), AppendOutcome::kAccepted);
    all.push_back(i);
  }
  EXPECT_EQ(a.state.numbers(), all);
  Member b(brokers, 2);
  absl::Status followed = b.journal.Follow();
  for (int i = 0; i < 30 && !followed.ok(); ++i) followed = b.journal.Follow();
  EXPECT_EQ(b.state.numbers(), all);
}

}  // namespace
}  // namespace duetime::kafka
