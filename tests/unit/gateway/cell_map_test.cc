// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/cell_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "storage/slot.h"

namespace duetime::gateway {
namespace {

using testing::HasSubstr;

TEST(CellMap, GivesEachSlotToItsCell) {
  const auto map =
      CellMap::Parse({"a 0-99,200-16383 h1:1,h2:2", "b-2 100-199 unix:/tmp/s", "spare - h3:3"});
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->size(), 3u);
  EXPECT_EQ(map->cell(0).addresses, "h1:1,h2:2");
  EXPECT_EQ(map->cell(0).slots, 16'284u);
  EXPECT_EQ(map->cell(1).slots, 100u);
  EXPECT_EQ(map->cell(2).slots, 0u);
  int in_b = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = absl::StrCat("key-", i);
    const uint32_t slot = storage::SlotOfName("orders", key);
    const size_t cell = map->OfName("orders", key);
    EXPECT_EQ(cell, slot >= 100 && slot < 200 ? 1u : 0u) << slot;
    in_b += cell == 1 ? 1 : 0;
  }
  EXPECT_GT(in_b, 0);
}

TEST(CellMap, FindsTheCellOfAnId) {
  const auto map = CellMap::Parse({"a 0-16383 h:1", "bb - h:2"});
  ASSERT_TRUE(map.ok());
  for (const auto& [cell, text] : {std::pair{size_t{0}, "06c"}, {size_t{1}, "x.y"}}) {
    const auto located = map->Locate(map->Tag(cell, text));
    ASSERT_TRUE(located.ok());
    EXPECT_EQ(located->cell, cell);
    EXPECT_EQ(located->text, text);
  }
  EXPECT_EQ(map->Tag(1, ""), "");
  for (const char* text : {"", "06c", ".06c", "b.06c", "bbb.06c", "c.06c", "A.06c"}) {
    EXPECT_FALSE(map->Locate(text).ok()) << text;
  }
}

TEST(CellMap, RefusesWhatIsNoMap) {
  const struct {
    std::vector<std::string> texts;
    const char* what;
  } cases[] = {
      {{}, "no cell has slot 0"},
      {{"a 0-16382 h:1"}, "no cell has slot 16383"},
      {{"a 0-9 h:1", "b 11-16383 h:2"}, "no cell has slot 10"},
      {{"a 0-16383 h:1", "b 5-6 h:2"}, "slot 5 is given twice"},
      {{"a 0-16384 h:1"}, "no range of slots"},
      {{"a 9-8 h:1"}, "no range of slots"},
      {{"a x h:1"}, "no range of slots"},
      {{"a 0-16383,-  h:1"}, "no range of slots"},
      {{"a 0-16383"}, "three parts"},
      {{"a 0-16383 h:1 h:2"}, "three parts"},
      {{"1a 0-16383 h:1"}, "a name is"},
      {{"A 0-16383 h:1"}, "a name is"},
      {{"a.b 0-16383 h:1"}, "a name is"},
      {{"abcdefghijklmnop 0-16383 h:1"}, "a name is"},
      {{"a 0-16383 h:1", "a - h:2"}, "another cell has this name"},
  };
  for (const auto& one : cases) {
    const auto map = CellMap::Parse(one.texts);
    ASSERT_FALSE(map.ok()) << one.what;
    EXPECT_THAT(map.status().message(), HasSubstr(one.what));
  }
}

}  // namespace
}  // namespace duetime::gateway
