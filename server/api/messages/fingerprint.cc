// SPDX-License-Identifier: Apache-2.0
//
// The fingerprint of a request to schedule: equal content has an equal fingerprint.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/api/messages/content_hash.h"
#include "server/api/messages/schedule_validation.h"

namespace duetime::api {
namespace {

// Writes parts as tag, length and bytes, so that no two different contents give the same text. The
// tags are on disk: never give a tag another meaning.
class Canonical {
 public:
  void Add(char tag, absl::string_view bytes) {
    text_.push_back(tag);
    Number(bytes.size());
    text_.append(bytes.data(), bytes.size());
  }
  void Add(char tag, int64_t seconds, int32_t nanos) {
    text_.push_back(tag);
    Number(static_cast<uint64_t>(seconds));
    Number(static_cast<uint64_t>(static_cast<int64_t>(nanos)));
  }
  void Add(char tag, const google::protobuf::Map<std::string, std::string>& pairs) {
    std::vector<std::pair<absl::string_view, absl::string_view>> sorted(pairs.begin(), pairs.end());
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [key, value] : sorted) {
      Add(tag, key);
      Add('=', value);
    }
  }
  const std::string& text() const { return text_; }

 private:
  void Number(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) text_.push_back(static_cast<char>(value >> shift));
  }

  std::string text_;
};

}  // namespace

storage::Fingerprint FingerprintOf(const v1::ScheduleRequest& request) {
  Canonical content;
  content.Add('p', request.payload());
  content.Add('a', request.attributes());
  content.Add('l', request.labels());
  if (!request.ordering_key().empty()) content.Add('o', request.ordering_key());
  if (request.has_ttl()) content.Add('t', request.ttl().seconds(), request.ttl().nanos());
  if (request.has_expire_time()) {
    content.Add('e', request.expire_time().seconds(), request.expire_time().nanos());
  }
  // DELIVER is the default, so both must give the same fingerprint.
  if (request.late_policy() != v1::Message::LATE_POLICY_UNSPECIFIED &&
      request.late_policy() != v1::Message::LATE_POLICY_DELIVER) {
    content.Add('L', request.late_policy(), 0);
  }
  if (request.spread().seconds() != 0 || request.spread().nanos() != 0) {
    content.Add('s', request.spread().seconds(), request.spread().nanos());
  }
  switch (request.when_case()) {
    case v1::ScheduleRequest::WHEN_NOT_SET:
      break;
    case v1::ScheduleRequest::kDeliverTime:
      content.Add('T', request.deliver_time().seconds(), request.deliver_time().nanos());
      break;
    case v1::ScheduleRequest::kDelay:
      content.Add('D', request.delay().seconds(), request.delay().nanos());
      break;
    case v1::ScheduleRequest::kCivilTime:
      content.Add('C', request.civil_time().local());
      content.Add('Z', request.civil_time().time_zone());
      break;
  }
  return ContentHash(content.text());
}

}  // namespace duetime::api
