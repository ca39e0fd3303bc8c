// SPDX-License-Identifier: Apache-2.0
//
// Screen: a terminal that a command has to itself.
#pragma once

#include <string>
#include <termios.h>

#include "client/cli/commands/top_screen.h"

namespace duetime::cli {

// Takes the terminal of stdin and stdout: keys arrive one by one and unseen, and the text that was
// there returns at the end. The sequences are those of ECMA-48 and xterm, which every terminal in
// use understands.
//
// REQUIRES: stdout is a terminal.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces what the screen shows. Lines end with line breaks.
  void Draw(const std::string& text);
  // Returns the terminal to the shell while this program stops (Ctrl-Z), and takes it again.
  void Suspend();
  static ScreenSize Size();

 private:
  void Take();
  void Return();

  // stdin may be another file, and then there are no keys.
  const bool has_keys_;
  termios before_{};
};

}  // namespace duetime::cli
