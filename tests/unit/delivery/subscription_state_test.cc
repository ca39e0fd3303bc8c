// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/subscription_state.h"

#include <string>

#include "gtest/gtest.h"

namespace duetime::delivery {
namespace {

SubscriptionState SomeState() {
  SubscriptionState state;
  state.id = storage::SubscriptionId{(uint32_t{1} << 31) + 7};
  state.topic = storage::TopicId{3};
  state.topic_name = "orders";
  state.name = "billing";
  state.settings.retry.max_attempts = 5;
  state.settings.retention_ms = 1000;
  state.settings.retention_max_messages = 123'456'789'012;
  state.settings.retention_policy = RetentionPolicy::kDeadLetter;
  state.start = {.high = 11, .low = 12};
  state.create_ms = 13;
  return state;
}

TEST(SubscriptionStateTest, GoesThereAndBack) {
  const SubscriptionState state = SomeState();
  const auto back = DecodeSubscription(SubscriptionObjectName(state.id), EncodeSubscription(state));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, state.id);
  EXPECT_EQ(back->name, "billing");
  EXPECT_EQ(back->settings, state.settings);
  EXPECT_EQ(back->start, state.start);
}

// What was written before there was a bound has none.
TEST(SubscriptionStateTest, ReadsTheFirstVersion) {
  const SubscriptionState state = SomeState();
  std::string bytes = EncodeSubscription(state);
  bytes[0] = 1;
  bytes.resize(bytes.size() - sizeof(uint64_t));
  const auto back = DecodeSubscription(SubscriptionObjectName(state.id), bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->settings.retention_max_messages, 0u);
  EXPECT_EQ(back->settings.retention_ms, 1000u);
  EXPECT_EQ(back->settings.retention_policy, RetentionPolicy::kDeadLetter);
}

TEST(SubscriptionStateTest, RefusesWhatNobodyWrote) {
  const SubscriptionState state = SomeState();
  const std::string name = SubscriptionObjectName(state.id);
  const std::string bytes = EncodeSubscription(state);
  EXPECT_FALSE(DecodeSubscription(name, "").ok());
  EXPECT_FALSE(DecodeSubscription(name, bytes.substr(0, bytes.size() - 8)).ok());
  EXPECT_FALSE(DecodeSubscription("elsewhere", bytes).ok());
  for (const char version : {'\0', '\1', '\3'}) {
    std::string other = bytes;
    other[0] = version;
    EXPECT_FALSE(DecodeSubscription(name, other).ok());
  }
}

}  // namespace
}  // namespace duetime::delivery
