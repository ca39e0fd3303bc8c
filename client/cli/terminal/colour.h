// SPDX-License-Identifier: Apache-2.0
//
// Colours for people at a terminal.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace duetime::cli {

enum class Colour { kGreen, kYellow, kRed };

// Returns true if the user wants colours on a terminal. `no_color` and `term` are the values of the
// environment variables NO_COLOR and TERM, or null.
bool WantsColours(const char* no_color, const char* term);

// Turns colours on for those of stdout and stderr that are terminals. Without this call the tool
// prints no colours. REQUIRES: called before other threads were started.
void UseColours();

// Return `text` in this colour, or unchanged if the stream has no colours.
std::string Paint(Colour colour, absl::string_view text);
std::string PaintError(Colour colour, absl::string_view text);

// Paints the name of a state on stdout: green if all is well, yellow if someone should look, red
// for a failure. Other words stay as they are.
std::string PaintState(absl::string_view state);

// Returns true if a colour sequence begins at `text`, and removes it from the front of `text`.
bool ConsumeColour(absl::string_view* text);

}  // namespace duetime::cli
