// SPDX-License-Identifier: Apache-2.0
#include "server/api/request_validation.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

#include "server/api/proto_time.h"
#include "server/base/error.h"
#include "server/rpc/message_io.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

api::RequestLimits SmallLimits() {
  api::RequestLimits limits;
  limits.horizon_ms = 1'000'000;
  limits.payload_bytes_max = 100;
  limits.attributes_max = 3;
  limits.attributes_bytes_max = 600;
  limits.batch_messages_max = 10;
  limits.batch_bytes_max = 1000;
  limits.outstanding_messages_max = 5000;
  return limits;
}

TEST(ParseBatchTest, LimitsCountAndBytes) {
  const auto reason = [](int messages, size_t bytes) {
    v1::ScheduleBatchRequest request;
    for (int i = 0; i < messages; ++i) request.add_messages();
    if (const size_t size = request.ByteSizeLong(); messages > 0 && size < bytes) {
      // The payload has a tag, two bytes of length, and makes the length of its message longer.
      request.mutable_messages(0)->set_payload(std::string(bytes - size - 4, 'p'));
    }
    grpc::ByteBuffer buffer;
    rpc::SerializeResponse(request, &buffer);
    EXPECT_EQ(buffer.Length(), std::max(bytes, request.ByteSizeLong()));
    v1::ScheduleBatchRequest parsed;
    const absl::Status status = api::ParseBatch(SmallLimits(), &buffer, &parsed);
    EXPECT_EQ(parsed.messages_size(), status.ok() ? messages : 0);
    return ReasonOf(status);
  };
  EXPECT_EQ(reason(0, 0), "OK");
  EXPECT_EQ(reason(9, 999), "OK");
  EXPECT_EQ(reason(10, 1000), "OK");
  EXPECT_EQ(reason(11, 1000), "BATCH_TOO_LARGE");
  EXPECT_EQ(reason(10, 1001), "BATCH_TOO_LARGE");
  EXPECT_EQ(reason(2, 1001), "BATCH_TOO_LARGE");
  EXPECT_EQ(reason(1, 1001), "OK");
}

TEST(ValidateStartTest, FillsInTheDefaults) {
  v1::SubscribeStart start;
  start.set_topic("orders");
  api::ValidStart valid;
  ASSERT_TRUE(api::ValidateStart(start, SmallLimits(), &valid).ok());
  EXPECT_EQ(valid.max_outstanding_messages, 1000);
  EXPECT_EQ(valid.max_outstanding_bytes, 64 << 20);
  EXPECT_EQ(valid.lease_ms, 0u);
  EXPECT_EQ(valid.subscription, "default");
  protocol::SubscriptionSettings settings;
  EXPECT_EQ(api::LeaseMs(valid, settings), 30'000u);
  settings.set_lease_ms(5'000);
  EXPECT_EQ(api::LeaseMs(valid, settings), 5'000u);
  valid.lease_ms = 7'000;
  EXPECT_EQ(api::LeaseMs(valid, settings), 7'000u);
  api::RequestLimits limits = SmallLimits();
  limits.outstanding_messages_max = 10;
  ASSERT_TRUE(api::ValidateStart(start, limits, &valid).ok());
  EXPECT_EQ(valid.max_outstanding_messages, 10);
  start.set_max_outstanding_messages(11);
  EXPECT_EQ(RefusalOf(api::ValidateStart(start, limits, &valid)),
            "INVALID_SUBSCRIBE max_outstanding_messages");
}

TEST(ProtoTimeTest, RoundTrips) {
  google::protobuf::Timestamp time;
  api::SetTimestamp(kNow + 7, &time);
  EXPECT_EQ(api::TimestampToMs(time), kNow + 7);
  google::protobuf::Duration duration;
  api::SetDuration(1234, &duration);
  EXPECT_EQ(api::DurationToMs(duration), 1234u);
}

}  // namespace
}  // namespace duetime::rpc
