// SPDX-License-Identifier: Apache-2.0
//
// The commands of the tool that change many messages, and those for dead letters.
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "tests/integration/cli_fixture.h"

namespace duetime::test {
namespace {

using testing::HasSubstr;

TEST_F(CliTest, BulkChangesAllThatMatch) {
  for (int i = 0; i < 10; ++i) {
    ScheduleId({"t", "p", "--in", "2h", "--label", i < 4 ? "who=a" : "who=b"});
  }
  const std::vector<Json> dry = CliJson({"bulk", "cancel", "t", "--label", "who=a", "--dry-run"});
  ASSERT_EQ(dry.size(), 1u);
  EXPECT_EQ(dry[0]["matched"], "4");
  EXPECT_EQ(dry[0]["sample"].size(), 4u);
  EXPECT_EQ(CliJson({"list", "t"}).size(), 10u);
  EXPECT_EQ(Cli({"bulk", "cancel", "t"}).exit.code, 2) << "all of a topic must be said";
  const RunResult cancelled =
      Cli({"bulk", "cancel", "t", "--label", "who=a", "--name", "n", "--wait"});
  EXPECT_EQ(cancelled.exit.code, 0) << cancelled.err;
  EXPECT_THAT(cancelled.out, HasSubstr("changed       4\n"));
  const RunResult shifted = Cli({"bulk", "shift", "t", "--by", "-1h", "--all", "--wait"});
  EXPECT_EQ(shifted.exit.code, 0) << shifted.err;
  EXPECT_EQ(CliJson({"list", "t", "--to", "+90m"}).size(), 6u);
  EXPECT_THAT(Cli({"bulk", "list"}).out, HasSubstr("\nn "));
  EXPECT_EQ(CliJson({"bulk", "get", "n"})[0]["state"], "STATE_DONE");
  EXPECT_EQ(Cli({"bulk", "stop", "n"}).exit.code, 0) << "what has ended stays so";
  EXPECT_EQ(Cli({"bulk", "get", "none"}).exit.code, 3);
}

TEST_F(CliTest, ATopicWithMessagesIsDeletedByOneCommand) {
  ASSERT_EQ(Cli({"schedule", "t", "p", "--in", "1h", "--count", "300"}).exit.code, 0);
  EXPECT_EQ(Cli({"topic", "delete", "t"}).exit.code, 1) << "it has messages";
  const RunResult deleted = Cli({"topic", "delete", "t", "--force", "--wait"});
  EXPECT_EQ(deleted.exit.code, 0) << deleted.err;
  EXPECT_EQ(deleted.out, "topic t is deleted\n");
  EXPECT_EQ(Cli({"topic", "get", "t"}).exit.code, 3);
}

// Letters that one command makes have the same time, and no label tells them apart.
TEST_F(CliTest, OneDeadLetterGoesBackByItsId) {
  constexpr size_t kLetters = 5;
  const std::string message = ScheduleId({"t", "p", "--in", "1h"});
  ASSERT_EQ(Cli({"schedule", "t", "p", "--in", "0s", "--count", "5"}).exit.code, 0);
  std::vector<std::string> give_up = {"settle", "--dead-letter"};
  for (const Json& due : CliJson({"pull", "t", "--max", "5", "--wait", "5s"})) {
    give_up.push_back(due.value("lease_token", ""));
  }
  EXPECT_EQ(Cli(give_up).exit.code, 0);
  const std::vector<Json> letters = CliJson({"dlq", "list", "t"});
  ASSERT_EQ(letters.size(), kLetters);
  const std::string id = letters[2].value("id", "");
  const std::vector<std::string> redrive = {"dlq", "redrive", "t", "--wait", "--id"};
  const auto with = [](std::vector<std::string> words, const std::string& word) {
    words.push_back(word);
    return words;
  };
  const std::vector<Json> dry = CliJson({"dlq", "redrive", "t", "--id", id, "--dry-run"});
  ASSERT_EQ(dry.size(), 1u);
  EXPECT_EQ(dry[0]["matched"], "1");
  EXPECT_EQ(dry[0]["sample"][0]["id"], id);

  const RunResult sent = Cli(with(redrive, id));
  EXPECT_EQ(sent.exit.code, 0) << sent.err;
  EXPECT_THAT(sent.out, HasSubstr("messages      id " + id));
  EXPECT_THAT(sent.out, HasSubstr("changed       1\n"));
  const std::vector<Json> left = CliJson({"dlq", "list", "t"});
  ASSERT_EQ(left.size(), kLetters - 1);
  for (const Json& letter : left) EXPECT_NE(letter.value("id", ""), id);
  EXPECT_EQ(CliJson({"list", "t"}).size(), 2u);

  const RunResult again = Cli(with(redrive, id));
  EXPECT_EQ(again.exit.code, 3);
  EXPECT_THAT(again.err, HasSubstr("the message " + id + " has ended: cancelled"));
  const RunResult none = Cli(with(redrive, message));
  EXPECT_EQ(none.exit.code, 1);
  EXPECT_THAT(none.err, HasSubstr(message + " is no dead letter of t.dlq"));
  EXPECT_EQ(Cli({"bulk", "purge", "t.dlq", "--id", message}).exit.code, 3);
  EXPECT_EQ(Cli({"bulk", "purge", "t.dlq", "--id", "x"}).exit.code, 1);
  EXPECT_EQ(CliJson({"dlq", "list", "t"}).size(), kLetters - 1);
}

}  // namespace
}  // namespace duetime::test
