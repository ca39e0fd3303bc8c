// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/subscriber_state.h"

#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

constexpr int kCredit = 3;
constexpr int kDeliveries = 8;
constexpr int kSettled = 5;

// Leases that ended at the server give the credit back, so the subscriber may hold more deliveries
// than the credit, and settle all of them. The server ends a stream that sends too much at once.
TEST(SubscriberStateTest, ARequestHoldsNoMoreThanTheCredit) {
  SubscriberState state(/*handler_threads=*/1, /*extend_max=*/absl::Hours(1));
  ASSERT_EQ(state.BeginStream(), 0);
  const std::shared_ptr<Frame> frame = state.NewFrame();
  frame->response.mutable_started()->set_max_outstanding_messages(kCredit);
  *frame->response.mutable_started()->mutable_lease_duration() = ToProto(absl::Milliseconds(3));
  for (int i = 0; i < kDeliveries; ++i) {
    frame->response.add_deliveries()->set_lease_token(std::to_string(i));
  }
  state.OnFrame(frame);
  Work work = *state.TakeWork();
  const Settlement settlements[kSettled] = {Settlement::Ack(), Settlement::Nack("busy"),
                                            Settlement::DeadLetter("bad"), Settlement::Release(),
                                            Settlement::Ack()};
  for (int i = 0; i < kSettled; ++i) EXPECT_TRUE(state.Settle(work, i, settlements[i]));

  std::set<std::string> settled;
  std::set<std::string> extended;
  while (settled.size() < kSettled || extended.size() < kDeliveries - kSettled) {
    v1::SubscribeRequest request;
    ASSERT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
    const size_t before = settled.size();
    settled.insert(request.ack().begin(), request.ack().end());
    for (const auto& nack : request.nack()) settled.insert(nack.lease_token());
    for (const auto& release : request.release()) settled.insert(release.lease_token());
    for (const auto& dead : request.dead_letter()) settled.insert(dead.lease_token());
    for (const auto& extend : request.extend()) extended.insert(extend.lease_token());
    const size_t elements = settled.size() - before + static_cast<size_t>(request.extend_size());
    EXPECT_GT(elements, 0u);
    EXPECT_LE(elements, size_t{kCredit});
  }
  EXPECT_EQ(settled, (std::set<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(extended, (std::set<std::string>{"5", "6", "7"}));
  state.FinishWork(std::move(work), kSettled);
  state.EndStream();
}

}  // namespace
}  // namespace duetime::client
