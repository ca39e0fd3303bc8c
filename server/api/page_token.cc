// SPDX-License-Identifier: Apache-2.0
#include "server/api/page_token.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/api/messages/content_hash.h"

namespace duetime::api {
namespace {

constexpr char kVersion = 1;
constexpr size_t kNumberBytes = sizeof(uint64_t);
// Version, hash, due time, two halves of the id.
constexpr size_t kFixedBytes = 1 + 4 * kNumberBytes;

void AppendNumber(uint64_t value, std::string* bytes) {
  for (int shift = 56; shift >= 0; shift -= 8) bytes->push_back(static_cast<char>(value >> shift));
}

uint64_t NumberAt(absl::string_view bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  }
  return value;
}

// The name HashOf would clash with absl::HashOf for some types of arguments.
uint64_t HashOfToken(absl::string_view body, absl::string_view filter) {
  const std::string text = absl::StrCat(body, filter, body.size());
  return ContentHash(text).low;
}

}  // namespace

std::string MakePageToken(absl::string_view filter, const query::ListPosition& position) {
  std::string body;
  AppendNumber(position.place.due_ms, &body);
  AppendNumber(position.place.id.high, &body);
  AppendNumber(position.place.id.low, &body);
  body += position.key;
  std::string bytes(1, kVersion);
  AppendNumber(HashOfToken(body, filter), &bytes);
  return absl::WebSafeBase64Escape(bytes + body);
}

std::optional<query::ListPosition> ReadPageToken(absl::string_view token,
                                                 absl::string_view filter) {
  std::string bytes;
  // Unescape skips blanks and accepts padding, so it also reads texts that MakePageToken never
  // makes.
  if (!absl::WebSafeBase64Unescape(token, &bytes) || absl::WebSafeBase64Escape(bytes) != token ||
      bytes.size() < kFixedBytes || bytes[0] != kVersion) {
    return std::nullopt;
  }
  const absl::string_view body = absl::string_view(bytes).substr(1 + kNumberBytes);
  if (NumberAt(bytes, 1) != HashOfToken(body, filter)) return std::nullopt;
  query::ListPosition position;
  position.place.due_ms = NumberAt(body, 0);
  position.place.id.high = NumberAt(body, kNumberBytes);
  position.place.id.low = NumberAt(body, 2 * kNumberBytes);
  position.key = std::string(body.substr(3 * kNumberBytes));
  return position;
}

}  // namespace duetime::api
