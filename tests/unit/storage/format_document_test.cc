// SPDX-License-Identifier: Apache-2.0
//
// FORMAT.md is the specification of the bytes on disk; this test reads its worked example and
// compares it with the codecs.
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/message_record.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

// The lines "name: hex hex ..." between "```example" and "```", without the blanks between the
// bytes.
std::map<std::string, std::string> ReadExample() {
  std::map<std::string, std::string> example;
  std::ifstream document(DUETIME_FORMAT_DOCUMENT);
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

TEST(FormatDocumentTest, TheWorkedExampleIsWhatTheCodecsWrite) {
  constexpr uint16_t kShard = 1;
  constexpr TopicId kTopic{7};
  constexpr uint64_t kDueMs = 1'700'000'000'000;
  constexpr uint64_t kAcceptMs = 1'699'999'990'000;
  const MessageKey key{kDueMs, MessageId::Make(/*epoch=*/3, /*sequence=*/5, /*slot=*/8192, kDueMs)};

  const std::map<std::string, std::string> written = {
      {"meta key format_version", Hex(FormatVersionKey().bytes())},
      {"meta value format_version", Hex(EncodeNumber(2))},
      {"meta key topic", Hex(TopicKey(kTopic).bytes())},
      {"meta value topic", Hex("orders")},
      {"meta key claim", Hex(ClaimKey(kShard).bytes())},
      {"meta value claim", Hex(EncodeNumber(kDueMs))},
      {"meta key safe", Hex(SafeKey(kShard).bytes())},
      {"meta value safe", Hex(EncodeNumber(kAcceptMs))},
      {"meta key backlog_claim", Hex(BacklogClaimKey(kShard, kTopic).bytes())},
      {"meta value backlog_claim", Hex(EncodePlace(key))},
      {"messages key", Hex(EncodeMessageKey(kShard, key).bytes())},
      {"messages value", Hex(EncodeMessageRecord({.header = {kTopic, kDueMs, kAcceptMs},
                                                  .attributes = {{"color", "red"}},
                                                  .payload = "hello"}))},
      {"backlog key", Hex(EncodeBacklogKey(kShard, kTopic, key).bytes())},
      {"backlog value",
       Hex(EncodeBacklogEntry({.attempts = 2, .bytes = 52, .maybe_delivered = true}))},
      {"id text", Hex(key.id.ToString())},
  };
  EXPECT_EQ(ReadExample(), written);
}

}  // namespace
}  // namespace duetime::storage
