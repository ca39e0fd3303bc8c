// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a command line that the parser refused, and what was meant.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace duetime::cli {

// The candidate that `word` resembles most: with up to two letters changed, added, left out or
// exchanged, or else the first one that begins with `word`. Returns "" if there is none.
std::string Closest(absl::string_view word, const std::vector<std::string>& candidates);

// Names the first word that `app` could not place, and the command or option that it resembles;
// else returns `otherwise`. Ends with the help to read.
std::string UsageErrorText(const CLI::App& app, const std::string& otherwise);

}  // namespace duetime::cli
