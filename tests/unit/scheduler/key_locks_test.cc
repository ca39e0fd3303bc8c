// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/key_locks.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::scheduler {
namespace {

class KeyLocksTest : public testing::Test {
 protected:
  // Records its number when it is woken, and locks the name again if `lock`.
  void Wait(int number, bool lock = false) {
    locks_.Wait(name_, [this, number, lock](base::Now, bool ok) {
      ran_.push_back(ok ? number : -number);
      if (lock) locks_.Acquire(name_);
    });
  }

  // Waits for a change (c), a change that may join (j), or a read (r). A change locks the name if
  // it is free.
  void WaitAs(char what) {
    const auto kind = what == 'c'   ? KeyLocks::Kind::kChange
                      : what == 'j' ? KeyLocks::Kind::kJoin
                                    : KeyLocks::Kind::kRead;
    const auto run = [this, what](base::Now, bool ok) {
      order_ += what;
      if (ok && what != 'r' && !locks_.Locked(name_)) locks_.Acquire(name_);
    };
    locks_.Wait(name_, run, kind);
  }
  // Releases the lock until nobody acquires it again. Returns who ran after each release.
  std::string ReleaseAll(bool may_join) {
    order_.clear();
    while (locks_.Locked(name_)) {
      locks_.Release({}, name_, true, [may_join] { return may_join; });
      order_ += '|';
    }
    return order_;
  }

  KeyLocks locks_;
  const KeyLocks::Name name_{1, storage::TopicId{1}, "a"};
  std::vector<int> ran_;
  std::string order_;
};

TEST_F(KeyLocksTest, NamesDifferInEachOfTheirParts) {
  const storage::TopicId one{1};
  const storage::TopicId two{2};
  EXPECT_TRUE(name_ == KeyLocks::Name(1, one, "a"));
  EXPECT_FALSE(name_ == KeyLocks::Name(2, one, "a"));
  EXPECT_FALSE(name_ == KeyLocks::Name(1, two, "a"));
  EXPECT_FALSE(name_ == KeyLocks::Name(1, one, "b"));
  const auto id = storage::MessageId::Make(1, 2, 3, 4);
  locks_.Acquire(KeyLocks::Name(id));
  EXPECT_TRUE(locks_.Locked(id));
  EXPECT_FALSE(locks_.Locked(name_));
}

TEST_F(KeyLocksTest, G1_WaitersRunInOrder) {
  locks_.Acquire(name_);
  for (int i = 1; i <= 3; ++i) Wait(i);
  EXPECT_EQ(locks_.waiting(), 3u);
  locks_.Release({}, name_, true);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(locks_.waiting(), 0u);
  EXPECT_EQ(locks_.locked(), 0u);
}

TEST_F(KeyLocksTest, G1_AWaiterThatLocksAgainComesBeforeTheRest) {
  locks_.Acquire(name_);
  Wait(1);
  Wait(2, /*lock=*/true);
  Wait(3);
  locks_.Release({}, name_, true);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2}));
  EXPECT_EQ(locks_.waiting(), 1u);
  Wait(4);
  locks_.Release({}, name_, true);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(KeyLocksTest, G1_WaitersPrecedeThoseThatComeWhileAWaiterRuns) {
  locks_.Acquire(name_);
  locks_.Wait(name_, [this](base::Now, bool) {
    locks_.Acquire(name_);
    Wait(3);
  });
  Wait(2);
  locks_.Release({}, name_, true);
  EXPECT_TRUE(ran_.empty());
  locks_.Release({}, name_, true);
  EXPECT_EQ(ran_, (std::vector<int>{2, 3}));
}

TEST_F(KeyLocksTest, G1_ThoseThatMayJoinRunWithTheChangeBeforeThem) {
  struct Case {
    std::string waiters;
    bool may_join;
    std::string runs;
  };
  const Case cases[] = {
      {"jjj", true, "jjj||"},        {"jjj", false, "j|j|j||"}, {"cjc", true, "cj|c||"},
      {"jrjcj", true, "jj|rcj||"},   {"jrr", true, "j|rr|"},    {"rrj", true, "rrj||"},
      {"jrrjj", false, "j|rrj|j||"}, {"jrcj", true, "j|rcj||"}, {"", true, "|"},
  };
  for (const Case& one : cases) {
    locks_.Acquire(name_);
    for (const char what : one.waiters) WaitAs(what);
    EXPECT_EQ(locks_.AnyWaits(name_), !one.waiters.empty());
    EXPECT_EQ(ReleaseAll(one.may_join), one.runs) << one.waiters;
    EXPECT_EQ(locks_.waiting(), 0u);
  }
}

TEST_F(KeyLocksTest, NothingJoinsBehindAWaiterThatWaitsAgain) {
  locks_.Acquire(name_);
  WaitAs('j');
  locks_.Wait(
      name_, [this](base::Now, bool) { WaitAs('c'); }, KeyLocks::Kind::kJoin);
  WaitAs('j');
  EXPECT_EQ(ReleaseAll(true), "j|j|c||");
}

TEST_F(KeyLocksTest, G2_AFailureRunsEachWaiterOnce) {
  locks_.Acquire(name_);
  for (int i = 1; i <= 3; ++i) Wait(i);
  locks_.Release({}, name_, false);
  EXPECT_EQ(ran_, (std::vector<int>{-1, -2, -3}));
}

TEST_F(KeyLocksTest, ChecksItsCallers) {
  EXPECT_DEATH(locks_.Release({}, name_, true), "end");
  EXPECT_DEATH(locks_.Wait(name_, [](base::Now, bool) {}), "end");
  locks_.Acquire(name_);
  EXPECT_DEATH(locks_.Acquire(name_), "second");
}

}  // namespace
}  // namespace duetime::scheduler
