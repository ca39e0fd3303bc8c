// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/subscription_state.h"

#include <gtest/gtest.h>
#include <string>

#include "absl/strings/escaping.h"

namespace duetime::protocol {
namespace {

// Every field has a different value. Some texts are not UTF-8.
SubscriptionState SomeState() {
  return {.id = storage::SubscriptionId{(uint32_t{1} << 31) + 7},
          .topic = storage::TopicId{3},
          .topic_name = "orders\xff",
          .name = "billing",
          .settings = {.lease_ms = 1,
                       .retry = {.min_backoff_ms = 2,
                                 .max_backoff_ms = 3,
                                 .multiplier_percent = 104,
                                 .jitter_percent = 5,
                                 .max_attempts = 6},
                       .dead_letter_name = "lost\xff",
                       .dead_letter = storage::TopicId{7},
                       .paused = true,
                       .retention_ms = 8,
                       .retention_max_messages = 123'456'789'012,
                       .retention_policy = RetentionPolicy::kDeadLetter},
          .start = {.high = 11, .low = 12},
          .create_ms = 13,
          .fill_until_ms = 14,
          .deleting = true};
}

void ExpectSame(const absl::StatusOr<SubscriptionState>& back, const SubscriptionState& state) {
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, state.id);
  EXPECT_EQ(back->topic, state.topic);
  EXPECT_EQ(back->topic_name, state.topic_name);
  EXPECT_EQ(back->name, state.name);
  EXPECT_EQ(back->settings, state.settings);
  EXPECT_EQ(back->start, state.start);
  EXPECT_EQ(back->create_ms, state.create_ms);
  EXPECT_EQ(back->fill_until_ms, state.fill_until_ms);
  EXPECT_EQ(back->deleting, state.deleting);
  EXPECT_EQ(back->deleted, state.deleted);
}

TEST(SubscriptionStateTest, GoesThereAndBack) {
  SubscriptionState state = SomeState();
  ExpectSame(DecodeSubscription(SubscriptionObjectName(state.id), EncodeSubscription(state)),
             state);
  state.deleted = true;
  ExpectSame(DecodeSubscription(SubscriptionObjectName(state.id), EncodeSubscription(state)),
             state);
}

TEST(SubscriptionStateTest, RefusesAnInvalidEncoding) {
  const std::string name = SubscriptionObjectName(SomeState().id);
  const std::string bytes = EncodeSubscription(SomeState());
  const auto refused = [](const std::string& object, const std::string& text) {
    return absl::IsDataLoss(DecodeSubscription(object, text).status());
  };
  EXPECT_TRUE(refused("elsewhere", bytes));
  EXPECT_TRUE(refused("0000000g", bytes));
  for (const std::string& other :
       {std::string(), std::string("\3"), "\1" + bytes.substr(1), "\2" + bytes.substr(1),
        "\4" + bytes.substr(1), bytes.substr(0, bytes.size() - 1)}) {
    EXPECT_TRUE(refused(name, other)) << absl::BytesToHexString(other);
  }
  SubscriptionState state = SomeState();
  for (const uint8_t policy : {uint8_t{0}, uint8_t{3}}) {
    state.settings.retention_policy = RetentionPolicy{policy};
    EXPECT_TRUE(refused(name, EncodeSubscription(state))) << int{policy};
  }
}

}  // namespace
}  // namespace duetime::protocol
