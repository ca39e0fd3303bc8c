// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/subscription_state.h"

#include <gtest/gtest.h>
#include <string>

#include "absl/strings/escaping.h"

namespace duetime::protocol {
namespace {

// The bytes that the last program that copied each field of the settings wrote for SomeState.
constexpr char kVersion3[] =
    "03080312076f7264657273ff1a0762696c6c696e6722240801120a080210031868200528061a056c6f7374ff"
    "2007280130083894b4e4f4cb034002290b00000000000000310c00000000000000380d400e4801";

// Every field has a different value. Some texts are not UTF-8.
SubscriptionState SomeState() {
  SubscriptionState state = {.id = storage::SubscriptionId{(uint32_t{1} << 31) + 7},
                             .topic = storage::TopicId{3},
                             .topic_name = "orders\xff",
                             .name = "billing",
                             .start = {.high = 11, .low = 12},
                             .create_ms = 13,
                             .fill_until_ms = 14,
                             .deleting = true};
  SubscriptionSettings& settings = state.settings;
  settings.set_lease_ms(1);
  settings.mutable_retry()->set_min_backoff_ms(2);
  settings.mutable_retry()->set_max_backoff_ms(3);
  settings.mutable_retry()->set_multiplier_percent(104);
  settings.mutable_retry()->set_jitter_percent(5);
  settings.mutable_retry()->set_max_attempts(6);
  settings.set_dead_letter_name("lost\xff");
  settings.set_dead_letter(7);
  settings.set_paused(true);
  settings.set_retention_ms(8);
  settings.set_retention_max_messages(123'456'789'012);
  settings.set_retention_policy(SubscriptionSettings::DEAD_LETTER);
  return state;
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

TEST(SubscriptionStateTest, TheBytesStay) {
  EXPECT_EQ(absl::BytesToHexString(EncodeSubscription(SomeState())), kVersion3);
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
  for (const int policy : {0, 3}) {
    state.settings.set_retention_policy(static_cast<SubscriptionSettings::RetentionPolicy>(policy));
    EXPECT_TRUE(refused(name, EncodeSubscription(state))) << policy;
  }
}

}  // namespace
}  // namespace duetime::protocol
