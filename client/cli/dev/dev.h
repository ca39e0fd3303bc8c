// SPDX-License-Identifier: Apache-2.0
//
// `duetime dev`: a server to try things on, with its console, which ends with the command.
#pragma once

#include "client/cli/command.h"

namespace duetime::cli {

Command DevCommand();

}  // namespace duetime::cli
