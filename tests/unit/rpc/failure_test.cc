// SPDX-License-Identifier: Apache-2.0
#include "server/api/failure.h"

#include <gtest/gtest.h>

#include "server/base/error.h"

namespace duetime::api {
namespace {

TEST(FailureTest, HoldsEveryDetail) {
  v1::Failure failure;
  failure.set_field("of an earlier error");
  FillFailure(base::MakeError(absl::StatusCode::kResourceExhausted, "full",
                              {.reason = "TOPIC_FULL",
                               .field = "",
                               .metadata = {{"limit", "5"}},
                               .retry_after_ms = 1500}),
              &failure);
  EXPECT_EQ(failure.code(), 8);
  EXPECT_EQ(failure.message(), "full");
  EXPECT_EQ(failure.reason(), "TOPIC_FULL");
  EXPECT_EQ(failure.metadata().at("limit"), "5");
  EXPECT_EQ(failure.field(), "");
  EXPECT_EQ(failure.retry_delay().seconds(), 1);
  EXPECT_EQ(failure.retry_delay().nanos(), 500'000'000);
}

TEST(FailureTest, AForeignErrorHasAReasonAndNothingElse) {
  v1::Failure failure;
  FillFailure(absl::InternalError("oops"), &failure);
  EXPECT_EQ(failure.reason(), "INTERNAL");
  EXPECT_EQ(failure.metadata_size(), 0);
  EXPECT_FALSE(failure.has_retry_delay());
}

}  // namespace
}  // namespace duetime::api
