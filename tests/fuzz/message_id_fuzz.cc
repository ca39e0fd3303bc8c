// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes message ids: any text, and any parts.
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/message_id.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/target.h"

namespace {

using duetime::storage::MessageId;
using duetime::test::ByteReader;

// Checks that an id prints the same text from which it was parsed.
void CheckText(absl::string_view text) {
  const std::optional<MessageId> id = MessageId::Parse(text);
  if (!id.has_value()) return;
  DT_CHECK_EQ(id->ToString(), std::string(text));
  DT_CHECK_EQ(id->version(), uint64_t{MessageId::kVersion});
}

MessageId CheckParts(ByteReader* reader) {
  const uint64_t epoch = reader->Word() & MessageId::kEpochMax;
  const uint64_t sequence = reader->Word() & MessageId::kSequenceMax;
  const auto slot = static_cast<uint32_t>(reader->Word()) & (MessageId::kSlotCount - 1);
  const uint64_t due_ms = reader->Word() & MessageId::kDueMax;
  const MessageId id = MessageId::Make(epoch, sequence, slot, due_ms);
  DT_CHECK_EQ(id.version(), uint64_t{MessageId::kVersion});
  DT_CHECK_EQ(id.epoch(), epoch);
  DT_CHECK_EQ(id.sequence(), sequence);
  DT_CHECK_EQ(id.slot(), slot);
  DT_CHECK_EQ(id.due_ms(), due_ms);
  const std::string text = id.ToString();
  DT_CHECK_EQ(text.size(), MessageId::kTextSize);
  const std::optional<MessageId> parsed = MessageId::Parse(text);
  DT_CHECK(parsed.has_value());
  DT_CHECK(*parsed == id);
  return id;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  CheckText(input);
  // The same bytes as digits. Most of these texts have the right length and alphabet.
  std::string digits;
  for (const char c : input.substr(0, MessageId::kTextSize)) {
    digits.push_back("0123456789abcdefghjkmnpqrstvwxyz"[static_cast<unsigned char>(c) % 32]);
  }
  CheckText(digits);

  ByteReader reader(data, size);
  const MessageId one = CheckParts(&reader);
  const MessageId other = CheckParts(&reader);
  // Texts have the order of their ids, and the ids of a slot are ordered by epoch and sequence.
  DT_CHECK_EQ(one < other, one.ToString() < other.ToString());
  if (one.epoch() != other.epoch()) {
    DT_CHECK_EQ(one < other, one.epoch() < other.epoch());
  } else if (one.sequence() != other.sequence()) {
    DT_CHECK_EQ(one < other, one.sequence() < other.sequence());
  }
  return 0;
}
