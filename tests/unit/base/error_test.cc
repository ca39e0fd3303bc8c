// SPDX-License-Identifier: Apache-2.0
#include "server/base/error.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ErrorTest, ADetailComesBack) {
  const absl::Status status = MakeError(absl::StatusCode::kInvalidArgument,
                                        "deliver_time is 400 days ahead; the limit is 365 days",
                                        {.reason = "DELIVER_TIME_OUT_OF_RANGE",
                                         .field = "message.deliver_time",
                                         .metadata = {{"limit_ms", "31536000000"}, {"empty", ""}},
                                         .retry_after_ms = 250});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "deliver_time is 400 days ahead; the limit is 365 days");
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "DELIVER_TIME_OUT_OF_RANGE");
  EXPECT_EQ(detail->field, "message.deliver_time");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("limit_ms", "31536000000"), Pair("empty", "")));
  EXPECT_EQ(detail->retry_after_ms, 250u);
}

TEST(ErrorTest, AnEmptyDetailIsADetail) {
  const std::optional<ErrorDetail> detail =
      GetErrorDetail(MakeError(absl::StatusCode::kInternal, "", {}));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "");
  EXPECT_THAT(detail->metadata, IsEmpty());
}

TEST(ErrorTest, TextThatHoldsTheSeparatorDoesNotShiftTheParts) {
  const std::optional<ErrorDetail> detail =
      GetErrorDetail(MakeError(absl::StatusCode::kNotFound, "m",
                               {.reason = "R",
                                .field = "a\x1f"
                                         "b",
                                .metadata = {{"k\x1f", "\x1fv"}},
                                .retry_after_ms = 7}));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->field, "a?b");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("k?", "?v")));
  EXPECT_EQ(detail->retry_after_ms, 7u);
}

TEST(ErrorTest, AnyOtherStatusHasNoDetail) {
  EXPECT_FALSE(GetErrorDetail(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetErrorDetail(absl::InternalError("x")).has_value());
}

TEST(ErrorTest, TheSharedErrors) {
  const absl::Status overloaded = OverloadedError("mailbox", 4096);
  EXPECT_EQ(overloaded.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(overloaded.message()), HasSubstr("mailbox"));
  EXPECT_THAT(std::string(overloaded.message()), HasSubstr("4096"));
  const std::optional<ErrorDetail> detail = GetErrorDetail(overloaded);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "OVERLOADED");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("queue", "mailbox"), Pair("limit", "4096")));
  EXPECT_GT(detail->retry_after_ms, 0u);

  for (const auto& [status, reason] : {std::pair{DrainingError(), "DRAINING"},
                                       std::pair{StorageFailedError(), "STORAGE_FAILED"}}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(GetErrorDetail(status)->reason, reason);
    EXPECT_GT(GetErrorDetail(status)->retry_after_ms, 0u);
  }
}

TEST(ErrorDeathTest, OkIsNoError) {
  EXPECT_DEATH(static_cast<void>(MakeError(absl::StatusCode::kOk, "", {})), "check failed");
}

}  // namespace
}  // namespace duetime::base
