// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/subscription_state.h"

#include <gtest/gtest.h>
#include <string>

#include "absl/strings/escaping.h"

#include "server/base/hex.h"

namespace duetime::protocol {
namespace {

// The bytes that the last program with version 2 wrote for SomeState.
constexpr char kVersion2[] =
    "02030000000000000007000000000000006f7264657273ff070000000000000062696c6c696e670500000000"
    "0000000b000000000000000c000000000000000d000000000000000e00000000000000010000000000000002"
    "0000000000000003000000000000006800000000000000050000000000000006000000000000000500000000"
    "0000006c6f7374ff070000000000000008000000000000000200000000000000141a99be1c000000";

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

TEST(SubscriptionStateTest, ReadsOldVersions) {
  SubscriptionState state = SomeState();
  std::string bytes = *base::HexToBytes(kVersion2);
  ExpectSame(DecodeSubscription(SubscriptionObjectName(state.id), bytes), state);
  // Version 1 does not have the last field.
  bytes[0] = 1;
  bytes.resize(bytes.size() - sizeof(uint64_t));
  state.settings.retention_max_messages = 0;
  ExpectSame(DecodeSubscription(SubscriptionObjectName(state.id), bytes), state);
}

TEST(SubscriptionStateTest, RefusesAnInvalidEncoding) {
  const std::string name = SubscriptionObjectName(SomeState().id);
  const std::string bytes = EncodeSubscription(SomeState());
  const std::string old = *base::HexToBytes(kVersion2);
  const auto refused = [](const std::string& object, const std::string& text) {
    return absl::IsDataLoss(DecodeSubscription(object, text).status());
  };
  EXPECT_TRUE(refused("elsewhere", bytes));
  EXPECT_TRUE(refused("0000000g", bytes));
  for (const std::string& other :
       {std::string(), std::string("\3"), "\4" + bytes.substr(1), bytes.substr(0, bytes.size() - 1),
        old + "x", old.substr(0, old.size() - 8), "\1" + old.substr(1)}) {
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
