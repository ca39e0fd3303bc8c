// SPDX-License-Identifier: Apache-2.0
//
// Splits command lines like a shell and parses them like the tool.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
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

// Parses the words of a line, of which the first is the name of the program. The contexts of the
// person at this machine have no effect.
inline std::variant<Invocation, ExitCode> ParseWords(const std::vector<std::string>& words) {
  constexpr int kOverwrite = 0;
  setenv("DUETIME_CONTEXT", "none", kOverwrite);  // NOLINT(concurrency-mt-unsafe) single-threaded
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return ParseArguments(static_cast<int>(pointers.size()), pointers.data());
}

// Parses a line, which does not have the name of the program.
inline std::variant<Invocation, ExitCode> Parse(const std::string& line) {
  return ParseWords(SplitWords("duetime " + line));
}

// The input of a line that must parse.
inline Input Read(const std::string& line) {
  auto parsed = Parse(line);
  if (auto* invocation = std::get_if<Invocation>(&parsed)) return std::move(invocation->input);
  ADD_FAILURE() << "refused: " << line;
  return {};
}

}  // namespace duetime::cli
