// SPDX-License-Identifier: Apache-2.0
#include "server/api/validation_error.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace duetime::rpc {
namespace {

absl::Status SumOf(const std::vector<absl::Status>& errors) {
  absl::Status status;
  for (const absl::Status& error : errors) api::AddShardError(error, &status);
  return status;
}

// A shard that has failed may have what the other shards do not find.
TEST(AddShardErrorTest, NotFoundHidesNoOtherError) {
  const absl::Status missing = absl::NotFoundError("missing");
  const absl::Status failed = absl::UnavailableError("failed");
  const absl::Status full = absl::ResourceExhaustedError("full");
  EXPECT_EQ(SumOf({missing, missing}), missing);
  EXPECT_EQ(SumOf({missing, failed}), failed);
  EXPECT_EQ(SumOf({failed, missing}), failed);
  EXPECT_EQ(SumOf({failed, full}), full);
}

}  // namespace
}  // namespace duetime::rpc
