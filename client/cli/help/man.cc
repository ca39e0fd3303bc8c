// SPDX-License-Identifier: Apache-2.0
//
// The command man: a man page of all commands, made from their tables.
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "client/cli/commands/commands.h"
#include "client/cli/connection/connection.h"
#include "client/cli/help/guide.h"
#include "client/cli/options.h"
#include "client/cli/show.h"

namespace duetime::cli {
namespace {

// Text as roff shows it letter by letter.
std::string Escaped(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
  const bool is_request = !escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'');
  return absl::StrCat(is_request ? "\\&" : "", escaped);
}

// A paragraph that roff fills.
std::string Paragraph(absl::string_view text) { return absl::StrCat(Escaped(text), "\n"); }

// Lines that stay as they are, set in by `indent`.
std::string Verbatim(absl::string_view text, int indent) {
  return absl::StrCat(".RS ", indent, "\n.nf\n", Escaped(absl::StripTrailingAsciiWhitespace(text)),
                      "\n.fi\n.RE\n");
}

std::string Section(absl::string_view name, const std::string& body) {
  return absl::StrCat(".SH ", name, "\n", body);
}

// "--in DURATION", with the letters of roff: bold what is typed, italic what it stands for.
std::string Heading(const Row& row, const OptionShape& shape) {
  if (row.option[0] != '-') return absl::StrCat("\\fI", Escaped(row.option), "\\fR");
  std::string text;
  for (absl::string_view name : absl::StrSplit(row.option, ',')) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\\fB", Escaped(name), "\\fR");
  }
  if (shape.type != Row::Type::kFlag) absl::StrAppend(&text, " \\fI", shape.value_name, "\\fR");
  return text;
}

std::string OptionText(const Command& command, const Row& row) {
  const OptionShape shape = ShapeOf(command, row);
  std::string text = row.help;
  if (!shape.words.empty()) absl::StrAppend(&text, ". One of: ", absl::StrJoin(shape.words, ", "));
  if (!row.default_text.empty()) absl::StrAppend(&text, ". Default: ", row.default_text);
  if (!row.environment.empty()) absl::StrAppend(&text, ". Environment: ", row.environment);
  return absl::StrCat(".TP\n", Heading(row, shape), "\n", Paragraph(text + "."));
}

std::string OptionTexts(const Command& command) {
  std::string text;
  for (const Row& row : command.rows) {
    if (!row.option.empty()) absl::StrAppend(&text, OptionText(command, row));
  }
  return text;
}

// "duetime schedule TOPIC [PAYLOAD] [options]".
std::string Synopsis(const Command& command) {
  std::string text = absl::StrCat("duetime ", command.words);
  bool options = false;
  for (const Row& row : command.rows) {
    if (row.option.empty()) continue;
    if (row.option[0] == '-') {
      options = true;
      continue;
    }
    const bool list = ShapeOf(command, row).type == Row::Type::kList;
    const std::string name = absl::StrCat(row.option, list ? " ..." : "");
    absl::StrAppend(&text, " ", row.required ? name : absl::StrCat("[", name, "]"));
  }
  return absl::StrCat(text, options ? " [options]" : "");
}

std::string CommandText(const Command& command) {
  std::string text =
      absl::StrCat(".SS \"", Escaped(absl::StrReplaceAll(Synopsis(command), {{"\"", "'"}})), "\"\n",
                   Paragraph(command.help + "."));
  if (!command.note.empty()) {
    for (absl::string_view part : absl::StrSplit(command.note, "\n\n")) {
      absl::StrAppend(&text, ".PP\n", Paragraph(part));
    }
  }
  absl::StrAppend(&text, OptionTexts(command));
  std::string examples;
  for (const std::string& example : command.examples) {
    absl::StrAppend(&examples, "duetime ", command.words, example.empty() ? "" : " ", example,
                    "\n");
  }
  return absl::StrCat(text, ".PP\n", Verbatim(examples, 4));
}

std::string EnvironmentText() {
  std::string text;
  for (const Row& row : GlobalOptions().rows) {
    if (row.environment.empty()) continue;
    absl::StrAppend(
        &text, ".TP\n\\fB", row.environment, "\\fR\n",
        Paragraph(absl::StrCat("The value of ", row.option, " if the option is absent.")));
  }
  return absl::StrCat(
      text, ".TP\n\\fBTZ\\fR\n",
      Paragraph("The time zone of times without an offset, such as Asia/Shanghai."));
}

std::string Page() {
  std::string commands;
  for (const Command& command : AllCommands()) {
    if (command.action.run) absl::StrAppend(&commands, CommandText(command));
  }
  return absl::StrCat(
      ".\\\" Made by duetime man.\n", ".TH DUETIME 1 \"\" \"duetime ", DUETIME_VERSION,
      "\" \"User Commands\"\n", Section("NAME", absl::StrCat("duetime \\- ", kPurpose, "\n")),
      Section("SYNOPSIS", "\\fBduetime\\fR [\\fIoptions\\fR] \\fIcommand\\fR ...\n"),
      Section("DESCRIPTION",
              Paragraph("The command line tool of the delayed-message daemon duetimed. "
                        "Each command has its own help, with examples: duetime "
                        "schedule --help.") +
                  ".PP\n" + Paragraph(kTimes) + ".PP\n" + Paragraph(kJson)),
      Section("EXAMPLES", Verbatim(kFirstSteps, 0)),
      Section("OPTIONS", "Every command takes these.\n" + OptionTexts(GlobalOptions())),
      Section("COMMANDS", commands), Section("ENVIRONMENT", EnvironmentText()),
      Section("FILES", ".TP\n\\fI$XDG_CONFIG_HOME/duetime/contexts.json\\fR\n" +
                           Paragraph("The contexts; by default in ~/.config.")),
      Section("EXIT STATUS", Verbatim(kExitCodes, 0)));
}

}  // namespace

Command ManCommand() {
  return {.words = "man",
          .help = "Print the man page",
          .note = "",
          .examples = {"| man -l -", "> ~/.local/share/man/man1/duetime.1"},
          .action = {.run =
                         [](const Settings&, const Input&) {
                           Print(Page());
                           return kDone;
                         }},
          .needs_server = false};
}

}  // namespace duetime::cli
