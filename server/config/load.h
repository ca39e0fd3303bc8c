// SPDX-License-Identifier: Apache-2.0
//
// Load: makes a checked Config from the command line and a TOML file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/config/config.h"
#include "server/config/exit_code.h"

namespace duetime::config {

// The result of Load.
struct Loaded {
  // True: the daemon starts with `config`. False: it prints `output` and exits with `exit_code`. It
  // prints to stderr if `exit_code` is not kStopped.
  bool run = false;
  ExitCode exit_code = ExitCode::kStopped;
  std::string output;
  // --init: the daemon may create a store. Not a knob, because a file would allow it for ever.
  bool init = false;
  // --into-cell: the daemon makes its store that of the first member of a new cell, and exits.
  bool into_cell = false;
  // --verify: the data directory to read and judge. Then the daemon does not start, and `config` is
  // not filled in.
  std::string verify_dir;
  // --repair and --into: the damaged data directory, and the new one. As for --verify.
  std::string repair_dir;
  // Set with --restore, and into_dir.
  std::string restore_dir;
  std::string into_dir;
  Config config;
};

// Reads the command line. A flag overrides the file (--config), and the file overrides the default.
//
// With --help, --version or --check-config, the result has text to print. --check-config prints the
// configuration in force as TOML, with exit code 0. Faults give kConfiguration, and `output` names
// all of them, not just the first.
Loaded Load(int argc, const char* const* argv);

// Sets the fields of `config` that the TOML text names. INVALID_ARGUMENT with one line per fault,
// "file:line:column: what", for bad syntax, unknown keys and values of the wrong type. `file`
// appears only in these lines. Validate checks the bounds.
absl::Status ApplyToml(absl::string_view text, absl::string_view file, Config* config);

// The configuration as TOML, in the order of the table; ApplyToml reads it back.
std::string ToToml(const Config& config);

}  // namespace duetime::config
