// SPDX-License-Identifier: Apache-2.0
#include "client/cli/layout.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <string>

namespace duetime::cli {
namespace {

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(TableText({"A", "LONG HEADER", "C"}, {{"wide cell", "b", ""}, {"", "", "c"}}),
            "A          LONG HEADER  C\n"
            "wide cell  b\n"
            "                        c\n");
  EXPECT_EQ(TableText({"A"}, {}), "A\n");
  // A character counts once, however many bytes it has.
  EXPECT_EQ(TableText({"A", "B"}, {{"grüße", "1"}, {"12345", "2"}}),
            "A      B\n"
            "grüße  1\n"
            "12345  2\n");
}

TEST(FieldsTest, EmptyOnesAreLeftOut) {
  EXPECT_EQ(FieldsText({{"name", "x"}, {"nothing", ""}, {"a long name", "y"}}),
            "name          x\n"
            "a long name   y\n");
}

TEST(BarTest, IsInProportion) {
  EXPECT_EQ(BarText(0, 10, 10), "");
  EXPECT_EQ(BarText(0, 0, 10), "");
  EXPECT_EQ(BarText(5, 10, 10), "#####");
  EXPECT_EQ(BarText(10, 10, 10), "##########");
  EXPECT_EQ(BarText(14, 100, 10), "#");
  EXPECT_EQ(BarText(15, 100, 10), "##");
  EXPECT_EQ(BarText(1, 1'000'000, 10), "#") << "what is there is seen";
  EXPECT_EQ(BarText(INT64_MAX, INT64_MAX, 3), "###");
}

TEST(ChartTest, LabelsValuesAndBars) {
  const std::string full(50, '#');
  const std::string half(25, '#');
  EXPECT_EQ(ChartText({{.label = "a", .value = 5},
                       {.label = "", .value = 17},
                       {.label = "long", .value = 10},
                       {.label = "none", .value = 0}}),
            "a      5  " + half +
                "\n"
                "... 17 empty ...\n"
                "long  10  " +
                full +
                "\n"
                "none   0\n");
  EXPECT_EQ(ChartText({}), "");
}

TEST(BytesTest, ReadsWell) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(BytesText(int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(BytesText(int64_t{5000} << 40), "5000.0 TiB");
}

}  // namespace
}  // namespace duetime::cli
