// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

#include "server/base/hex.h"
#include "server/protocol/objects.pb.h"
#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/request_content.h"

namespace duetime::protocol {
namespace {

// The contents of SomeOperation and SomeRecurrence, for ever.
constexpr char kOperationContent[] =
    "010700000000000000020000000000000061ff01000000000000000600000000000000726567696f6e020000"
    "000000000065750b000000000000000c000000000000000200000000000000fbffffffffffffff0d00000000"
    "0000000000000000000000000000000000000001000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000";
constexpr char kRecurrenceContent[] =
    "0107000000000000000900000000000000302039202a202a202a01000000000000000d000000000000004575"
    "726f70652f4265726c696efeffffffffffffff01000000000000000300000000000000040000000000000005"
    "000000000000000200000000000000020000000000000006000000000000006279746573ff00000000000000"
    "0000000000000000000100000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000000";

// Every field has a different value. Some texts are not UTF-8.
Operation SomeOperation() {
  return {.name = "op",
          .spec = {.topic = storage::TopicId{7},
                   .filter = {.key_prefix = "a\xff",
                              .labels = {{"region", "eu"}},
                              .from_ms = 11,
                              .until_ms = 12},
                   .action = BulkAction::kShift,
                   .shift_ms = -5,
                   .horizon_ms = 13},
          .content = {.high = 14, .low = 15},
          .state = OperationState::kDone,
          .create_ms = 16,
          .end_ms = 17,
          .starting = true,
          .elsewhere = true,
          .first_ms = 24,
          .cursor = {.due_ms = 18, .id = {.high = 19, .low = 20}},
          .matched = 21,
          .changed = 22,
          .unchanged = 23};
}

RecurrenceState SomeRecurrence() {
  return {.name = "daily",
          .spec = {.topic = storage::TopicId{7},
                   .rule = {.cron = "0 9 * * *",
                            .interval_ms = 1,
                            .time_zone = "Europe/Berlin",
                            .start_ms = -2,
                            .end_ms = 3,
                            .max_count = 4,
                            .jitter_ms = 5},
                   .overlap = Overlap::kSkip,
                   .misfire = Misfire::kFireAll,
                   .message = "bytes\xff",
                   .content = {.high = 6, .low = 7}},
          .status = RecurrenceStatus::kPaused,
          .revision = 8,
          .create_ms = 9,
          .update_ms = 10,
          .made = 11,
          .skipped = 12,
          .nominal_ms = 13,
          .current = {.due_ms = 14, .id = {.high = 15, .low = 16}},
          .current_deliver_ms = 17,
          .previous = {.due_ms = 18, .id = {.high = 19, .low = 20}}};
}

void ExpectSame(const absl::StatusOr<Operation>& back, const Operation& operation) {
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->name, operation.name);
  EXPECT_EQ(back->spec.topic, operation.spec.topic);
  EXPECT_EQ(back->spec.filter.key_prefix, operation.spec.filter.key_prefix);
  EXPECT_EQ(back->spec.filter.labels, operation.spec.filter.labels);
  EXPECT_EQ(back->spec.filter.from_ms, operation.spec.filter.from_ms);
  EXPECT_EQ(back->spec.filter.until_ms, operation.spec.filter.until_ms);
  EXPECT_EQ(back->spec.filter.id, operation.spec.filter.id);
  EXPECT_EQ(back->spec.action, operation.spec.action);
  EXPECT_EQ(back->spec.shift_ms, operation.spec.shift_ms);
  EXPECT_EQ(back->spec.horizon_ms, operation.spec.horizon_ms);
  EXPECT_EQ(back->content, operation.content);
  EXPECT_EQ(back->state, operation.state);
  EXPECT_EQ(back->create_ms, operation.create_ms);
  EXPECT_EQ(back->start, operation.start);
  EXPECT_EQ(back->end_ms, operation.end_ms);
  EXPECT_EQ(back->cursor, operation.cursor);
  EXPECT_EQ(back->matched, operation.matched);
  EXPECT_EQ(back->changed, operation.changed);
  EXPECT_EQ(back->unchanged, operation.unchanged);
}

void ExpectSame(const absl::StatusOr<RecurrenceState>& back, const RecurrenceState& state) {
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->name, state.name);
  EXPECT_EQ(back->spec.topic, state.spec.topic);
  EXPECT_EQ(back->spec.rule.cron, state.spec.rule.cron);
  EXPECT_EQ(back->spec.rule.interval_ms, state.spec.rule.interval_ms);
  EXPECT_EQ(back->spec.rule.time_zone, state.spec.rule.time_zone);
  EXPECT_EQ(back->spec.rule.start_ms, state.spec.rule.start_ms);
  EXPECT_EQ(back->spec.rule.end_ms, state.spec.rule.end_ms);
  EXPECT_EQ(back->spec.rule.max_count, state.spec.rule.max_count);
  EXPECT_EQ(back->spec.rule.jitter_ms, state.spec.rule.jitter_ms);
  EXPECT_EQ(back->spec.overlap, state.spec.overlap);
  EXPECT_EQ(back->spec.misfire, state.spec.misfire);
  EXPECT_EQ(back->spec.message, state.spec.message);
  EXPECT_EQ(back->spec.content, state.spec.content);
  EXPECT_EQ(back->status, state.status);
  EXPECT_EQ(back->revision, state.revision);
  EXPECT_EQ(back->create_ms, state.create_ms);
  EXPECT_EQ(back->update_ms, state.update_ms);
  EXPECT_EQ(back->made, state.made);
  EXPECT_EQ(back->skipped, state.skipped);
  EXPECT_EQ(back->nominal_ms, state.nominal_ms);
  EXPECT_EQ(back->current, state.current);
  EXPECT_EQ(back->current_deliver_ms, state.current_deliver_ms);
  EXPECT_EQ(back->previous, state.previous);
}

TEST(ObjectsTest, GoThereAndBack) {
  Operation started = SomeOperation();
  ExpectSame(DecodeOperation("op", EncodeOperation(started)), started);
  started.start = {.high = 24, .low = 25};
  ExpectSame(DecodeOperation("op", EncodeOperation(started)), started);
  started.spec.filter.id = {.high = 26, .low = 27};
  ExpectSame(DecodeOperation("op", EncodeOperation(started)), started);
  ExpectSame(DecodeRecurrence("daily", EncodeRecurrence(SomeRecurrence())), SomeRecurrence());
  RecurrenceState endless = SomeRecurrence();
  endless.spec.rule.end_ms.reset();
  ExpectSame(DecodeRecurrence("daily", EncodeRecurrence(endless)), endless);
}

// Otherwise a request that is repeated after an upgrade would count as a different one.
TEST(ObjectsTest, TheContentStays) {
  EXPECT_EQ(absl::BytesToHexString(ContentOf(SomeOperation().spec)), kOperationContent);
  EXPECT_EQ(absl::BytesToHexString(ContentOf(SomeRecurrence().spec)), kRecurrenceContent);
}

TEST(ObjectsTest, AnotherIdIsAnotherContent) {
  OperationSpec one = SomeOperation().spec;
  one.filter.id = {.high = 1, .low = 2};
  OperationSpec other = one;
  other.filter.id.low = 3;
  EXPECT_NE(ContentOf(one), ContentOf(other));
  EXPECT_NE(ContentOf(one), ContentOf(SomeOperation().spec));
}

// Such a program ignores the id, and must not take all messages.
TEST(ObjectsTest, AProgramThatDoesNotKnowTheIdTakesNoMessage) {
  Operation operation = SomeOperation();
  storage::MessageRecord message;
  message.header.deliver_ms = operation.spec.filter.from_ms;
  message.labels = {{"region", "eu"}};
  message.key = operation.spec.filter.key_prefix;
  operation.spec.filter.id = {.high = 1, .low = 2};
  EXPECT_TRUE(operation.spec.filter.Matches(operation.spec.filter.id, message));
  EXPECT_FALSE(operation.spec.filter.Matches({.high = 1, .low = 3}, message));
  internal::OperationRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeOperation(operation).substr(1)));
  record.clear_id_high();
  record.clear_id_low();
  const auto old = DecodeOperation("op", "\2" + record.SerializeAsString());
  ASSERT_TRUE(old.ok());
  EXPECT_FALSE(old->spec.filter.Matches(operation.spec.filter.id, message));
}

TEST(ObjectsTest, RefuseWhatNobodyWrote) {
  const std::string operation = EncodeOperation(SomeOperation());
  const std::string recurrence = EncodeRecurrence(SomeRecurrence());
  for (const std::string& bytes :
       {std::string(), std::string("\0", 1), std::string("\1"), std::string("\2"),
        std::string("\2\xff"), "\3" + operation.substr(1),
        operation.substr(0, operation.size() - 1), recurrence.substr(0, recurrence.size() - 1),
        "\1" + operation.substr(1), "\1" + recurrence.substr(1),
        *base::HexToBytes(kOperationContent), *base::HexToBytes(kRecurrenceContent)}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeOperation("op", bytes).status()))
        << absl::BytesToHexString(bytes);
    EXPECT_TRUE(absl::IsDataLoss(DecodeRecurrence("daily", bytes).status()))
        << absl::BytesToHexString(bytes);
  }
}

TEST(ObjectsTest, RefuseNumbersThatNameNothing) {
  using Change = void (*)(internal::OperationRecord&);
  for (const Change change : std::vector<Change>{
           [](auto& record) { record.set_topic(0); }, [](auto& record) { record.set_action(0); },
           [](auto& record) { record.set_action(6); }, [](auto& record) { record.set_action(257); },
           [](auto& record) { record.set_state(0); }, [](auto& record) { record.set_state(4); }}) {
    internal::OperationRecord record;
    ASSERT_TRUE(record.ParseFromString(EncodeOperation(SomeOperation()).substr(1)));
    change(record);
    EXPECT_TRUE(absl::IsDataLoss(DecodeOperation("op", "\2" + record.SerializeAsString()).status()))
        << record.action() << ", " << record.state();
  }
  using RecurrenceChange = void (*)(internal::RecurrenceRecord&);
  for (const RecurrenceChange change : std::vector<RecurrenceChange>{
           [](auto& record) { record.set_topic(0); }, [](auto& record) { record.set_overlap(0); },
           [](auto& record) { record.set_overlap(3); }, [](auto& record) { record.set_misfire(0); },
           [](auto& record) { record.set_misfire(4); }, [](auto& record) { record.set_status(0); },
           [](auto& record) { record.set_status(4); }}) {
    internal::RecurrenceRecord record;
    ASSERT_TRUE(record.ParseFromString(EncodeRecurrence(SomeRecurrence()).substr(1)));
    change(record);
    EXPECT_TRUE(
        absl::IsDataLoss(DecodeRecurrence("daily", "\2" + record.SerializeAsString()).status()))
        << record.overlap() << ", " << record.misfire() << ", " << record.status();
  }
}

}  // namespace
}  // namespace duetime::protocol
