// SPDX-License-Identifier: Apache-2.0
//
// The table of error_metadata.h and the comments of the protos name the same reasons and metadata.
#include "tests/support/error_metadata.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/paths.h"

namespace duetime::test {
namespace {

// The keys that each reason has by the protos, as "topic" of "(metadata: topic, and its name)".
// `all`: the text of the protos.
std::map<std::string, std::set<std::string>> KeysInProtos(std::string* all) {
  static const std::regex kEntry(
      R"( *// {2,}[A-Z_]+ +([A-Z_]+(?:, [A-Z_]+)*),?(?: {2,}(.*)| (\(.*))?)");
  static const std::regex kMore(R"( *// {6,}(.*))");
  static const std::regex kMetadata(R"(\(metadata: ([^)]*)\))");
  static const std::regex kKey(R"( ?([a-z_]+)(:.*)?)");
  std::map<std::string, std::string> texts;
  for (const auto& file :
       std::filesystem::directory_iterator(absl::StrCat(kSourceRoot, "/proto/duetime/v1"))) {
    std::ifstream lines(file.path());
    std::vector<std::string> reasons;
    std::smatch parts;
    for (std::string line; std::getline(lines, line);) {
      absl::StrAppend(all, line, "\n");
      std::string text;
      if (std::regex_match(line, parts, kEntry)) {
        reasons = absl::StrSplit(parts[1].str(), ", ");
        text = parts[2].str() + parts[3].str();
      } else if (std::regex_match(line, parts, kMore)) {
        text = parts[1];
      } else {
        reasons.clear();
      }
      for (const std::string& reason : reasons) absl::StrAppend(&texts[reason], " ", text);
    }
  }
  std::map<std::string, std::set<std::string>> keys;
  for (const auto& [reason, text] : texts) {
    std::set<std::string>& of_reason = keys[reason];
    for (std::sregex_iterator found(text.begin(), text.end(), kMetadata), end; found != end;
         ++found) {
      const std::string list = (*found)[1];
      const std::vector<std::string> parts_of_list = absl::StrSplit(list, absl::ByAnyChar(",;"));
      for (const std::string& part : parts_of_list) {
        std::smatch key;
        if (std::regex_match(part, key, kKey)) of_reason.insert(key[1]);
      }
    }
  }
  return keys;
}

TEST(ErrorMetadataTest, TheTableHasTheReasonsAndTheKeysOfTheProtos) {
  std::string all;
  const auto in_protos = KeysInProtos(&all);
  EXPECT_GE(in_protos.size(), 60u);
  EXPECT_EQ(in_protos.at("QUOTA_EXCEEDED"), (std::set<std::string>{"quota", "limit", "of"}));
  for (const auto& [reason, keys] : in_protos) {
    SCOPED_TRACE(reason);
    std::set<std::string> in_table;
    const auto forms = KeysOf(reason);
    for (const auto& form : forms) in_table.insert(form.begin(), form.end());
    for (const std::string& key : keys) EXPECT_TRUE(in_table.contains(key)) << key;
    const bool of_a_field = absl::StartsWith(reason, "INVALID_") ||
                            absl::StrContains(reason, "_TOO_LARGE") ||
                            absl::StartsWith(reason, "DELIVER_TIME_") || reason == "TARGET_MISSING";
    EXPECT_TRUE(of_a_field || !forms.empty()) << "no row";
  }
  for (const ErrorRow& row : kErrors) {
    EXPECT_TRUE(absl::StrContains(all, row.reason)) << row.reason;
  }
}

}  // namespace
}  // namespace duetime::test
