// SPDX-License-Identifier: Apache-2.0
#include "storage/message_record.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

using Attributes = std::vector<std::pair<absl::string_view, absl::string_view>>;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const MessageHeader kHeader{TopicId{0xfedcba98}, 1'700'000'000'000, 1'699'999'990'000};

std::string Encode(const Attributes& attributes, absl::string_view payload) {
  return EncodeMessageRecord(kHeader, attributes, payload);
}

void ExpectDataLoss(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST(MessageRecordTest, EverythingComesBack) {
  const std::string long_value(70'000, 'v');
  const std::string bytes =
      Encode({{"key", "value"}, {"", ""}, {absl::string_view("a\0b", 3), long_value}}, "payload");
  MessageRecord record;
  ASSERT_TRUE(DecodeMessageRecord(bytes, &record).ok());
  EXPECT_EQ(record.header.topic, kHeader.topic);
  EXPECT_EQ(record.header.deliver_ms, kHeader.deliver_ms);
  EXPECT_EQ(record.header.accept_ms, kHeader.accept_ms);
  EXPECT_THAT(record.attributes,
              ElementsAre(Pair("key", "value"), Pair("", ""),
                          Pair(absl::string_view("a\0b", 3), absl::string_view(long_value))));
  EXPECT_EQ(record.payload, "payload");

  MessageHeader header;
  ASSERT_TRUE(DecodeMessageHeader(bytes, &header).ok());
  EXPECT_EQ(header.topic, kHeader.topic);
  EXPECT_EQ(header.deliver_ms, kHeader.deliver_ms);
  EXPECT_EQ(header.accept_ms, kHeader.accept_ms);
}

TEST(MessageRecordTest, TheSmallestRecordIsItsHeader) {
  const std::string bytes = Encode({}, "");
  EXPECT_EQ(bytes.size(), 32u);
  MessageRecord record;
  record.attributes.emplace_back("left", "over");
  ASSERT_TRUE(DecodeMessageRecord(bytes, &record).ok());
  EXPECT_THAT(record.attributes, IsEmpty());
  EXPECT_EQ(record.payload, "");
}

TEST(MessageRecordTest, EveryTruncationIsRefused) {
  const std::string bytes = Encode({{"key", "value"}, {"k", ""}}, "payload");
  MessageRecord record;
  MessageHeader header;
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectDataLoss(DecodeMessageRecord(absl::string_view(bytes).substr(0, size), &record));
    if (size < 32) {
      ExpectDataLoss(DecodeMessageHeader(absl::string_view(bytes).substr(0, size), &header));
    }
  }
  ExpectDataLoss(DecodeMessageRecord(bytes + "x", &record));
}

TEST(MessageRecordTest, EverySingleBitFlipIsRefused) {
  for (const std::string& payload : {std::string("payload"), std::string(300, 'p')}) {
    const std::string bytes = Encode({{"key", "value"}, {"k", ""}}, payload);
    MessageRecord record;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      ExpectDataLoss(DecodeMessageRecord(flipped, &record));
    }
  }
}

TEST(MessageRecordTest, TheHeaderAloneRefusesWhatItDoesNotKnow) {
  const std::string bytes = Encode({{"key", "value"}}, "payload");
  MessageHeader header;
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 2);
    ExpectDataLoss(DecodeMessageHeader(changed, &header));
  }
  std::string changed = bytes;
  changed[15] = '\x7f';  // a sections region of 2 GB
  ExpectDataLoss(DecodeMessageHeader(changed, &header));
}

}  // namespace
}  // namespace duetime::storage
