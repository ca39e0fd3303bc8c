// SPDX-License-Identifier: Apache-2.0
//
// Which metadata each error has. The fixtures of the tests check every error that they read.
#pragma once

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace duetime::test {

struct ErrorRow {
  absl::string_view reason;
  // The keys that the metadata of the error always has. "|" divides the forms of one reason.
  absl::string_view keys = "";
};

// Every reason that the protos explain, without those of an invalid field: these have the field.
inline constexpr ErrorRow kErrors[] = {
    {"ACCESS_CONTROL_OFF"},
    {"ADVANCE_RUNNING"},
    {"ACCESS_DENIED", "principal verb topic|principal verb"},
    {"BACKUP_NOT_FOUND", "name"},
    {"BACKUP_RUNNING", "name"},
    {"CELL_UNAVAILABLE", "cell"},
    {"CHECKSUM_MISMATCH"},
    {"CONTENT_MISMATCH", "topic key message_id state|name"},
    {"CREDENTIALS_REQUIRED"},
    {"DEAD_LETTER_CYCLE", "topic dead_letter_topic cycle"},
    {"DISK_LOW"},
    {"DRAINING"},
    {"ETAG_MISMATCH", "message_id etag|name"},
    {"FORECAST_TOO_LARGE", "what limit"},
    {"INVALID_CREDENTIALS"},
    {"MALFORMED_REQUEST"},
    {"MESSAGE_NOT_FOUND", "topic key|message_id"},
    {"MINUTE_FULL", "topic minute limit"},
    {"NOT_IN_CELL"},
    {"NOT_LEADER", "leader"},
    {"NO_DEAD_LETTER_TOPIC", "topic"},
    {"NO_STANDBY"},
    {"OPERATION_EXISTS", "name"},
    {"OPERATION_LIMIT", "limit"},
    {"OPERATION_NOT_FOUND", "name"},
    {"OVERLOADED", "queue limit"},
    {"QUOTA_EXCEEDED", "quota limit of"},
    {"RECURRENCE_LIMIT", "what limit completed"},
    {"RECURRENCE_NOT_FOUND", "name"},
    {"REQUEST_ID_REUSED", "topic request_id message_id"},
    {"STARTING"},
    {"STORAGE_FAILED"},
    {"STREAM_ENDED"},
    {"STREAM_LIMIT", "limit"},
    {"STREAM_NOT_FOUND", "id"},
    {"SUBSCRIPTION_EXISTS", "topic subscription"},
    {"SUBSCRIPTION_LIMIT", "limit"},
    {"SUBSCRIPTION_NOT_FOUND", "topic subscription"},
    {"TOO_MANY_REFUSED_CREDENTIALS", "limit"},
    {"TOPIC_EXISTS", "topic"},
    {"TOPIC_FULL", "topic limit"},
    {"TOPIC_LIMIT", "limit"},
    {"TOPIC_NOT_EMPTY", "topic messages|topic recurrences"},
    {"TOPIC_NOT_FOUND", "topic"},
    {"TOPIC_USED", "topic"},
};

// The forms of a reason; none if the table does not have the reason.
inline std::vector<std::vector<std::string>> KeysOf(absl::string_view reason) {
  std::vector<std::vector<std::string>> forms;
  for (const ErrorRow& row : kErrors) {
    if (row.reason != reason) continue;
    for (const absl::string_view form : absl::StrSplit(row.keys, '|')) {
      forms.push_back(absl::StrSplit(form, ' ', absl::SkipEmpty()));
    }
  }
  return forms;
}

// `invalid_field`: of an INVALID_ARGUMENT with a field violation; else empty.
template <typename Metadata>
void ExpectPromisedMetadata(absl::string_view reason, const Metadata& metadata,
                            absl::string_view invalid_field) {
  if (!invalid_field.empty()) {
    const auto field = metadata.find("field");
    EXPECT_TRUE(field != metadata.end() && field->second == invalid_field)
        << reason << " of the field " << invalid_field << " has no metadata `field`";
  }
  const auto forms = KeysOf(reason);
  const auto has = [&metadata](const std::string& key) {
    return metadata.find(key) != metadata.end();
  };
  const auto fits = [&has](const auto& keys) { return std::all_of(keys.begin(), keys.end(), has); };
  EXPECT_TRUE(forms.empty() || std::any_of(forms.begin(), forms.end(), fits))
      << reason << " lacks metadata that error_metadata.h names";
}

}  // namespace duetime::test
