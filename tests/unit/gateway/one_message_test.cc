// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/one_message.h"

#include <gtest/gtest.h>
#include <string>

#include "server/base/error.h"

namespace duetime::gateway {
namespace {

v1::StartBulkRequest RequestWith(const std::string& id) {
  v1::StartBulkRequest request;
  request.set_topic("t");
  request.set_action(v1::BULK_ACTION_REDRIVE);
  request.mutable_filter()->set_key_prefix("k");
  request.mutable_filter()->set_message_id(id);
  return request;
}

class OneMessageTest : public testing::Test {
 protected:
  const CellMap map_ = *CellMap::Parse({"a 0-8191 h:1", "bb 8192-16383 h:2", "c - h:3"});
};

TEST_F(OneMessageTest, WithoutAnIdAllCellsGetTheSame) {
  const auto requests = RequestsOfCells(map_, RequestWith(""));
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 3u);
  for (size_t cell = 0; cell < 3; ++cell) {
    EXPECT_EQ((*requests)[cell].SerializeAsString(), RequestWith("").SerializeAsString());
    v1::BulkFilter answer = (*requests)[cell].filter();
    EXPECT_FALSE(RestoreFilter(map_, cell, &answer));
    EXPECT_EQ(answer.key_prefix(), "k");
  }
}

// A message that has the id of another cell's by chance has not its text as its key.
TEST_F(OneMessageTest, OnlyTheCellOfTheIdHasTheMessageAndEachSaysWhich) {
  const auto requests = RequestsOfCells(map_, RequestWith("bb.06c"));
  ASSERT_TRUE(requests.ok());
  for (size_t cell = 0; cell < 3; ++cell) {
    const bool own = cell == 1;
    EXPECT_EQ((*requests)[cell].action(), v1::BULK_ACTION_REDRIVE);
    v1::BulkFilter answer = (*requests)[cell].filter();
    EXPECT_EQ(answer.message_id(), "06c");
    EXPECT_EQ(answer.key_prefix(), own ? "k" : "bb.06c");
    // As the call to the cell does with each id of an answer.
    answer.set_message_id(map_.Tag(cell, answer.message_id()));
    EXPECT_EQ(RestoreFilter(map_, cell, &answer), !own);
    EXPECT_EQ(answer.message_id(), "bb.06c");
    EXPECT_EQ(answer.key_prefix(), own ? "k" : "");
  }
}

TEST_F(OneMessageTest, AnIdOfNoCellIsRefused) {
  for (const char* id : {"06c", "x.06c", ".06c"}) {
    const auto detail = base::GetErrorDetail(RequestsOfCells(map_, RequestWith(id)).status());
    ASSERT_TRUE(detail.has_value()) << id;
    EXPECT_EQ(detail->reason, "INVALID_FILTER");
    EXPECT_EQ(detail->field, "filter.message_id");
  }
}

}  // namespace
}  // namespace duetime::gateway
