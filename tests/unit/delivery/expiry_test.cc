// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/expiry.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/protocol/topic_quota.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using storage::LatePolicy;

class ExpiryTest : public DeliveryWorld {
 protected:
  ExpiryTest() {
    EXPECT_TRUE(writer_.SetQuota(kTopic, quota_).ok());
    p_.expiry->AddLimited(kTopic);
    one_->topic->dead_letter = kDeadLetters;
  }

  // A due message that nobody takes. `ttl_ms`: it expires then; 0: never.
  storage::MessageRef PutDue(uint64_t ttl_ms, LatePolicy policy, bool on_disk) {
    storage::MessageRecord record;
    record.ttl_ms = ttl_ms;
    record.late_policy = policy;
    const storage::MessageRef message = Put(record);
    if (on_disk) {
      core_.backlog.ListNew(message, one_, nullptr);
      Commit();
    } else {
      Ready(one_, message);
    }
    return message;
  }
  // Steps as the shard does. Returns the steps with something to end.
  size_t Walk() {
    size_t busy = 0;
    for (int i = 0; i < 100; ++i) {
      if (p_.expiry->Step(now_)) ++busy;
      Commit();
    }
    return busy;
  }

  const std::shared_ptr<protocol::TopicQuota> quota_ = std::make_shared<protocol::TopicQuota>();
};

TEST_F(ExpiryTest, EndsWhatIsExpiredInAFullTopicWithoutASubscriber) {
  struct Case {
    const char* name;
    uint64_t ttl_ms;
    LatePolicy policy;
    bool full;
    bool paused_by_restore;
    bool ends;
  };
  const std::vector<Case> cases = {
      {"drop", 1'000, LatePolicy::kDrop, true, false, true},
      {"dead letter", 1'000, LatePolicy::kDeadLetter, true, false, true},
      {"deliver late", 1'000, LatePolicy::kDeliver, true, false, false},
      {"not yet", 60'000, LatePolicy::kDrop, true, false, false},
      {"no lifetime", 0, LatePolicy::kDeliver, true, false, false},
      {"there is room", 1'000, LatePolicy::kDrop, false, false, false},
      {"an operator decides first", 1'000, LatePolicy::kDrop, true, true, false},
  };
  for (const Case& c : cases) {
    for (const bool on_disk : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (on_disk ? ", on disk" : ", in memory"));
      const storage::MessageRef message = PutDue(c.ttl_ms, c.policy, on_disk);
      quota_->max = c.full ? 1 : 1'000;
      auto settings = std::make_shared<protocol::TopicSettings>();
      settings->set_paused_by_restore(c.paused_by_restore);
      one_->topic->settings = settings;
      now_.wall_ms += 5'000;
      now_.mono_ms += Expiry::kWalkPeriodMs + 5'000;
      Walk();
      EXPECT_EQ(Stored(message.key), !c.ends);
      EXPECT_EQ(Listed(message.key, *one_), on_disk && !c.ends);
    }
  }
  EXPECT_EQ(stats_.expired, 2u);
  EXPECT_EQ(stats_.dead_lettered, 2u);
}

// A full topic in which nothing is expired costs one page in each period, and not one after the
// other.
TEST_F(ExpiryTest, AWalkThatEndsNothingIsSlow) {
  quota_->max = 1;
  for (int i = 0; i < 450; ++i) PutDue(0, LatePolicy::kDeliver, /*on_disk=*/i % 2 == 0);
  EXPECT_EQ(Walk(), 0u);
  const storage::MessageRef expired = PutDue(1, LatePolicy::kDrop, /*on_disk=*/true);
  now_.wall_ms += 5;
  now_.mono_ms += Expiry::kWalkPeriodMs - 1;
  Walk();
  EXPECT_TRUE(Stored(expired.key)) << "the next walk is later";
  ++now_.mono_ms;
  Walk();
  EXPECT_FALSE(Stored(expired.key)) << "behind two pages";
}

// Messages that are being changed by a call, or that another subscription still needs.
TEST_F(ExpiryTest, EndsAMessageForEachSubscription) {
  Subscription* const other = AddSubscription();
  one_->topic->several = true;
  quota_->max = 1;
  const storage::MessageRef message = PutDue(1, LatePolicy::kDrop, /*on_disk=*/false);
  core_.backlog.ListNew(message, other, nullptr);
  Commit();
  now_.wall_ms += 5;
  key_locks_.Acquire(scheduler::KeyLocks::Name(message.key.id));
  Walk();
  EXPECT_TRUE(Stored(message.key)) << "a call holds it";
  key_locks_.Release(now_, scheduler::KeyLocks::Name(message.key.id), true);
  now_.mono_ms += Expiry::kWalkPeriodMs;
  Walk();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_EQ(quota_->pending, 0);
}

}  // namespace
}  // namespace duetime::delivery
