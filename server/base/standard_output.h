// SPDX-License-Identifier: Apache-2.0
//
// Standard output: the only way of a program to print for its caller, and the error of what could
// not be written. A program with this file replaces each standard stream that is closed when it
// starts by one whose reads and writes fail, so that no file or socket gets its number.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::base {

// Ignores SIGPIPE, so that a write to a pipe without a reader fails like any other. REQUIRES:
// called first in main.
void PrepareOutput();

// Writes the text to standard output as a whole, also if several threads write, and without a
// buffer: if this returns true, the text is in the file or the pipe. Returns false if this text or
// an earlier one could not be written. After an error nothing more is written.
bool WriteOutput(absl::string_view text);

// The first error of WriteOutput: DATA_LOSS with a text for people.
absl::Status OutputStatus();

// Returns the same, and also what closing standard output meets. If the reader of a pipe has gone
// and the program was started with the default SIGPIPE, ends the program by SIGPIPE, as shells
// expect of `program | head`. REQUIRES: called last in main.
absl::Status CloseOutput();

}  // namespace duetime::base
