// SPDX-License-Identifier: Apache-2.0
//
// Complete: what can stand at the end of a command line that is being typed. The tables of the
// commands decide.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/cli/row.h"

namespace duetime::cli {

// Names that only the server, or the file of contexts, knows.
enum class NameKind { kTopic, kSubscription, kRecurrence, kOperation, kContext };

// The options and arguments that the line gives, by the name of their row.
using GivenWords = std::map<std::string, std::string>;

// Returns names of a kind that may begin with `prefix`. `given` leads to the server and the topic.
using FindNames =
    std::function<Names(NameKind kind, const std::string& prefix, const GivenWords& given)>;

struct Candidate {
  std::string text;
  // May be empty.
  std::string help{};
};

struct Completion {
  std::vector<Candidate> candidates{};
  // Names of files fit, too; the shell knows them.
  bool files = false;
};

// Completes the last of `words`, which may be empty. `words` has no name of a program. Calls `find`
// only if the last word is a name.
Completion Complete(const Names& words, const FindNames& find);

}  // namespace duetime::cli
