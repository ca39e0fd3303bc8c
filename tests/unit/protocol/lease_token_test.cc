// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/lease_token.h"

#include <gtest/gtest.h>
#include <string>

namespace duetime::protocol {
namespace {

TEST(LeaseTextTest, ReadsWhatItWrites) {
  std::string text;
  for (const uint64_t token : {uint64_t{0}, uint64_t{1}, uint64_t{63} << 58, UINT64_MAX}) {
    WriteLease(LeaseToken{token}, &text);
    EXPECT_EQ(ParseLease(text), LeaseToken{token}) << text;
  }
  EXPECT_EQ(text, "fzzzzzzzzzzzz");
}

TEST(LeaseTextTest, ATokenHasOneText) {
  for (const char* text :
       {"", "1", "000000000001", "00000000000001", "g000000000000", "000000000000I",
        "000000000000i", "000000000000A", "00000000000 1", "\xff\xff"}) {
    EXPECT_EQ(ParseLease(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace duetime::protocol
