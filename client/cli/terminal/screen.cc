// SPDX-License-Identifier: Apache-2.0
#include "client/cli/terminal/screen.h"

#include <csignal>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_replace.h"

#include "client/cli/show.h"

namespace duetime::cli {
Screen::Screen() : has_keys_(isatty(STDIN_FILENO) != 0) {
  if (has_keys_) tcgetattr(STDIN_FILENO, &before_);
  Take();
}

Screen::~Screen() { Return(); }

void Screen::Take() {
  if (has_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  // The other screen, no cursor, and long lines are cut.
  Print("\033[?1049h\033[?25l\033[?7l");
}

void Screen::Return() {
  Print("\033[?7h\033[?25h\033[?1049l");
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

void Screen::Draw(const std::string& text) {
  // Each line removes the rest of the line that was there. No screen is ever empty, so that none
  // flickers.
  Print("\033[H" + absl::StrReplaceAll(text, {{"\n", "\033[K\n"}}) + "\033[J");
}

void Screen::Suspend() {
  Return();
  std::raise(SIGSTOP);
  Take();
}

ScreenSize Screen::Size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {};
  }
  return {.width = size.ws_col, .height = size.ws_row};
}

}  // namespace duetime::cli
