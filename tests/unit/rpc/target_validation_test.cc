// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/target_validation.h"

#include <string>

#include "gtest/gtest.h"

#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

TEST(ValidateTargetTest, ByIdOrByKey) {
  const storage::MessageId id = storage::MessageId::Make(3, 4, 5, 6);
  v1::CancelRequest request;
  api::ValidTarget target;
  request.set_message_id("nonsense");
  EXPECT_EQ(RefusalOf(api::ValidateTarget(request, 3, &target)),
            "INVALID_MESSAGE_ID cancels[3].message_id");
  request.set_message_id(id.ToString());
  ASSERT_TRUE(api::ValidateTarget(request, api::kSingle, &target).ok());
  EXPECT_EQ(target.id, id);
  EXPECT_EQ(target.key, "");
  request.mutable_key()->set_topic("orders");
  request.mutable_key()->set_key("k");
  ASSERT_TRUE(api::ValidateTarget(request, api::kSingle, &target).ok());
  EXPECT_EQ(target.key, "k");
  EXPECT_EQ(target.topic, "orders");
}

TEST(AcceptMsTest, IsRoundedUpIfADelayCountsFromIt) {
  const base::Now begun{.wall_ms = kNow, .mono_ms = 5, .begun_ms = 1};
  v1::RescheduleRequest request;
  EXPECT_EQ(api::AcceptMs(request, begun), kNow);
  request.mutable_deliver_time()->set_seconds(5);
  EXPECT_EQ(api::AcceptMs(request, begun), kNow) << "an absolute time counts from nothing";
  request.mutable_delay();
  EXPECT_EQ(api::AcceptMs(request, begun), kNow) << "no delay: due at once";
  request.mutable_delay()->set_nanos(1);
  EXPECT_EQ(api::AcceptMs(request, begun), kNow + 1);
  request.mutable_delay()->set_seconds(1);
  EXPECT_EQ(api::AcceptMs(request, begun), kNow + 1);
  EXPECT_EQ(api::AcceptMs(request, {.wall_ms = kNow, .mono_ms = 5}), kNow);
}

TEST(ValidateRescheduleTest, TimeAndEtag) {
  v1::RescheduleRequest request;
  api::ValidReschedule valid;
  const api::RequestLimits limits;
  request.set_message_id(storage::MessageId::Make(3, 4, 5, 6).ToString());
  request.mutable_delay()->set_seconds(7);
  ASSERT_TRUE(api::ValidateReschedule(request, limits, kNow, &valid).ok());
  EXPECT_EQ(valid.when.deliver_ms, kNow + 7'000);
  EXPECT_FALSE(valid.etag.has_value());
  for (const uint64_t etag : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    request.set_etag(api::EtagText(etag));
    ASSERT_TRUE(api::ValidateReschedule(request, limits, kNow, &valid).ok());
    EXPECT_EQ(valid.etag, etag);
  }
}

TEST(ValidateViewTest, KnowsItsValues) {
  bool full = true;
  EXPECT_TRUE(api::ValidateView(v1::MESSAGE_VIEW_UNSPECIFIED, &full).ok());
  EXPECT_FALSE(full);
  EXPECT_TRUE(api::ValidateView(v1::MESSAGE_VIEW_FULL, &full).ok());
  EXPECT_TRUE(full);
}

TEST(WithMetadataTest, AddsAPairAndKeepsTheRest) {
  const absl::Status status = api::WithMetadata(api::Invalid("R", "f", "t"), "topic", "orders");
  EXPECT_EQ(status.message(), "f: t");
  const auto detail = base::GetErrorDetail(status);
  const std::vector<std::pair<std::string, std::string>> expected = {{"field", "f"},
                                                                     {"topic", "orders"}};
  EXPECT_EQ(detail->metadata, expected);
  EXPECT_EQ(api::WithMetadata(absl::InternalError("x"), "a", "b"), absl::InternalError("x"));
}

}  // namespace
}  // namespace duetime::rpc
