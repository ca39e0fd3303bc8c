// SPDX-License-Identifier: Apache-2.0
#include "server/base/sip_hash.h"

#include "gtest/gtest.h"

namespace duetime::base {
namespace {

// From the authors' list of test vectors: key 00 01 .. 0f, input 00 01 .. 0f.
TEST(SipHashTest, AgreesWithItsAuthors) {
  const SipKey key{.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(SipHash(key, 0x0706050403020100, 0x0f0e0d0c0b0a0908), 0x3f2acc7f57c29bdbu);
}

}  // namespace
}  // namespace duetime::base
