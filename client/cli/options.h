// SPDX-License-Identifier: Apache-2.0
//
// Options: the options of one command, declared and read by its table of rows.
#pragma once

#include <CLI/CLI.hpp>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "client/cli/command.h"

namespace duetime::cli {

// What the command line shows of the value of an option, and what it accepts.
struct OptionShape {
  Row::Type type = Row::Type::kText;
  // "DURATION", "KEY=VALUE".
  std::string value_name{};
  // The only values that it accepts; empty: any.
  Names words{};
};
// REQUIRES: `row` is a row of `command` with an option.
OptionShape ShapeOf(const Command& command, const Row& row);

// Declares the options of `command` on `app`, and reads their values once the command line is
// parsed. REQUIRES: `command` outlives this, and this outlives the parsing by `app`.
class Options {
 public:
  // `environment`: options may come from the environment.
  Options(const Command& command, CLI::App* app, bool environment = true);
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // Fills in `input`. Times without an offset are times of `zone`. INVALID_ARGUMENT with a text for
  // people if a value makes no sense.
  absl::Status Read(const LocalZone& zone, Input* input) const;

 private:
  // A row, and its value as the command line gave it.
  struct Value {
    explicit Value(const Row& table_row) : row(table_row) {}

    // The texts from the command line, or else the default. Empty if there is neither.
    Names Texts() const;
    bool IsReset(const Names& given) const;

    const Row& row;
    CLI::Option* option = nullptr;
    bool flag = false;
    std::optional<std::string> text{};
    Names texts{};
  };

  void Declare(const Command& command, CLI::App* app, bool environment, Value* value);

  std::list<Value> values_;
};

}  // namespace duetime::cli
