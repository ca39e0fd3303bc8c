// SPDX-License-Identifier: Apache-2.0
#include "storage/locator.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

Tombstone FullTombstone() {
  return {.state = EndState::kSkipped,
          .topic = TopicId{0xfedcba98},
          .attempts = 0xffffffff,
          .payload_bytes = 7,
          .deliver_ms = kMax64,
          .accept_ms = 1,
          .fire_ms = 2,
          .dispatch_ms = 3,
          .end_ms = 4,
          .expire_ms = 5,
          .revision = 6,
          .redelivery_stopped = true,
          .key = std::string("a\0key", 5)};
}

TEST(LocatorTest, IndexEntriesComeBack) {
  const IndexEntry full = {.id = {kMax64, 1},
                           .content = {2, kMax64 - 1},
                           .expire_ms = 3,
                           .outcome = 255,
                           .deliver_ms = 4,
                           .accept_ms = 5,
                           .old_deliver_ms = 6};
  IndexEntry took_over = full;
  took_over.previous = {.high = 7, .low = kMax64};
  for (const IndexEntry& entry : {IndexEntry{}, full, took_over}) {
    const std::string bytes = EncodeIndexEntry(entry);
    const auto decoded = DecodeIndexEntry(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, entry);
    EXPECT_EQ(ExpireTimeOf(bytes), entry.expire_ms);
  }
}

TEST(LocatorTest, LocatorsComeBack) {
  const Tombstone least = {.state = EndState::kAcked, .key = ""};
  const Tombstone dropped = {.state = EndState::kDropped, .key = ""};
  for (const Locator& locator :
       {Locator{.due_ms = 0, .tombstone = std::nullopt},
        Locator{.due_ms = kMax64, .tombstone = std::nullopt},
        Locator{.due_ms = 0, .tombstone = least}, Locator{.due_ms = 0, .tombstone = dropped},
        Locator{.due_ms = 0, .tombstone = FullTombstone()}}) {
    const std::string bytes = EncodeLocator(locator);
    const auto decoded = DecodeLocator(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, locator);
    EXPECT_EQ(ExpireTimeOf(bytes),
              locator.tombstone.has_value() ? locator.tombstone->expire_ms : 0);
  }
}

TEST(LocatorTest, TheDueTimeOfAnEndedMessageIsNotKept) {
  const auto decoded = DecodeLocator(EncodeLocator({.due_ms = 9, .tombstone = FullTombstone()}));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->due_ms, 0u);
}

TEST(LocatorTest, UndecodableBytesAreRefused) {
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  };
  const std::string entry = EncodeIndexEntry({.id = {1, 2}, .content = {}});
  const std::string moved = EncodeLocator({.due_ms = 5, .tombstone = std::nullopt});
  const std::string ended =
      EncodeLocator({.due_ms = 0, .tombstone = Tombstone{.state = EndState::kAcked, .key = ""}});
  for (size_t size = 0; size < entry.size(); ++size) {
    refused(DecodeIndexEntry(entry.substr(0, size)).status());
  }
  for (size_t size = 0; size < moved.size(); ++size) {
    refused(DecodeLocator(moved.substr(0, size)).status());
  }
  for (size_t size = 0; size < ended.size(); ++size) {
    refused(DecodeLocator(ended.substr(0, size)).status());
  }
  refused(DecodeIndexEntry(entry + "x").status());
  refused(DecodeLocator(moved + "x").status());

  const auto changed = [](std::string bytes, size_t at, char to) {
    bytes[at] = to;
    return bytes;
  };
  refused(DecodeIndexEntry(changed(entry, 8, 2)).status());  // version
  refused(DecodeLocator(changed(moved, 8, 2)).status());     // version
  refused(DecodeLocator(changed(moved, 9, 7)).status());     // state
  refused(DecodeLocator(changed(moved, 0, 1)).status());     // expires without a tombstone
  refused(DecodeLocator(changed(ended, 8, 0)).status());     // version
  refused(DecodeLocator(changed(ended, 9, 7)).status());     // state
  refused(DecodeLocator(changed(ended, 10, 2)).status());    // flags
}

TEST(LocatorTest, TheExpiryNeedsItsEightBytes) {
  EXPECT_EQ(ExpireTimeOf("1234567"), std::nullopt);
  EXPECT_EQ(ExpireTimeOf(std::string("\1\0\0\0\0\0\0\0", 8)), 1u);
}

}  // namespace
}  // namespace duetime::storage
