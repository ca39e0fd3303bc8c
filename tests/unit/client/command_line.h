// SPDX-License-Identifier: Apache-2.0
//
// Command lines, read as the tool reads them.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "google/protobuf/field_mask.pb.h"

#include "client/cli/arguments.h"

namespace duetime::cli {

using Words = std::vector<const char*>;

inline std::variant<Arguments, ExitCode> Parse(Words words) {
  words.insert(words.begin(), "duetime");
  return ParseArguments(static_cast<int>(words.size()), words.data());
}

// The words as this command, which they must be.
template <typename T>
T ReadAs(const Words& words) {
  auto parsed = Parse(words);
  const auto* arguments = std::get_if<Arguments>(&parsed);
  if (arguments == nullptr || !std::holds_alternative<T>(arguments->command)) {
    ADD_FAILURE() << "not the command expected";
    return {};
  }
  return std::get<T>(arguments->command);
}

// Each of these is refused, with the exit code for it.
inline void ExpectBadUsage(const std::vector<Words>& cases) {
  for (const Words& words : cases) {
    std::string line;
    for (const char* word : words) line += std::string(word) + " ";
    const auto parsed = Parse(words);
    ASSERT_TRUE(std::holds_alternative<ExitCode>(parsed)) << line;
    EXPECT_EQ(std::get<ExitCode>(parsed), kBadUsage) << line;
  }
}

inline std::vector<std::string> PathsOf(const google::protobuf::FieldMask& mask) {
  return {mask.paths().begin(), mask.paths().end()};
}

}  // namespace duetime::cli
