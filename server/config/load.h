// SPDX-License-Identifier: Apache-2.0
//
// Load: from the command line and a TOML file to a checked Config.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/config/config.h"

namespace duetime::config {

// What the command line asks for.
struct Loaded {
  // True: start with `config`. False: print `output` (or, if exit_code is not 0, to stderr) and
  // exit.
  bool run = false;
  int exit_code = 0;
  std::string output;
  Config config;
};

// Reads the command line. A flag goes before the file (--config), the file before the default.
// --help, --version and
// --check-config end with text to print: the last one prints the configuration in force as TOML,
// exit code 0, or what is wrong with it, 1. Every fault is named, not just the first.
Loaded Load(int argc, const char* const* argv);

// Takes the keys of a TOML text into `config`. INVALID_ARGUMENT with one line per fault,
// "file:line:column: what", for bad syntax, unknown keys and values of the wrong type; `file` is
// only for those texts. Bounds are checked by Validate.
absl::Status ApplyToml(absl::string_view text, absl::string_view file, Config* config);

// The configuration as TOML, in the order of the table; ApplyToml reads it back.
std::string ToToml(const Config& config);

}  // namespace duetime::config
