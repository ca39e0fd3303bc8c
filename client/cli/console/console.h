// SPDX-License-Identifier: Apache-2.0
//
// The console: a web page for one server, which this process serves to a browser on the same
// machine.
#pragma once

#include "client/cli/command.h"

namespace duetime::cli {

Command ConsoleCommand();

}  // namespace duetime::cli
