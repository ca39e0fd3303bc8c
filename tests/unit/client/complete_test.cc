// SPDX-License-Identifier: Apache-2.0
//
// What can stand at the end of a command line, without a server.
#include "client/cli/help/complete.h"

#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

using testing::Contains;
using testing::Not;

// Names that the server would know: two of each kind.
Names FakeNames(NameKind kind, const std::string&, const GivenWords& given) {
  switch (kind) {
    case NameKind::kTopic:
      return {"orders", "shop:a"};
    case NameKind::kSubscription:
      return {given.count("TOPIC") > 0 ? "of-" + given.at("TOPIC") : "of-none"};
    case NameKind::kRecurrence:
      return {"standup"};
    case NameKind::kOperation:
      return {"cleanup-7"};
    case NameKind::kContext:
      return {given.count("--server") > 0 ? "at-" + given.at("--server") : "prod"};
  }
  return {};
}

// The candidates between blanks, with :files at the end if files fit.
std::string Candidates(const std::string& line) {
  Names words = SplitWords(line);
  if (line.empty() || line.back() == ' ') words.emplace_back();
  const Completion completion = Complete(words, FakeNames);
  const std::string text =
      absl::StrJoin(completion.candidates, " ",
                    [](std::string* out, const Candidate& one) { absl::StrAppend(out, one.text); });
  return completion.files ? text + ":files" : text;
}

TEST(CompleteTest, KnowsWhatMayFollow) {
  const std::pair<const char*, const char*> cases[] = {
      // Commands.
      {"sche", "schedule"},
      {"re", "reschedule recur restore"},
      {"topic re", "resume"},
      {"nothing", ""},
      {"topic nothing ", "create get list update delete pause resume drain rate"},
      {"--json topic re", "resume"},
      {"--server h topic re", "resume"},
      {"--server=h topic re", "resume"},
      // Arguments, by the names of their rows.
      {"list ", "orders shop:a"},
      {"list o", "orders"},
      {"list shop:", "shop:a"},
      {"list orders ", ""},
      {"topic get ", "orders shop:a"},
      {"subscription get orders ", "of-orders"},
      {"recur get st", "standup"},
      {"recur create new ", "orders shop:a"},
      {"bulk get ", "cleanup-7"},
      {"context use ", "prod"},
      {"import ", ":files"},
      // After -- a word may begin with any letter, and an argument may be anything.
      {"schedule orders '{' ", ""},
      // Values of options.
      {"schedule orders --late d", "deliver drop dead-letter"},
      {"schedule orders --late dr", "drop"},
      {"schedule orders --late=dr", "--late=drop"},
      {"schedule orders --in 5s --file ", ":files"},
      {"schedule orders --in 5s --file=x", ":files"},
      {"info --tls-ca ", ":files"},
      {"cancel --topic o", "orders"},
      {"subscribe orders -s ", "of-orders"},
      {"subscribe orders --subscription=of", "--subscription=of-orders"},
      {"subscribe -s ", "of-none"},
      {"topic update orders --default-ttl ", "none"},
      {"forecast --bucket ", "second minute hour day"},
      {"--server h info --context ", "at-h"},
      {"--server=h info --context ", "at-h"},
      {"schedule orders --in ", ""},
      // Options: each once, except those that may be repeated.
      {"topic update orders --max-pe", "--max-pending"},
      {"topic update orders --max-pending 5 --max-pe", ""},
      {"topic update orders --max-pending=5 --max-pe", ""},
      {"schedule orders --label a=1 --labe", "--label"},
      {"subscribe orders -s s --sub", ""},
      {"topic --js", "--json"},
      {"--ut", "--utc"},
      {"info --he", "--help"},
      {"context add c --tls-c", "--tls-ca --tls-cert"},
      {"info --no-such-option=", ""},
  };
  for (const auto& [line, candidates] : cases) EXPECT_EQ(Candidates(line), candidates) << line;
}

TEST(CompleteTest, ALineWithoutWordsBeginsWithACommand) {
  Names commands;
  for (const Candidate& one : Complete({}, FakeNames).candidates) {
    commands.push_back(one.text);
    EXPECT_FALSE(one.help.empty()) << one.text;
  }
  EXPECT_THAT(commands, Contains("schedule"));
  EXPECT_THAT(commands, Contains("topic"));
  EXPECT_THAT(commands, Not(Contains("topic create")));
}

// Every option and command is offered, and the parser knows it.
TEST(CompleteTest, EveryCommandCanBeCompletedToItsOptions) {
  int options = 0;
  for (const Command& command : AllCommands()) {
    EXPECT_THAT(Candidates(command.words),
                testing::HasSubstr(command.words.substr(command.words.rfind(' ') + 1)));
    for (const Row& row : command.rows) {
      if (row.option.empty() || row.option[0] != '-') continue;
      const std::string name = row.option.substr(row.option.rfind(',') + 1);
      EXPECT_THAT(" " + Candidates(command.words + " " + name) + " ",
                  testing::HasSubstr(" " + name + " "))
          << command.words;
      ++options;
    }
  }
  EXPECT_GT(options, 150);
}

}  // namespace
}  // namespace duetime::cli
