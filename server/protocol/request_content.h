// SPDX-License-Identifier: Apache-2.0
//
// The bytes whose hash shows whether a request repeats an earlier one with the same name. The
// hashes are on disk, so the bytes never change.
#pragma once

#include <string>

#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"

namespace duetime::protocol {

std::string ContentOf(const OperationSpec& spec);
std::string ContentOf(const RecurrenceSpec& spec);

}  // namespace duetime::protocol
