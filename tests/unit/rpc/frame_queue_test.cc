// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/frame_queue.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/protocol/lease_token.h"

namespace duetime::rpc {
namespace {

std::string Text(uint64_t token) {
  std::string text;
  protocol::WriteLease(protocol::LeaseToken{token}, &text);
  return text;
}

constexpr base::Now kAtStart = {.wall_ms = 5'000, .mono_ms = 1'000};

protocol::Delivery MakeDelivery(uint64_t token, size_t payload) {
  protocol::Delivery delivery;
  delivery.id = storage::MessageId::Make(1, token, 0, 4'000);
  delivery.token = protocol::LeaseToken{token};
  delivery.attempt = 1;
  delivery.dispatch_ms = 4'321;
  const std::string text(payload, 'p');
  delivery.record = storage::EncodeMessageRecord(
      {.header = {.topic = storage::TopicId{1}, .deliver_ms = 4'000, .accept_ms = 3'000},
       .attributes = {{"key", "value"}},
       .payload = text});
  return delivery;
}

std::vector<protocol::Delivery> Deliveries(uint64_t first, size_t count, size_t payload) {
  std::vector<protocol::Delivery> deliveries;
  for (size_t i = 0; i < count; ++i) deliveries.push_back(MakeDelivery(first + i, payload));
  return deliveries;
}

class FrameQueueTest : public ::testing::Test {
 protected:
  FrameQueueTest() { queue_.set_lease_ms(30'000); }

  size_t Fill(base::Now now = kAtStart) {
    response_.Clear();
    return queue_.Fill(now, &response_, &damaged_);
  }

  api::FrameQueue queue_;
  v1::SubscribeResponse response_;
  std::vector<protocol::LeaseToken> damaged_;
};

TEST_F(FrameQueueTest, MergesEverythingIntoOneResponse) {
  queue_.AddDeliveries(kAtStart, Deliveries(1, 2, 10));
  queue_.AddDeliveries(kAtStart, Deliveries(3, 1, 10));
  queue_.AddSettled(protocol::LeaseToken{77});
  queue_.AddRefused(protocol::LeaseToken{88}, v1::SettleRefusal::REASON_OUT_OF_RANGE);
  EXPECT_EQ(queue_.confirmations(), 2u);
  EXPECT_GT(Fill(), 0u);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.bytes(), 0u);
  ASSERT_EQ(response_.deliveries_size(), 3);
  const v1::Delivery& delivery = response_.deliveries(0);
  EXPECT_EQ(delivery.message_id(), storage::MessageId::Make(1, 1, 0, 4'000).ToString());
  EXPECT_EQ(delivery.payload(), "pppppppppp");
  EXPECT_EQ(delivery.attributes().at("key"), "value");
  EXPECT_EQ(delivery.deliver_time().seconds(), 4);
  EXPECT_EQ(delivery.accept_time().seconds(), 3);
  EXPECT_EQ(delivery.lateness().nanos(), 321'000'000);
  EXPECT_EQ(response_.deliveries(2).lease_token(), Text(3));
  EXPECT_EQ(response_.settled(0), Text(77));
  EXPECT_EQ(response_.refused(0).lease_token(), Text(88));
  EXPECT_EQ(response_.refused(0).reason(), v1::SettleRefusal::REASON_OUT_OF_RANGE);
  EXPECT_EQ(Fill(), 0u);
}

TEST_F(FrameQueueTest, LatenessIsNeverNegative) {
  std::vector<protocol::Delivery> deliveries = Deliveries(1, 1, 10);
  deliveries[0].dispatch_ms = 3'999;
  queue_.AddDeliveries(kAtStart, std::move(deliveries));
  Fill();
  EXPECT_EQ(response_.deliveries(0).lateness().nanos(), 0);
}

TEST_F(FrameQueueTest, HasALimitOfMessages) {
  queue_.AddDeliveries(kAtStart, Deliveries(1, api::FrameQueue::kFrameMessagesMax + 1, 1));
  Fill();
  EXPECT_EQ(response_.deliveries_size(), static_cast<int>(api::FrameQueue::kFrameMessagesMax));
  EXPECT_FALSE(queue_.empty());
  Fill();
  ASSERT_EQ(response_.deliveries_size(), 1);
  EXPECT_EQ(response_.deliveries(0).lease_token(), Text(api::FrameQueue::kFrameMessagesMax + 1));
}

TEST_F(FrameQueueTest, HasALimitOfBytesButAlwaysSendsOne) {
  queue_.AddDeliveries(kAtStart, Deliveries(1, 5, 100'000));
  Fill();
  EXPECT_EQ(response_.deliveries_size(), 2);
  EXPECT_LE(response_.ByteSizeLong(), api::FrameQueue::kFrameBytesMax);
  Fill();
  Fill();
  EXPECT_TRUE(queue_.empty());
  queue_.AddDeliveries(kAtStart, Deliveries(9, 2, 1'000'000));
  Fill();
  EXPECT_EQ(response_.deliveries_size(), 1);
}

TEST_F(FrameQueueTest, ConfirmationsHaveTheLimitToo) {
  constexpr size_t kTokens = 50'000;
  for (uint64_t i = 0; i < kTokens; ++i) {
    queue_.AddSettled(protocol::LeaseToken{i});
    queue_.AddRefused(protocol::LeaseToken{i}, v1::SettleRefusal::REASON_LEASE_LOST);
  }
  size_t settled = 0;
  size_t refused = 0;
  while (Fill() > 0) {
    EXPECT_LE(response_.ByteSizeLong(), api::FrameQueue::kFrameBytesMax + 100);
    settled += static_cast<size_t>(response_.settled_size());
    refused += static_cast<size_t>(response_.refused_size());
  }
  EXPECT_EQ(settled, kTokens);
  EXPECT_EQ(refused, kTokens);
}

// A client matches the answers of a token to its requests by their order.
TEST_F(FrameQueueTest, NoConfirmationOvertakesAnEarlierOneOfTheSameToken) {
  constexpr protocol::LeaseToken kToken{1};
  queue_.AddBegun(kToken);
  queue_.AddExtended(kToken);
  for (size_t i = 0; i < 30'000; ++i) queue_.AddSettled(kToken);
  Fill();
  EXPECT_EQ(response_.begun_size(), 1);
  EXPECT_EQ(response_.extended_size(), 1);
  EXPECT_FALSE(queue_.empty());
}

TEST_F(FrameQueueTest, DropsWhatHasExpiredWhileItWaited) {
  queue_.AddDeliveries(kAtStart, Deliveries(1, 3, 1'000));
  base::Now later = kAtStart;
  later.mono_ms += 29'999;
  queue_.AddDeliveries(later, Deliveries(4, 3, 1'000));
  EXPECT_GT(queue_.bytes(), 6'000u);
  later.mono_ms += 1;
  queue_.AddDeliveries(later, Deliveries(7, 3, 1'000));
  EXPECT_LT(queue_.bytes(), 7'000u);
  EXPECT_EQ(queue_.TakeDropped(), 3);
  Fill(later);
  ASSERT_EQ(response_.deliveries_size(), 6);
  EXPECT_EQ(response_.deliveries(0).lease_token(), Text(4));
}

TEST_F(FrameQueueTest, NamesDamagedRecordsAndGoesOn) {
  std::vector<protocol::Delivery> deliveries = Deliveries(1, 3, 10);
  deliveries[1].record.back() = 'q';
  queue_.AddDeliveries(kAtStart, std::move(deliveries));
  Fill();
  EXPECT_EQ(response_.deliveries_size(), 2);
  ASSERT_EQ(damaged_.size(), 1u);
  EXPECT_EQ(damaged_[0], protocol::LeaseToken{2});
  EXPECT_EQ(queue_.TakeDropped(), 1);
  EXPECT_EQ(queue_.TakeDropped(), 0) << "each is told once";
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FrameQueueTest, ClearForgetsEverything) {
  queue_.AddDeliveries(kAtStart, Deliveries(1, 3, 10));
  queue_.AddSettled(protocol::LeaseToken{1});
  queue_.Clear();
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.bytes(), 0u);
}

}  // namespace
}  // namespace duetime::rpc
