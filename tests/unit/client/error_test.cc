// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/error.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "duetime/v1/failure.pb.h"

namespace duetime::client {
namespace {

google::rpc::Status FullError() {
  google::rpc::Status status;
  status.set_code(8);
  status.set_message("the mailbox is full");
  google::rpc::ErrorInfo info;
  info.set_reason("OVERLOADED");
  info.set_domain("duetime");
  (*info.mutable_metadata())["limit"] = "10";
  status.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(100'000'000);
  status.add_details()->PackFrom(retry);
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field("topic");
  bad.mutable_field_violations(0)->set_description("too long");
  status.add_details()->PackFrom(bad);
  return status;
}

void ExpectFull(const absl::Status& status, const std::string& violation) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the mailbox is full");
  const ErrorInfo info = GetErrorInfo(status);
  EXPECT_EQ(info.reason, "OVERLOADED");
  EXPECT_EQ(info.domain, "duetime");
  EXPECT_EQ(info.metadata.at("limit"), "10");
  EXPECT_EQ(info.retry_delay, absl::Milliseconds(100));
  ASSERT_EQ(info.field_violations.size(), 1u);
  EXPECT_EQ(info.field_violations[0].field, "topic");
  EXPECT_EQ(info.field_violations[0].description, violation);
}

TEST(ErrorTest, KeepsEverythingOfACall) {
  const google::rpc::Status error = FullError();
  ExpectFull(ToAbslStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, error.message(),
                                       error.SerializeAsString())),
             "too long");
}

TEST(ErrorTest, KeepsEverythingOfABatchItem) {
  v1::Failure failure;
  failure.set_code(8);
  failure.set_message("the mailbox is full");
  failure.set_reason("OVERLOADED");
  (*failure.mutable_metadata())["limit"] = "10";
  failure.set_field("topic");
  failure.mutable_retry_delay()->set_nanos(100'000'000);
  ExpectFull(ToAbslStatus(failure), "the mailbox is full");
}

TEST(ErrorTest, WithoutDetailsThereAreNone) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError("gone"),
        ToAbslStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")),
        ToAbslStatus(
            grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone", "\xff\xff not a proto"))}) {
    const ErrorInfo info = GetErrorInfo(status);
    EXPECT_EQ(info.reason, "");
    EXPECT_TRUE(info.metadata.empty());
    EXPECT_FALSE(info.retry_delay.has_value());
  }
}

TEST(ErrorTest, CodesThatAreNone) {
  v1::Failure odd;
  EXPECT_TRUE(ToAbslStatus(odd).ok());
  odd.set_code(99);
  EXPECT_EQ(ToAbslStatus(odd).code(), absl::StatusCode::kUnknown);
  odd.set_code(-1);
  EXPECT_EQ(ToAbslStatus(odd).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace duetime::client
