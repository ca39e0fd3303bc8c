// SPDX-License-Identifier: Apache-2.0
#include "storage/locator.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

// Ids with the same high half.
const MessageId kId = MessageId::Make(/*epoch=*/1, /*sequence=*/64, /*slot=*/5, /*due_ms=*/700);
const MessageId kNeighbour = MessageId::Make(1, 127, 9, MessageId::kDueMax);

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
          .dead_letters = {{.high = 8, .low = kMax64}, {.high = kMax64, .low = 0}},
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
    const auto decoded = ReadTraceRow(kId, bytes, kId);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, locator);
    EXPECT_EQ(*ReadTraceRow(kId, bytes, kNeighbour), std::nullopt);
    EXPECT_EQ(ExpireTimeOf(bytes),
              locator.tombstone.has_value() ? locator.tombstone->expire_ms : 0);
  }
}

TEST(LocatorTest, TheDueTimeOfAnEndedMessageIsNotKept) {
  const std::string bytes = EncodeLocator({.due_ms = 9, .tombstone = FullTombstone()});
  EXPECT_EQ((*ReadTraceRow(kId, bytes, kId))->due_ms, 0u);
}

// Tombstones that may share a row.
Tombstone Unchanged(uint32_t number) {
  Tombstone tombstone = FullTombstone();
  tombstone.revision = 0;
  tombstone.attempts = number;
  tombstone.payload_bytes = kMax32 - number;
  tombstone.deliver_ms = 700 + number;
  tombstone.accept_ms = 600;
  tombstone.fire_ms = number % 2 == 0 ? 0 : kMax64;
  tombstone.dispatch_ms = number % 3 == 0 ? 0 : 800;
  tombstone.key = std::string(number, 'k');
  return tombstone;
}

TEST(LocatorTest, TombstonesOfNeighboursShareARow) {
  std::string row;
  std::vector<std::pair<MessageId, Tombstone>> ended;
  for (uint32_t i = 0; i < 10; ++i) {
    // Not in the order of the ids.
    const MessageId id = MessageId::Make(1, 64 + i * 37 % 64, i, i == 3 ? MessageId::kDueMax : i);
    ended.emplace_back(id, Unchanged(i));
    ASSERT_TRUE(AddTombstone(id, ended.back().second, &row));
  }
  const MessageId first = ended.front().first;
  EXPECT_EQ(ExpireTimeOf(row), 5u);
  for (const auto& [id, tombstone] : ended) {
    EXPECT_EQ(*ReadTraceRow(first, row, id), (Locator{.due_ms = 0, .tombstone = tombstone}));
    const auto [begin, end] = TraceNeighbours(id);
    EXPECT_TRUE(begin <= first && first < end);
  }
  EXPECT_EQ(*ReadTraceRow(first, row, kNeighbour), std::nullopt);
  // A cut is refused, or between two tombstones.
  for (size_t size = 0; size < row.size(); ++size) {
    const auto found = ReadTraceRow(first, row.substr(0, size), first);
    EXPECT_TRUE(found.ok() ? (*found)->tombstone == ended.front().second
                           : absl::IsDataLoss(found.status()));
  }
  EXPECT_FALSE(ReadTraceRow(ended.back().first, row, first).ok());
  for (const auto& [at, to] : {std::pair(9, 0), {9, 7}, {10, 4}}) {
    std::string changed = row;
    changed[static_cast<size_t>(at)] = static_cast<char>(to);
    EXPECT_FALSE(ReadTraceRow(first, changed, first).ok()) << at;
  }
}

TEST(LocatorTest, OnlyMessagesThatEndedAlikeShareARow) {
  std::string row;
  ASSERT_TRUE(AddTombstone(kId, Unchanged(1), &row));
  using Change = void (*)(Tombstone*);
  for (const Change change : {
           Change([](Tombstone* tombstone) { tombstone->state = EndState::kAcked; }),
           Change([](Tombstone* tombstone) { tombstone->topic = TopicId{1}; }),
           Change([](Tombstone* tombstone) { ++tombstone->end_ms; }),
           Change([](Tombstone* tombstone) { ++tombstone->expire_ms; }),
           Change([](Tombstone* tombstone) { tombstone->redelivery_stopped = false; }),
           Change([](Tombstone* tombstone) { tombstone->dead_letters.clear(); }),
       }) {
    Tombstone other = Unchanged(2);
    change(&other);
    const std::string before = row;
    EXPECT_FALSE(AddTombstone(kNeighbour, other, &row));
    EXPECT_EQ(row, before);
  }
  Tombstone large = Unchanged(5000);
  EXPECT_TRUE(AddTombstone(kNeighbour, large, &row));
  EXPECT_FALSE(AddTombstone(kNeighbour, Unchanged(2), &row)) << "the row is full";
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
    refused(ReadTraceRow(kId, moved.substr(0, size), kId).status());
  }
  for (size_t size = 0; size < ended.size(); ++size) {
    refused(ReadTraceRow(kId, ended.substr(0, size), kId).status());
  }
  refused(DecodeIndexEntry(entry + "x").status());
  refused(ReadTraceRow(kId, moved + "x", kId).status());

  const auto changed = [](std::string bytes, size_t at, char to) {
    bytes[at] = to;
    return bytes;
  };
  refused(DecodeIndexEntry(changed(entry, 8, 2)).status());         // version
  refused(ReadTraceRow(kId, changed(moved, 8, 3), kId).status());   // version
  refused(ReadTraceRow(kId, changed(moved, 9, 7), kId).status());   // state
  refused(ReadTraceRow(kId, changed(moved, 0, 1), kId).status());   // expires without a tombstone
  refused(ReadTraceRow(kId, changed(ended, 8, 0), kId).status());   // version
  refused(ReadTraceRow(kId, changed(ended, 9, 7), kId).status());   // state
  refused(ReadTraceRow(kId, changed(ended, 10, 4), kId).status());  // flags
}

// In both forms, with nothing behind the dead letters.
TEST(LocatorTest, DeadLettersThatNobodyWroteAreRefused) {
  const Tombstone lettered = {
      .state = EndState::kDeadLettered, .dead_letters = {{.high = 0, .low = 1}}, .key = ""};
  std::string row;
  ASSERT_TRUE(AddTombstone(kId, lettered, &row));
  for (const std::string& good : {row, EncodeLocator({.due_ms = 0, .tombstone = lettered})}) {
    const size_t count_at = good.size() - 17;
    ASSERT_EQ((*ReadTraceRow(kId, good, kId))->tombstone, lettered);
    for (size_t size = count_at; size < good.size(); ++size) {
      EXPECT_FALSE(ReadTraceRow(kId, good.substr(0, size), kId).ok()) << size;
    }
    for (const char count : {'\0', '\2', '\6'}) {
      std::string bad = good + std::string(5 * 16, 'x');
      if (count == '\2') bad = good;
      bad[count_at] = count;
      EXPECT_FALSE(ReadTraceRow(kId, bad, kId).ok()) << int{count};
    }
    std::string no_id = good;
    no_id.back() = 0;
    EXPECT_FALSE(ReadTraceRow(kId, no_id, kId).ok());
  }
}

TEST(LocatorTest, TheExpiryNeedsItsEightBytes) {
  EXPECT_EQ(ExpireTimeOf("1234567"), std::nullopt);
  EXPECT_EQ(ExpireTimeOf(std::string("\1\0\0\0\0\0\0\0", 8)), 1u);
}

}  // namespace
}  // namespace duetime::storage
