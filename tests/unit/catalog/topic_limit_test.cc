// SPDX-License-Identifier: Apache-2.0
//
// topics_max: what the limit counts, the error names.
#include <string>

#include "gtest/gtest.h"

#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

TEST(TopicLimitTest, TheErrorCountsWhatTheLimitCounts) {
  CatalogWorld world({.topics_max = 2});
  for (const char* name : {"a", "b"}) ASSERT_EQ(world.Reason(EnsureTopic{.name = name}), "OK");
  const auto refusal = [&world] {
    const auto reply = world.Ask(EnsureTopic{.name = "c"});
    return reply.has_value() ? std::string(reply->status.message()) : "";
  };
  EXPECT_EQ(refusal(), "too many topics, limit 2");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  EXPECT_EQ(world.snapshot().topics(), 1u);
  EXPECT_EQ(refusal(), "too many topics, limit 2; deleted topics whose names still count: 1");
}

}  // namespace
}  // namespace duetime::catalog
