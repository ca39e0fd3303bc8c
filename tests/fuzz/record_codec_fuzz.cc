// SPDX-License-Identifier: Apache-2.0
//
// Message records: any bytes to decode, any message to encode, any damage to notice.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/message_record.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/target.h"

namespace {

using duetime::storage::DecodeMessageHeader;
using duetime::storage::DecodeMessageRecord;
using duetime::storage::EncodeMessageRecord;
using duetime::storage::MessageHeader;
using duetime::storage::MessageRecord;
using duetime::storage::TopicId;
using duetime::test::ByteReader;

void CheckSameHeader(const MessageHeader& a, const MessageHeader& b) {
  DT_CHECK_EQ(static_cast<uint32_t>(a.topic), static_cast<uint32_t>(b.topic));
  DT_CHECK_EQ(a.deliver_ms, b.deliver_ms);
  DT_CHECK_EQ(a.accept_ms, b.accept_ms);
}

// Whatever is taken is what an encoder gives for it, and every refusal is DATA_LOSS.
void CheckDecode(absl::string_view bytes) {
  MessageHeader header;
  const absl::Status header_status = DecodeMessageHeader(bytes, &header);
  DT_CHECK(header_status.ok() || absl::IsDataLoss(header_status));
  MessageRecord record;
  const absl::Status status = DecodeMessageRecord(bytes, &record);
  DT_CHECK(status.ok() || absl::IsDataLoss(status));
  if (!status.ok()) return;
  DT_CHECK(header_status.ok());
  CheckSameHeader(header, record.header);
  DT_CHECK(EncodeMessageRecord(record.header, record.attributes, record.payload) == bytes);
}

// Makes a message of the input and takes it through the codec, whole and damaged.
void CheckRoundTrip(ByteReader* reader) {
  const uint8_t flip_at = reader->Byte();
  const uint8_t flip_bit = reader->Byte() % 8;
  const MessageHeader header{.topic = TopicId{static_cast<uint32_t>(reader->Word())},
                             .deliver_ms = reader->Word(),
                             .accept_ms = reader->Word()};
  std::vector<std::pair<std::string, std::string>> texts(reader->Byte() % 5);
  for (auto& [key, value] : texts) {
    key = reader->Bytes(reader->Byte());
    value = reader->Bytes(reader->Byte());
  }
  const std::string payload = reader->Bytes(SIZE_MAX);
  const std::vector<std::pair<absl::string_view, absl::string_view>> attributes(texts.begin(),
                                                                                texts.end());

  std::string bytes = EncodeMessageRecord(header, attributes, payload);
  MessageRecord record;
  DT_CHECK(DecodeMessageRecord(bytes, &record).ok());
  CheckSameHeader(record.header, header);
  DT_CHECK(record.attributes == attributes);
  DT_CHECK(record.payload == payload);
  CheckDecode(bytes);

  // Any one bit that flips is noticed, and so is a byte that is missing at the end.
  const size_t at = flip_at * bytes.size() / 256;
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << flip_bit));
  DT_CHECK(absl::IsDataLoss(DecodeMessageRecord(bytes, &record)));
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << flip_bit));
  bytes.pop_back();
  DT_CHECK(absl::IsDataLoss(DecodeMessageRecord(bytes, &record)));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  CheckDecode(input);
  ByteReader reader(data, size);
  CheckRoundTrip(&reader);
  return 0;
}
