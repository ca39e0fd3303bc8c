// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_locks.h"

#include "server/base/error.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using MessageLocksTest = MessagesFixture;

TEST_F(MessageLocksTest, NamesOfDifferentUsesDiffer) {
  EXPECT_FALSE(MessageLocks::KeyName(kTopic, "a") == MessageLocks::RequestName(kTopic, "a"));
  EXPECT_FALSE(MessageLocks::KeyName(kTopic, "a") ==
               MessageLocks::KeyName(storage::TopicId{2}, "a"));
  EXPECT_TRUE(MessageLocks::KeyName(kTopic, "a") == MessageLocks::KeyName(kTopic, "a"));
}

TEST_F(MessageLocksTest, AWaiterRunsWhenTheNameIsUnlocked) {
  const auto name = MessageLocks::KeyName(kTopic, "a");
  locks_.Lock(name);
  int runs = 0;
  locks_.Wait(name, [&](base::Now, bool ok) { runs += ok ? 1 : 100; });
  EXPECT_EQ(runs, 0);
  locks_.Unlock(now_, name, true);
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(locks_.Locked(name));
}

TEST_F(MessageLocksTest, ASettlementInFlightIsAChange) {
  const storage::MessageId id = Scheduled(100);
  const auto tokens = Deliver(200);
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_FALSE(locks_.ChangeInFlight(id));
  Ack(tokens[0]);
  EXPECT_TRUE(locks_.ChangeInFlight(id));
  bool ran = false;
  locks_.Wait(MessageLocks::Name(id), [&](base::Now, bool ok) { ran = ok; });
  EXPECT_FALSE(ran);
  Commit();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(locks_.ChangeInFlight(id));
}

TEST_F(MessageLocksTest, RefusesMoreWaitersThanTheLimit) {
  const delivery::Core core = WithLimits();
  MessageLocks locks(core, p_.ends);
  const auto name = MessageLocks::KeyName(kTopic, "a");
  locks.Lock(name);
  for (size_t i = 0; i < limits_.waiting_max; ++i) {
    EXPECT_TRUE(locks.CheckRoom().ok());
    locks.Wait(name, [](base::Now, bool) {});
  }
  EXPECT_EQ(base::GetErrorDetail(locks.CheckRoom())->reason, "OVERLOADED");
  locks.Unlock(now_, name, true);
  EXPECT_TRUE(locks.CheckRoom().ok());
}

TEST_F(MessageLocksTest, TheLimitCountsThoseThatWaitForASettlement) {
  const delivery::Core core = WithLimits();
  MessageLocks locks(core, p_.ends);
  const storage::MessageId id = Scheduled(100);
  Ack(Deliver(200).at(0));
  for (size_t i = 0; i < limits_.waiting_max; ++i) {
    EXPECT_TRUE(locks.CheckRoom().ok());
    locks.Wait(MessageLocks::Name(id), [](base::Now, bool) {});
  }
  ASSERT_FALSE(locks.CheckRoom().ok());
  EXPECT_EQ(base::GetErrorDetail(locks.CheckRoom())->reason, "OVERLOADED");
  Commit();
  EXPECT_TRUE(locks.CheckRoom().ok());
}

}  // namespace
}  // namespace duetime::messages
