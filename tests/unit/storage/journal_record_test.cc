// SPDX-License-Identifier: Apache-2.0
#include "storage/journal_record.h"

#define XXH_INLINE_ALL
#include <string>
#include <vector>
#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

#include "storage/attempts.h"
#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr MessageKey kKey = {.due_ms = 5, .id = {.high = 6, .low = 7}};
constexpr JournalRecordHead kHead = {
    .kind = JournalRecordHead::Kind::kGroup, .epoch = 3, .number = 4, .log = 5};

// One record of each type, with a value of its own in each field.
std::vector<Record> EachType() {
  const BacklogEntry backlog = {.attempts = 8, .bytes = 9, .maybe_delivered = true, .due_ms = 10};
  const Progress progress = {.state = Progress::State::kSettled,
                             .listed = true,
                             .attempts = 11,
                             .spared = 12,
                             .retry_ms = 13,
                             .reason = 14,
                             .dead_letter = {.high = 22, .low = 23}};
  const Progress failed = {
      .attempts = 3,
      .last_attempts = AddAttempt("", {.number = 3, .end = AttemptEnd::kNacked, .reason = "no"})};
  const SubscriptionId subscription{15};
  const TopicId topic{16};
  return {
      {.type = RecordType::kAccept, .shard = 1, .topic = topic, .key = kKey, .value = "message"},
      {.type = RecordType::kErase, .shard = 2, .topic = topic, .key = kKey, .bytes = 17},
      {.type = RecordType::kClaim, .shard = 3, .mark_ms = 18},
      {.type = RecordType::kClaim,
       .shard = 3,
       .mark_ms = 18,
       .claim_return = ClaimReturn{.until_ms = 19, .epoch = 20}},
      {.type = RecordType::kLowWatermark, .shard = 4, .mark_ms = 21},
      {.type = RecordType::kSpill,
       .shard = 5,
       .key = kKey,
       .subscription = subscription,
       .backlog = backlog},
      {.type = RecordType::kUnspill, .shard = 6, .key = kKey, .subscription = subscription},
      {.type = RecordType::kBacklogClaim, .shard = 7, .key = kKey, .subscription = subscription},
      {.type = RecordType::kTopic, .topic = topic, .value = "name"},
      {.type = RecordType::kIndex,
       .shard = 8,
       .topic = topic,
       .kind = static_cast<uint8_t>(IndexKind::kUserKey),
       .name = "key",
       .value = "entry"},
      {.type = RecordType::kLocator, .shard = 9, .key = kKey, .value = "locator"},
      {.type = RecordType::kObject,
       .shard = 10,
       .kind = static_cast<uint8_t>(ObjectKind::kOperation),
       .name = "object",
       .value = std::string("\0\xff", 2)},
      {.type = RecordType::kUnobject, .shard = 11, .kind = 'o', .name = "object"},
      {.type = RecordType::kProgress,
       .shard = 12,
       .key = kKey,
       .subscription = subscription,
       .progress = progress},
      {.type = RecordType::kUnprogress, .shard = 13, .key = kKey, .subscription = subscription},
      {.type = RecordType::kProgress,
       .shard = 12,
       .key = kKey,
       .subscription = subscription,
       .progress = failed},
  };
}

void ExpectSame(const Record& a, const Record& b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shard, b.shard);
  EXPECT_EQ(a.topic, b.topic);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.mark_ms, b.mark_ms);
  EXPECT_EQ(a.claim_return, b.claim_return);
  EXPECT_EQ(a.subscription, b.subscription);
  EXPECT_EQ(a.backlog, b.backlog);
  EXPECT_EQ(a.progress, b.progress);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.value, b.value);
}

// The bytes with the checksum that they should have.
std::string Sealed(std::string content) {
  char checksum[sizeof(uint64_t)];
  StoreLittleEndian<uint64_t>(XXH3_64bits(content.data(), content.size()), checksum);
  return content.append(checksum, sizeof(checksum));
}

TEST(JournalRecordTest, KeepsEachFieldOfEachType) {
  const std::vector<RecordBatch> group = {EachType(), {}, {EachType()[0]}};
  const std::string bytes = EncodeJournalRecord(kHead, group);
  EXPECT_EQ(DecodeJournalRecordHead(bytes).value(), kHead);
  const auto decoded = DecodeJournalGroup(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->size(), group.size());
  for (size_t i = 0; i < group.size(); ++i) {
    ASSERT_EQ((*decoded)[i].size(), group[i].size());
    for (size_t j = 0; j < group[i].size(); ++j) ExpectSame((*decoded)[i][j], group[i][j]);
  }
  EXPECT_EQ(EncodeJournalRecord(kHead, *decoded), bytes);
}

// FORMAT.md, "Records of a shared log". If a checksum changes, the format has a new version.
TEST(JournalRecordTest, HasTheDocumentedBytes) {
  const std::vector<RecordBatch> group = {
      {{.type = RecordType::kAccept, .shard = 1, .topic = TopicId{16}, .key = kKey, .value = "m"}}};
  EXPECT_EQ(absl::BytesToHexString(EncodeJournalRecord(kHead, group)).substr(0, 2 * 70),
            "0401"
            "0300000000000000"
            "0400000000000000"
            "0500000000000000"
            "01000000"
            "01000000"
            "01"
            "0100"
            "10000000"
            "0500000000000000"
            "0600000000000000"
            "0700000000000000"
            "01000000"
            "6d");
  const std::string all = EncodeJournalRecord(kHead, {{EachType()}});
  EXPECT_EQ(absl::BytesToHexString(all.substr(all.size() - sizeof(uint64_t))), "f6867e23d0b43b5a");
}

TEST(JournalRecordTest, AnEpochHasNoGroup) {
  const JournalRecordHead head = {
      .kind = JournalRecordHead::Kind::kEpoch, .epoch = 9, .number = 12'345};
  const std::string bytes = EncodeJournalRecord(head, {});
  EXPECT_EQ(DecodeJournalRecordHead(bytes).value(), head);
  EXPECT_TRUE(DecodeJournalGroup(bytes).value().empty());
}

TEST(JournalRecordTest, NoticesEachFlippedBitAndEachMissingByte) {
  const std::string bytes = EncodeJournalRecord(kHead, {{EachType()}});
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(absl::IsDataLoss(DecodeJournalRecordHead(flipped).status())) << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeJournalRecordHead(bytes.substr(0, size)).status())) << size;
  }
}

// How a record with the right checksum is refused.
absl::StatusCode Refusal(const std::string& content) {
  const std::string bytes = Sealed(content);
  const auto head = DecodeJournalRecordHead(bytes);
  return head.ok() ? DecodeJournalGroup(bytes).status().code() : head.status().code();
}

TEST(JournalRecordTest, RefusesWhatNoVersionWrites) {
  constexpr size_t kHeadBytes = 26;
  const std::string bytes = EncodeJournalRecord(kHead, {{EachType()}});
  const std::string good = bytes.substr(0, bytes.size() - sizeof(uint64_t));
  EXPECT_EQ(Refusal(good), absl::StatusCode::kOk);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Refusal(good.substr(0, size)),
              size < kHeadBytes ? absl::StatusCode::kDataLoss : absl::StatusCode::kInternal);
  }
  EXPECT_EQ(Refusal(good + "x"), absl::StatusCode::kInternal);
  struct Case {
    const char* name;
    size_t at;
    char value;
    absl::StatusCode code;
  };
  for (const auto& [name, at, value, code] :
       {Case{"a later version", 0, 9, absl::StatusCode::kUnimplemented},
        Case{"version 0", 0, 0, absl::StatusCode::kUnimplemented},
        Case{"a version with values of format 7", 0, 2, absl::StatusCode::kUnimplemented},
        Case{"a kind", 1, 99, absl::StatusCode::kUnimplemented},
        Case{"the type of the first record", 34, 99, absl::StatusCode::kInternal}}) {
    std::string bad = good;
    bad[at] = value;
    EXPECT_EQ(Refusal(bad), code) << name;
  }
}

TEST(JournalRecordTest, RefusesFlagsAndStatesThatDoNotExist) {
  const Record spill = EachType()[5];
  const Record progress = EachType()[13];
  const Record failed = EachType().back();
  // The last byte but the due time; the state, of fields of 1, 1, 4, 4, 8, 1, 1 + 16 and 4 bytes;
  // whether there is a dead letter; the end of the attempt, whose reason is the last byte.
  const size_t attempts = failed.progress.last_attempts.size();
  const std::pair<Record, size_t> cases[] = {{spill, 8 + 1},
                                             {progress, 40},
                                             {progress, 39},
                                             {progress, 21},
                                             {failed, 4 + attempts + 1},
                                             {failed, attempts - 1}};
  for (const auto& [record, from_end] : cases) {
    const std::string bytes = EncodeJournalRecord(kHead, {{{record}}});
    std::string bad = bytes.substr(0, bytes.size() - sizeof(uint64_t));
    bad[bad.size() - from_end] = 77;
    EXPECT_EQ(Refusal(bad), absl::StatusCode::kInternal) << from_end;
  }
}

}  // namespace
}  // namespace duetime::storage
