// SPDX-License-Identifier: Apache-2.0
//
// Command lines as a shell splits them, and as the tool reads them.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <variant>
#include <vector>

#include "client/cli/command.h"

namespace duetime::cli {

// Splits at blanks, except between single quotes.
inline std::vector<std::string> SplitWords(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false;
  bool in_word = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c != '\'') words.back() += c;
  }
  return words;
}

// `line` is without the name of the program.
inline std::variant<Invocation, ExitCode> Parse(const std::string& line) {
  const std::vector<std::string> words = SplitWords("duetime " + line);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return ParseArguments(static_cast<int>(pointers.size()), pointers.data());
}

// The input of a line that must be right.
inline Input Read(const std::string& line) {
  auto parsed = Parse(line);
  if (auto* invocation = std::get_if<Invocation>(&parsed)) return std::move(invocation->input);
  ADD_FAILURE() << "refused: " << line;
  return {};
}

}  // namespace duetime::cli
