// SPDX-License-Identifier: Apache-2.0
#include "server/base/hex.h"

#include <gtest/gtest.h>
#include <string>

#include "absl/strings/escaping.h"

namespace duetime::base {
namespace {

TEST(HexTest, ReadsWhatAbseilWrites) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const std::string digits = absl::BytesToHexString(bytes);
  ASSERT_EQ(digits.size(), 512u);
  EXPECT_EQ(HexToBytes(digits), bytes);
  EXPECT_EQ(HexToBytes("fFAa"), "\xff\xaa");
  EXPECT_EQ(HexToBytes(""), "");
}

TEST(HexTest, RefusesOtherCharactersAndHalfBytes) {
  for (const char* text :
       {"0", "123", "0g", "g0", " 0", "0 ", "0x", "-1", "/0", ":0", "@0", "`0"}) {
    EXPECT_EQ(HexToBytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace duetime::base
