// SPDX-License-Identifier: Apache-2.0
#include "client/cli/terminal/colour.h"

#include <map>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/connection/connection.h"

namespace duetime::cli {
namespace {

constexpr absl::string_view kEnd = "\033[0m";

bool stdout_has_colours = false;
bool stderr_has_colours = false;

absl::string_view SequenceOf(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kRed:
      return "\033[31m";
  }
  return "";
}

std::string PaintIf(bool wanted, Colour colour, absl::string_view text) {
  if (!wanted || text.empty()) return std::string(text);
  return absl::StrCat(SequenceOf(colour), text, kEnd);
}

// The states of all resources, as the tables show them.
const std::map<absl::string_view, Colour>& StateColours() {
  static const auto& colours =
      *new std::map<absl::string_view, Colour>{{"serving", Colour::kGreen},
                                               {"active", Colour::kGreen},
                                               {"done", Colour::kGreen},
                                               {"acked", Colour::kGreen},
                                               {"ok", Colour::kGreen},
                                               {"paused", Colour::kYellow},
                                               {"slowed", Colour::kYellow},
                                               {"behind", Colour::kYellow},
                                               {"starting", Colour::kYellow},
                                               {"draining", Colour::kYellow},
                                               {"stopped", Colour::kYellow},
                                               {"expired", Colour::kYellow},
                                               {"warning", Colour::kYellow},
                                               {"dropped", Colour::kYellow},
                                               {"bad", Colour::kRed},
                                               {"failed", Colour::kRed},
                                               {"storage failed", Colour::kRed},
                                               {"dead lettered", Colour::kRed}};
  return colours;
}

}  // namespace

bool WantsColours(const char* no_color, const char* term) {
  const bool refused = no_color != nullptr && *no_color != '\0';
  return !refused && term != nullptr && *term != '\0' && absl::string_view(term) != "dumb";
}

void UseColours() {
  const bool wanted =
      WantsColours(EnvironmentOf("NO_COLOR").c_str(), EnvironmentOf("TERM").c_str());
  stdout_has_colours = wanted && isatty(STDOUT_FILENO) != 0;
  stderr_has_colours = wanted && isatty(STDERR_FILENO) != 0;
}

std::string Paint(Colour colour, absl::string_view text) {
  return PaintIf(stdout_has_colours, colour, text);
}

std::string PaintError(Colour colour, absl::string_view text) {
  return PaintIf(stderr_has_colours, colour, text);
}

std::string PaintState(absl::string_view state) {
  // "paused: messages wait" is a state with an explanation.
  const auto found = StateColours().find(state.substr(0, state.find_first_of(":,")));
  return found == StateColours().end() ? std::string(state) : Paint(found->second, state);
}

bool ConsumeColour(absl::string_view* text) {
  if (text->empty() || text->front() != '\033') return false;
  for (const Colour colour : {Colour::kGreen, Colour::kYellow, Colour::kRed}) {
    if (absl::ConsumePrefix(text, SequenceOf(colour))) return true;
  }
  return absl::ConsumePrefix(text, kEnd);
}

}  // namespace duetime::cli
