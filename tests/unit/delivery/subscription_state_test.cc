// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/subscription_state.h"

#include <string>

#include "gtest/gtest.h"

namespace duetime::delivery {
namespace {

protocol::SubscriptionState SomeState() {
  protocol::SubscriptionState state;
  state.id = storage::SubscriptionId{(uint32_t{1} << 31) + 7};
  state.topic = storage::TopicId{3};
  state.topic_name = "orders";
  state.name = "billing";
  state.settings.retry.max_attempts = 5;
  state.settings.retention_ms = 1000;
  state.settings.retention_max_messages = 123'456'789'012;
  state.settings.retention_policy = protocol::RetentionPolicy::kDeadLetter;
  state.start = {.high = 11, .low = 12};
  state.create_ms = 13;
  return state;
}

TEST(SubscriptionStateTest, GoesThereAndBack) {
  const protocol::SubscriptionState state = SomeState();
  const auto back = protocol::DecodeSubscription(protocol::SubscriptionObjectName(state.id),
                                                 protocol::EncodeSubscription(state));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, state.id);
  EXPECT_EQ(back->name, "billing");
  EXPECT_EQ(back->settings, state.settings);
  EXPECT_EQ(back->start, state.start);
}

// What was written before there was a bound has none.
TEST(SubscriptionStateTest, ReadsTheFirstVersion) {
  const protocol::SubscriptionState state = SomeState();
  std::string bytes = protocol::EncodeSubscription(state);
  bytes[0] = 1;
  bytes.resize(bytes.size() - sizeof(uint64_t));
  const auto back = protocol::DecodeSubscription(protocol::SubscriptionObjectName(state.id), bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->settings.retention_max_messages, 0u);
  EXPECT_EQ(back->settings.retention_ms, 1000u);
  EXPECT_EQ(back->settings.retention_policy, protocol::RetentionPolicy::kDeadLetter);
}

TEST(SubscriptionStateTest, RefusesWhatNobodyWrote) {
  const protocol::SubscriptionState state = SomeState();
  const std::string name = protocol::SubscriptionObjectName(state.id);
  const std::string bytes = protocol::EncodeSubscription(state);
  EXPECT_FALSE(protocol::DecodeSubscription(name, "").ok());
  EXPECT_FALSE(protocol::DecodeSubscription(name, bytes.substr(0, bytes.size() - 8)).ok());
  EXPECT_FALSE(protocol::DecodeSubscription("elsewhere", bytes).ok());
  for (const char version : {'\0', '\1', '\3'}) {
    std::string other = bytes;
    other[0] = version;
    EXPECT_FALSE(protocol::DecodeSubscription(name, other).ok());
  }
}

}  // namespace
}  // namespace duetime::delivery
