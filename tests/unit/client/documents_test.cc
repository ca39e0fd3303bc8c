// SPDX-License-Identifier: Apache-2.0
//
// The commands that the documents name are commands of the programs, with options and arguments
// that they take.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "client/cli/connection/connection.h"
#include "server/config/load.h"
#include "tests/support/paths.h"
#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

using Line = std::vector<std::string>;

// The commands of a line of shell, each as its words, without redirections. What follows a # is a
// comment, whose clauses count as commands, too.
std::vector<Line> CommandsOf(absl::string_view shell) {
  std::vector<Line> commands(1);
  std::string word;
  bool in_word = false;
  bool is_file = false;
  char quote = 0;
  const auto end_word = [&] {
    if (in_word && !is_file) commands.back().push_back(word);
    if (in_word) is_file = false;
    word.clear();
    in_word = false;
  };
  char before = ' ';
  for (const char c : shell) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (absl::StrContains(" \t\n", c)) {
      end_word();
    } else if ((c == '>' || c == '<') && before != c) {
      // The number of a stream before it is no word.
      if (!std::all_of(word.begin(), word.end(), absl::ascii_isdigit)) end_word();
      in_word = false;
      word.clear();
      is_file = true;
    } else if (absl::StrContains("|;()", c) || (c == '&' && before != '>') ||
               (c == '#' && !in_word)) {
      end_word();
      is_file = false;
      commands.emplace_back();
    } else if (c != '>' && c != '<') {
      word += c;
      in_word = true;
    }
    before = c;
  }
  end_word();
  return commands;
}

// The part of a command that runs one of our programs, which may be behind "sudo" or "--".
Line OursIn(const Line& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string program = std::filesystem::path(words[i]).filename();
    if (program != "duetime" && program != "duetimed") continue;
    const bool runs = i == 0 || words[0] == "systemd-run" || words[i - 1] == "sudo" ||
                      words[i - 1] == "--" || absl::EndsWith(words[i - 1], ":") ||
                      words[i - 1] == "then";
    if (!runs) continue;
    Line ours(words.begin() + static_cast<ptrdiff_t>(i), words.end());
    ours[0] = program;
    return ours;
  }
  return {};
}

// What the program says against a command line; "" if nothing.
std::string FaultsOf(const Line& line) {
  std::string faults;
  if (line[0] == "duetimed") {
    std::vector<const char*> words;
    for (const std::string& word : line) words.push_back(word.c_str());
    const config::Loaded loaded = config::Load(static_cast<int>(words.size()), words.data());
    if (loaded.exit_code != config::ExitCode::kStopped) faults = loaded.output;
  } else {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto parsed = ParseWords(line);
    testing::internal::GetCapturedStdout();
    faults = testing::internal::GetCapturedStderr();
    const ExitCode* const ended = std::get_if<ExitCode>(&parsed);
    if (ended == nullptr || *ended == kDone) return "";
  }
  // The files that the documents name are not here. What the line looks like was judged before.
  return absl::StrContains(faults, "cannot read") || absl::StrContains(faults, "cannot be read")
             ? ""
             : faults;
}

// A mention in the text may leave out the arguments and the values of options: "duetime recur
// pause", "duetimed --repair".
bool IsMention(const Line& line) {
  if (line[0] == "duetimed") {
    const std::vector<const char*> help = {"duetimed", "--help"};
    const std::string text = config::Load(2, help.data()).output;
    const std::set<std::string> known = absl::StrSplit(text, absl::ByAnyChar(" ,\n"));
    return std::all_of(line.begin() + 1, line.end(), [&](const std::string& word) {
      return absl::StartsWith(word, "--") && known.contains(word);
    });
  }
  std::string words;
  auto word = line.begin() + 1;
  for (; word != line.end() && !absl::StartsWith(*word, "-"); ++word) {
    absl::StrAppend(&words, words.empty() ? "" : " ", *word);
  }
  const auto command = std::find_if(AllCommands().begin(), AllCommands().end(),
                                    [&](const Command& one) { return one.words == words; });
  if (command == AllCommands().end()) return false;
  std::set<std::string> known;
  for (const Rows& rows : {command->rows, GlobalOptions().rows}) {
    for (const Row& row : rows) {
      for (const absl::string_view name : absl::StrSplit(row.option, ',')) known.emplace(name);
    }
  }
  return std::all_of(word, line.end(), [&](const std::string& one) { return known.contains(one); });
}

struct Found {
  // The file and what it says, for people.
  std::string place;
  Line line;
  bool in_text = false;
};

void AddCommands(const std::string& file, absl::string_view shell, bool in_text,
                 std::vector<Found>* found) {
  for (const Line& words : CommandsOf(shell)) {
    const Line ours = OursIn(words);
    if (ours.size() > 1) found->push_back({absl::StrCat(file, ": ", shell), ours, in_text});
  }
}

// The commands of a document: those of its blocks, and those in its text between backquotes.
std::vector<Found> CommandsInDocument(const std::string& file, const std::string& text) {
  std::vector<Found> found;
  bool in_block = false;
  bool in_shell = false;
  std::string paragraph;
  std::string shell;
  const auto end_paragraph = [&] {
    const std::vector<std::string> parts = absl::StrSplit(paragraph, '`');
    for (size_t i = 1; i < parts.size(); i += 2) AddCommands(file, parts[i], true, &found);
    paragraph.clear();
  };
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "```")) {
      end_paragraph();
      in_block = !in_block;
      const absl::string_view language = absl::StripAsciiWhitespace(line).substr(3);
      in_shell = in_block && (language.empty() || language == "sh" || language == "bash");
    } else if (in_block && !in_shell) {
      continue;
    } else if (in_block && absl::EndsWith(line, "\\")) {
      absl::StrAppend(&shell, line.substr(0, line.size() - 1));
    } else if (in_block) {
      absl::StrAppend(&shell, line);
      AddCommands(file, shell, false, &found);
      shell.clear();
    } else if (line.empty()) {
      end_paragraph();
    } else {
      absl::StrAppend(&paragraph, line, " ");
    }
  }
  end_paragraph();
  return found;
}

// All documents of the source tree, but for the history of its changes.
std::vector<Found> CommandsInDocuments() {
  namespace fs = std::filesystem;
  static const std::set<std::string> elsewhere = {"build", "node_modules", "target"};
  const fs::path root = test::kSourceRoot;
  std::vector<Found> found;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename();
    if (entry->is_directory() && (name[0] == '.' || elsewhere.contains(name))) {
      entry.disable_recursion_pending();
    }
    if (!absl::EndsWith(name, ".md") || name == "CHANGELOG.md") continue;
    std::ifstream in(entry->path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (Found& one : CommandsInDocument(fs::relative(entry->path(), root), text)) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

TEST(DocumentsTest, TheirCommandsExist) {
  const std::vector<Found> found = CommandsInDocuments();
  EXPECT_GT(found.size(), 150u);
  for (const Found& one : found) {
    if (one.in_text && IsMention(one.line)) continue;
    EXPECT_EQ(FaultsOf(one.line), "") << one.place;
  }
}

TEST(DocumentsTest, TheExamplesOfTheHelpAreCommands) {
  for (const Command& command : AllCommands()) {
    for (const std::string& example : command.examples) {
      const std::string line = absl::StrCat("duetime ", command.words, " ", example);
      for (const Line& words : CommandsOf(line)) {
        const Line ours = OursIn(words);
        if (ours.empty()) continue;
        EXPECT_EQ(FaultsOf(ours), "") << line;
      }
    }
  }
}

TEST(DocumentsTest, CommandsAreFound) {
  const auto found = [](const std::string& text) {
    std::vector<std::string> lines;
    for (const Found& one : CommandsInDocument("", text)) {
      lines.push_back(absl::StrCat(one.in_text ? "text " : "", absl::StrJoin(one.line, "|")));
    }
    return lines;
  };
  using testing::ElementsAre;
  EXPECT_THAT(
      found("```sh\nx duetime a\n./duetimed -x 'a b' >f 2>&1 & sudo duetime \\\n  c | duetime d"
            "  # then: duetime e f; g\n```\n"),
      ElementsAre("duetimed|-x|a b", "duetime|c", "duetime|d", "duetime|e|f"));
  EXPECT_THAT(
      found("The `duetime a\nb` and `k exec x -- duetime \"c > d\" > e` and duetime x\n\n`"),
      ElementsAre("text duetime|a|b", "text duetime|c > d"));
  EXPECT_THAT(
      found("`source <(duetime a)`; `systemctl start duetimed`; `systemd-run -p X=y duetimed --z`"),
      ElementsAre("text duetime|a", "text duetimed|--z"));
  EXPECT_THAT(found("```go\nduetime x\n```\n`duetime y`"), ElementsAre("text duetime|y"));
}

TEST(DocumentsTest, FaultsAreFound) {
  for (const char* line :
       {"duetime recurrence pause NAME", "duetime topic rate T", "duetime list T U",
        "duetime list T --nosuch", "duetimed --nosuch", "duetimed word"}) {
    const Line words = absl::StrSplit(line, ' ');
    EXPECT_NE(FaultsOf(words), "") << line;
    EXPECT_FALSE(IsMention(words)) << line;
  }
  for (const char* line : {"duetime recur pause", "duetime topic rate", "duetime token",
                           "duetime settle --release", "duetimed --repair"}) {
    EXPECT_TRUE(IsMention(absl::StrSplit(line, ' '))) << line;
  }
}

}  // namespace
}  // namespace duetime::cli
