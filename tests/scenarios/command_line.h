// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace duetime::delivery {

// A line of a scenario, taken apart.
struct CommandLine {
  std::string verb;
  std::vector<std::string> names;
  std::map<std::string, std::string> values;

  int64_t Number(const std::string& key, int64_t otherwise) const {
    const auto it = values.find(key);
    int64_t number = otherwise;
    if (it != values.end() && !absl::SimpleAtoi(absl::StripPrefix(it->second, "+"), &number)) {
      ADD_FAILURE() << "not a number: " << it->second;
    }
    return number;
  }
  uint64_t Count(const std::string& key, int64_t otherwise) const {
    return static_cast<uint64_t>(Number(key, otherwise));
  }
  std::string Text(const std::string& key, const std::string& otherwise) const {
    const auto it = values.find(key);
    return it == values.end() ? otherwise : it->second;
  }
  bool Has(const std::string& word) const {
    return std::find(names.begin(), names.end(), word) != names.end();
  }
  std::string Name(size_t i) const { return i < names.size() ? names[i] : ""; }
};

inline CommandLine Parse(const std::string& line) {
  CommandLine command;
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (parts.size() == 2) {
      command.values[parts[0]] = parts[1];
    } else if (command.verb.empty()) {
      command.verb = word;
    } else {
      command.names.push_back(word);
    }
  }
  return command;
}

}  // namespace duetime::delivery
