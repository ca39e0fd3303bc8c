// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <string>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

#include "client/cli/json.h"
#include "client/cli/show.h"
#include "client/cpp/error.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "tests/support/proto_text.h"

namespace duetime::cli {
namespace {

TEST(PrintableTest, TextStaysTextAndOtherBytesAreBase64) {
  struct Case {
    std::string bytes;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{{"", ""},
                                         {"hello", "hello"},
                                         {"grüße 你好 🙂", "grüße 你好 🙂"},
                                         {"a\nb\tc\r", "a\\nb\\tc\\r"},
                                         {"{\"a\": \"\\n\"}", "{\"a\": \"\\n\"}"},
                                         // These bytes could take control of a terminal.
                                         {"\x1b[2J", "base64:G1sySg=="},
                                         {std::string("a\0", 2), "base64:YQA="},
                                         {"\x7f", "base64:fw=="},
                                         {"\xc2\x9b", "base64:wps="}}) {
    EXPECT_EQ(Printable(c.bytes), c.text);
  }
  // Invalid UTF-8: stray, cut short, overlong, surrogate, beyond the last code point.
  for (const char* bytes : {"\xff", "\x80", "\xc3", "\xe4\xbd", "\xc0\xaf", "\xe0\x80\xaf",
                            "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_EQ(Printable(bytes).substr(0, 7), "base64:") << bytes;
    EXPECT_FALSE(IsUtf8(bytes)) << bytes;
  }
}

TEST(PrintableTest, CutsAtACharacterAndSaysSo) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdef", 3), "abc ... (6 bytes)");
  EXPECT_EQ(Printable("aü", 2), "a ... (3 bytes)");
  EXPECT_EQ(Printable("\xff\xff\xff\xff", 3), "base64://// ... (4 bytes)");
}

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(TableText({"A", "LONG HEADER", "C"}, {{"wide cell", "b", ""}, {"", "", "c"}}),
            "A          LONG HEADER  C\n"
            "wide cell  b\n"
            "                        c\n");
  EXPECT_EQ(TableText({"A"}, std::vector<std::vector<std::string>>()), "A\n");
  // A character counts once, for any number of bytes.
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
  EXPECT_EQ(BarText(1, 1'000'000, 10), "#") << "a value above zero has a bar";
  EXPECT_EQ(BarText(INT64_MAX, INT64_MAX, 3), "###");
}

TEST(ChartTest, LabelsValuesAndBars) {
  EXPECT_EQ(ChartText({{.label = "a", .value = 5},
                       {.label = "", .value = 17},
                       {.label = "long", .value = 10},
                       {.label = "none", .value = 0}}),
            "a      5  " + std::string(25, '#') + "\n... 17 empty ...\nlong  10  " +
                std::string(50, '#') + "\nnone   0\n");
  EXPECT_EQ(ChartText({}), "");
}

TEST(BytesTest, UnitsOf1024) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(BytesText(int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(BytesText(int64_t{5000} << 40), "5000.0 TiB");
}

TEST(WordOfTest, LeavesOutTheCommonPrefix) {
  EXPECT_EQ(WordOf(v1::Message::STATE_IN_FLIGHT), "in flight");
  EXPECT_EQ(WordOf(v1::RETENTION_POLICY_DEAD_LETTER), "dead letter");
  EXPECT_EQ(WordOf(v1::BULK_ACTION_SHIFT), "shift");
  EXPECT_EQ(WordOf(static_cast<v1::Message::State>(99)), "99");
}

// ---- JSON

TEST(JsonTest, CanBeReadBack) {
  const auto expect_same = [](const google::protobuf::Message& message) {
    const std::string line = JsonLine(message);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    const std::unique_ptr<google::protobuf::Message> read(message.New());
    const auto status = google::protobuf::util::JsonStringToMessage(line, read.get());
    ASSERT_TRUE(status.ok()) << status.ToString() << line;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(message, *read)) << line;
  };
  expect_same(v1::Message());
  expect_same(ParseProto<v1::GetResponse>(
      "message { id: 'id1' topic: 't' payload: '\\377\\n' payload_bytes: 9007199254740993 "
      "deliver_time { seconds: 90 nanos: 1 } state: STATE_SCHEDULED ttl { nanos: 1500000 } "
      "labels { key: 'b' value: '2' } labels { key: 'a' value: '1' } } "
      "subscriptions { subscription: 's' attempts: 2 }"));
  expect_same(ParseProto<v1::Subscription>(
      "name: 's' settings { retry { jitter: 0.25 } retention_policy: RETENTION_POLICY_DROP }"));
  expect_same(ParseProto<v1::Delivery>("lease_token: 't' lateness { nanos: 1 }"));
  expect_same(ParseProto<v1::Operation>(
      "name: 'n' sample { id: '1' } error { code: 13 reason: 'BROKEN' }"));
}

TEST(JsonTest, NamesAreThoseOfTheProtoAndZerosAreThere) {
  const std::string line = JsonLine(ParseProto<v1::TopicCounts>("pending_bytes: 7"));
  EXPECT_EQ(line, "{\"pending\":\"0\",\"pending_bytes\":\"7\",\"due\":\"0\"}\n");
}

TEST(JsonTest, Errors) {
  const absl::Status error = client::ToAbslStatus(ParseProto<v1::Failure>(
      "code: 8 message: 'the mailbox is full' reason: 'OVERLOADED' "
      "metadata { key: 'limit' value: '10' } retry_delay { nanos: 100000000 }"));
  EXPECT_EQ(ErrorText(error, "h:1"),
            "duetime: OVERLOADED: the mailbox is full (try again in 100ms)\n");
  google::protobuf::Struct read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(ErrorJson(error), &read).ok());
  const auto& fields = read.fields().at("error").struct_value().fields();
  EXPECT_EQ(fields.at("code").string_value(), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(fields.at("reason").string_value(), "OVERLOADED");
  EXPECT_EQ(fields.at("retry_delay").string_value(), "0.100s");
  EXPECT_EQ(fields.at("metadata").struct_value().fields().at("limit").string_value(), "10");
  // Text that is not UTF-8 still gives a line of JSON.
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(ErrorJson(absl::InternalError("\xff")), &read)
          .ok());
}

TEST(ErrorTextTest, NamesTheServerThatDoesNotAnswer) {
  EXPECT_EQ(ErrorText(absl::UnavailableError("connection refused"), "h:1"),
            "duetime: cannot reach the server at h:1: connection refused\n");
  EXPECT_EQ(ErrorText(absl::DeadlineExceededError("two\nlines"), "h:1"),
            "duetime: no answer in time from the server at h:1: two\\nlines\n");
}

}  // namespace
}  // namespace duetime::cli
