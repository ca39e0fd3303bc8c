// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_status.h"

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

#include "server/base/error.h"

namespace duetime::rpc {
namespace {

google::rpc::Status Parse(const grpc::Status& status) {
  google::rpc::Status parsed;
  EXPECT_TRUE(parsed.ParseFromString(status.error_details()));
  return parsed;
}

TEST(GrpcStatusTest, OkIsOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(GrpcStatusTest, CarriesEveryDetail) {
  const absl::Status error = base::MakeError(absl::StatusCode::kResourceExhausted, "topic: full",
                                             {.reason = "TOPIC_FULL",
                                              .field = "topic",
                                              .metadata = {{"limit", "5"}, {"value", "6"}},
                                              .retry_after_ms = 1500});
  const grpc::Status status = ToGrpcStatus(error);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "topic: full");
  const google::rpc::Status parsed = Parse(status);
  EXPECT_EQ(parsed.code(), 8);
  EXPECT_EQ(parsed.message(), "topic: full");
  ASSERT_EQ(parsed.details_size(), 3);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(parsed.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "TOPIC_FULL");
  EXPECT_EQ(info.domain(), "duetime");
  EXPECT_EQ(info.metadata().at("limit"), "5");
  EXPECT_EQ(info.metadata().at("value"), "6");
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(parsed.details(1).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "topic");
  EXPECT_EQ(bad_request.field_violations(0).description(), "topic: full");
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(parsed.details(2).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(GrpcStatusTest, LeavesOutWhatDoesNotApply) {
  const absl::Status error = base::MakeError(
      absl::StatusCode::kNotFound, "no such message",
      {.reason = "MESSAGE_NOT_FOUND", .field = "", .metadata = {}, .retry_after_ms = 0});
  EXPECT_EQ(Parse(ToGrpcStatus(error)).details_size(), 1);
}

TEST(GrpcStatusTest, AForeignErrorStillHasAReason) {
  const google::rpc::Status parsed = Parse(ToGrpcStatus(absl::InternalError("oops")));
  ASSERT_EQ(parsed.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(parsed.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INTERNAL");
}

}  // namespace
}  // namespace duetime::rpc
