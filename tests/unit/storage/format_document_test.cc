// SPDX-License-Identifier: Apache-2.0
//
// FORMAT.md specifies the bytes on disk. This test compares its worked example with the codecs.
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "storage/attempts.h"
#include "storage/day_counts.h"
#include "storage/journal_record.h"
#include "storage/key_codec.h"
#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/subscription_starts.h"
#include "storage/value_codec.h"
#include "tests/support/paths.h"

namespace duetime::storage {
namespace {

// Reads the lines "name: hex hex ..." between "```example" and "```", and drops the blanks between
// the bytes.
std::map<std::string, std::string> ReadExample() {
  std::map<std::string, std::string> example;
  std::ifstream document(std::string(test::kSourceRoot) + "/storage/FORMAT.md");
  EXPECT_TRUE(document.is_open());
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("```")) {
      inside = line == "```example";
      continue;
    }
    const size_t colon = line.find(':');
    if (!inside || colon == std::string::npos) continue;
    std::string hex;
    for (const char c : line.substr(colon + 1)) {
      if (c == '#') break;
      if (std::isxdigit(static_cast<unsigned char>(c)) != 0) hex += c;
    }
    example[line.substr(0, colon)] = hex;
  }
  return example;
}

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

// Records of a shared log carry the values of the store. A member with an older program must stop
// at values that it cannot read, in place of applying them.
TEST(FormatDocumentTest, ANewFormatRaisesTheVersionOfJournalRecords) {
  constexpr uint32_t kFormatOfJournalVersion4 = 8;
  EXPECT_EQ(EncodeJournalRecord({}, {})[0], 4 + kFormatVersion - kFormatOfJournalVersion4);
}

TEST(FormatDocumentTest, TheWorkedExampleIsWhatTheCodecsWrite) {
  constexpr uint16_t kShard = 1;
  constexpr TopicId kExampleTopic{7};
  constexpr SubscriptionId kSubscription{0x80000000};
  constexpr uint64_t kDueMs = 1'700'000'000'000;
  constexpr uint64_t kAcceptMs = 1'699'999'990'000;
  const MessageKey key{kDueMs, MessageId::Make(/*epoch=*/3, /*sequence=*/5, /*slot=*/8192, kDueMs)};

  const auto day = [](const CountDelta& delta) {
    DayEncoder encoder;
    encoder.Add((kDueMs - DayOf(kDueMs)) / kMinuteMs, delta);
    return Hex(encoder.bytes());
  };
  std::string two_ended;
  Tombstone ended = {.state = EndState::kAcked,
                     .topic = kExampleTopic,
                     .attempts = 1,
                     .payload_bytes = 5,
                     .deliver_ms = kDueMs,
                     .accept_ms = kAcceptMs,
                     .fire_ms = kDueMs + 1,
                     .dispatch_ms = kDueMs + 2,
                     .end_ms = kDueMs + 3,
                     .expire_ms = kDueMs + 4,
                     .key = "order-17"};
  ASSERT_TRUE(AddTombstone(key.id, ended, &two_ended));
  ended.key = "";
  ASSERT_TRUE(AddTombstone(MessageId::Make(3, 6, 8192, kDueMs), ended, &two_ended));
  const MessageId letter = MessageId::Make(/*epoch=*/3, /*sequence=*/7, /*slot=*/8192, kDueMs + 3);
  ended.state = EndState::kDeadLettered;
  ended.dead_letters = {letter};
  std::string lettered;
  ASSERT_TRUE(AddTombstone(key.id, ended, &lettered));
  const std::string attempts = AddAttempt("", {.number = 2,
                                               .end = AttemptEnd::kNacked,
                                               .end_ms = kDueMs + 200,
                                               .held_ms = 150,
                                               .delay_ms = 59'800,
                                               .client_id = "w1",
                                               .reason = "HTTP 503"});
  const auto change = [](const CountDelta& delta) {
    const auto bytes = EncodeCountDelta(delta);
    return Hex(absl::string_view(bytes.data(), bytes.size()));
  };

  const std::map<std::string, std::string> written = {
      {"meta key format_version", Hex(FormatVersionKey().bytes())},
      {"meta value format_version", Hex(EncodeNumber(kFormatVersion))},
      {"meta key topic", Hex(TopicKey(kExampleTopic).bytes())},
      {"meta value topic", Hex("orders")},
      {"meta key claim", Hex(ClaimKey(kShard).bytes())},
      {"meta value claim", Hex(EncodeNumber(kDueMs))},
      {"meta value claim, clean stop",
       Hex(EncodeClaim(kDueMs, ClaimReturn{.until_ms = kAcceptMs, .epoch = 2}))},
      {"meta key safe", Hex(LowWatermarkKey(kShard).bytes())},
      {"meta value safe", Hex(EncodeNumber(kAcceptMs))},
      {"meta key backlog_claim",
       Hex(BacklogClaimKey(kShard, FirstSubscription(kExampleTopic)).bytes())},
      {"meta value backlog_claim", Hex(EncodePlace(key))},
      {"messages key", Hex(EncodeMessageKey(kShard, key).bytes())},
      {"messages value", Hex(EncodeMessageRecord({.header = {kExampleTopic, kDueMs, kAcceptMs},
                                                  .attributes = {{"color", "red"}},
                                                  .payload = "hello"}))},
      {"messages value, all sections",
       Hex(EncodeMessageRecord(
           {.header = {kExampleTopic, kDueMs, kAcceptMs},
            .attributes = {{"color", "red"}},
            .labels = {{"region", "eu"}},
            .key = "order-17",
            .ordering_key = "c4",
            .ttl_ms = 60'000,
            .late_policy = LatePolicy::kDeadLetter,
            .spread_ms = 5'000,
            .civil_time = "2023-11-14T23:13:20",
            .time_zone = "Europe/Berlin",
            .recurrence = "daily",
            .occurrence = 12,
            .revision = 3,
            .update_ms = kAcceptMs,
            .dead_letter = DeadLetterOrigin{.origin_topic = TopicId{6},
                                            .topic_name = "orders",
                                            .subscription_name = "billing",
                                            .key = "o1",
                                            .id = key.id,
                                            .attempts = 3,
                                            .reason = DeadLetterReason::kRejected,
                                            .reason_text = "no",
                                            .first_dispatch_ms = kDueMs + 1,
                                            .last_dispatch_ms = kDueMs + 2,
                                            .deliver_ms = kDueMs,
                                            .accept_ms = kAcceptMs,
                                            .ttl_ms = 60'000,
                                            .late_policy = LatePolicy::kDrop,
                                            .hops = 2,
                                            .last_attempts = attempts},
            .payload = "hello"}))},
      {"meta value log_place",
       Hex(EncodeLogPlace(
           {.offset = 9, .epoch = 3, .groups = 7, .groups_before_epoch = 5, .log = 11}))},
      {"meta key upgrade", Hex(UpgradeKey().bytes())},
      {"index key", Hex(NameKey::OfIndex(kShard, kExampleTopic, 'k', "order-17").bytes())},
      {"index value", Hex(EncodeIndexEntry({.id = key.id,
                                            .content = {0x0102030405060708, 0x090a0b0c0d0e0f10},
                                            .expire_ms = kDueMs,
                                            .outcome = 2,
                                            .deliver_ms = kDueMs,
                                            .accept_ms = kAcceptMs,
                                            .old_deliver_ms = 1}))},
      {"index value, key taken over",
       Hex(EncodeIndexEntry({.id = key.id,
                             .content = {0x0102030405060708, 0x090a0b0c0d0e0f10},
                             .expire_ms = kDueMs,
                             .outcome = 0,
                             .deliver_ms = kDueMs,
                             .accept_ms = kAcceptMs,
                             .old_deliver_ms = kDueMs,
                             .previous = MessageId::Make(/*epoch=*/3, /*sequence=*/4,
                                                         /*slot=*/8192, kDueMs)}))},
      {"traces key", Hex(EncodeLocatorKey(kShard, key.id).bytes())},
      {"traces value, moved",
       Hex(EncodeLocator({.due_ms = kDueMs + 60'000, .tombstone = std::nullopt}))},
      {"traces value, ended",
       Hex(EncodeLocator({.due_ms = 0,
                          .tombstone = Tombstone{.state = EndState::kCancelled,
                                                 .topic = kExampleTopic,
                                                 .attempts = 2,
                                                 .payload_bytes = 5,
                                                 .deliver_ms = kDueMs,
                                                 .accept_ms = kAcceptMs,
                                                 .fire_ms = kDueMs + 1,
                                                 .dispatch_ms = kDueMs + 2,
                                                 .end_ms = kDueMs + 3,
                                                 .expire_ms = kDueMs + 4,
                                                 .revision = 3,
                                                 .redelivery_stopped = true,
                                                 .key = "order-17"}}))},
      {"traces value, two ended alike", Hex(two_ended)},
      {"traces value, a dead letter", Hex(lettered)},
      {"traces value, changed, a dead letter",
       Hex(EncodeLocator({.due_ms = 0,
                          .tombstone = Tombstone{.state = EndState::kDeadLettered,
                                                 .topic = kExampleTopic,
                                                 .end_ms = kDueMs + 3,
                                                 .expire_ms = kDueMs + 4,
                                                 .revision = 1,
                                                 .dead_letters = {letter},
                                                 .key = "order-17"}}))},
      {"counts key, topic", Hex(CountKey(kShard, kExampleTopic).bytes())},
      {"counts key, day", Hex(DayKey(kShard, kExampleTopic, DayOf(kDueMs)).bytes())},
      {"counts key, done", Hex(DoneKey(kShard, kSubscription, DayOf(kDueMs)).bytes())},
      {"counts value", change({.messages = 1, .bytes = 52})},
      {"counts value, one less", change({.messages = -1, .bytes = -52})},
      {"counts value, day", day({.messages = 1, .bytes = 52})},
      {"counts value, day, one less", day({.messages = -1, .bytes = -52})},
      {"objects value, start",
       Hex(EncodeSubscriptionStart({.topic = kExampleTopic, .first = key.id}))},
      {"objects key", Hex(NameKey::OfObject('o', kShard, "op-1").bytes())},
      {"backlog key", Hex(EncodeBacklogKey(kShard, FirstSubscription(kExampleTopic), key).bytes())},
      {"backlog value",
       Hex(EncodeBacklogEntry({.attempts = 2, .bytes = 52, .maybe_delivered = true}))},
      {"backlog key, retry",
       Hex(EncodeBacklogKey(kShard, kSubscription, {kDueMs + 60'000, key.id}).bytes())},
      {"backlog value, retry",
       Hex(EncodeBacklogEntry({.attempts = 2, .bytes = 52, .due_ms = kDueMs}))},
      {"progress key", Hex(EncodeProgressKey(kShard, key, kSubscription).bytes())},
      {"progress value", Hex(EncodeProgress({.state = Progress::State::kFailed,
                                             .listed = true,
                                             .attempts = 2,
                                             .retry_ms = kDueMs + 60'000,
                                             .reason = 1}))},
      {"progress value, spared",
       Hex(EncodeProgress(
           {.state = Progress::State::kFailed, .attempts = 2, .spared = 3, .reason = 4}))},
      {"progress value, settled",
       Hex(EncodeProgress({.state = Progress::State::kSettled, .attempts = 1}))},
      {"progress value, with attempts", Hex(EncodeProgress({.state = Progress::State::kFailed,
                                                            .attempts = 2,
                                                            .retry_ms = kDueMs + 60'000,
                                                            .reason = 1,
                                                            .last_attempts = attempts}))},
      {"progress value, settled by a dead letter",
       Hex(EncodeProgress(
           {.state = Progress::State::kSettled, .attempts = 1, .dead_letter = letter}))},
      {"id text", Hex(key.id.ToString())},
  };
  EXPECT_EQ(ReadExample(), written);
}

}  // namespace
}  // namespace duetime::storage
