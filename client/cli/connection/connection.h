// SPDX-License-Identifier: Apache-2.0
//
// The options that every command takes, and where their values come from: the command line, else
// the environment, else a context, else a default.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cli/command.h"
#include "client/cli/context.pb.h"

namespace duetime::cli {

// The word that means "no context".
inline constexpr char kNoContext[] = "none";

// The value of a variable of the environment; "" if it is not set.
std::string EnvironmentOf(const char* name);

// The options that lead to a server. Their paths are fields of Context.
Rows ConnectionRows();

// The options of every command, as a command without words. Its request is a Context.
const Command& GlobalOptions();

// The settings that `global`, the input of GlobalOptions(), asks for. `needs_server`: the command
// connects to a server, so the settings have its address. INVALID_ARGUMENT with a text for people
// if an option makes no sense, or if the contexts are needed and cannot be read.
absl::StatusOr<Settings> MakeSettings(const Input& global, bool needs_server);

// Completes the address of a server as people write it: "localhost" means its usual port.
absl::Status CompleteTarget(std::string* target);

// ---- The file of contexts: contexts.json in $XDG_CONFIG_HOME/duetime or ~/.config/duetime.

// Returns "" if the environment names no home directory.
std::string ContextPath();
// A file that does not exist has no contexts. INVALID_ARGUMENT if it cannot be read.
absl::StatusOr<ContextFile> ReadContexts();
// Replaces the file as a whole; only its owner can read it. INTERNAL if it cannot be written.
absl::Status WriteContexts(const ContextFile& file);
// Null if there is no context of this name.
Context* FindContext(const std::string& name, ContextFile* file);

}  // namespace duetime::cli
