// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/mailbox.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"

namespace duetime::runtime {
namespace {

using protocol::AttachCommand;
using protocol::CallTag;
using protocol::CancelCommand;
using protocol::Command;
using protocol::CreditCommand;
using protocol::DetachCommand;
using protocol::GetCommand;
using protocol::ScheduleCommand;
using protocol::SettleCommand;
using std::chrono::microseconds;

constexpr MailboxLimits kRoomy{.commands_max = 1'000, .bytes_max = 1 << 20};
constexpr microseconds kLong = std::chrono::seconds(30);

Command Schedule(uint64_t tag, size_t record_bytes = 10) {
  ScheduleCommand command{.tag = CallTag{tag}, .messages = {}};
  command.messages.emplace_back().record = std::string(record_bytes, 'x');
  return command;
}

std::vector<uint64_t> Tags(const ShardMailbox::Taken& taken) {
  std::vector<uint64_t> tags;
  for (const Command& command : taken.commands) {
    tags.push_back(static_cast<uint64_t>(std::get<ScheduleCommand>(command).tag));
  }
  return tags;
}

std::string ReasonOf(const absl::Status& status) {
  const auto detail = base::GetErrorDetail(status);
  return detail.has_value() ? detail->reason : "";
}

TEST(MailboxTest, G1_CommandsComeOutInOrder) {
  ShardMailbox mailbox(kRoomy);
  for (const uint64_t tag : {1u, 2u, 3u}) ASSERT_TRUE(mailbox.Post(Schedule(tag)).ok());
  ShardMailbox::Taken taken;
  mailbox.Take(true, {}, &taken);
  EXPECT_THAT(Tags(taken), ::testing::ElementsAre(1, 2, 3));
  mailbox.Take(true, {}, &taken);
  EXPECT_TRUE(taken.commands.empty());
}

TEST(MailboxTest, CommandsStayWhenTheEngineTakesCompletionsOnly) {
  ShardMailbox mailbox(kRoomy);
  ASSERT_TRUE(mailbox.Post(Schedule(7)).ok());
  mailbox.Complete(std::vector<Completion>{{.sequence = 5, .outcome = {}}});
  ShardMailbox::Taken taken;
  mailbox.Take(false, {}, &taken);
  EXPECT_TRUE(taken.commands.empty());
  ASSERT_EQ(taken.completions.size(), 1u);
  EXPECT_EQ(taken.completions[0].sequence, 5u);
  mailbox.Take(true, {}, &taken);
  EXPECT_THAT(Tags(taken), ::testing::ElementsAre(7));
  EXPECT_TRUE(taken.completions.empty());
}

TEST(MailboxTest, G2_ACommandCountsUntilItIsHandled) {
  ShardMailbox mailbox({.commands_max = 2, .bytes_max = 1 << 20});
  const size_t bytes = CommandBytes(Schedule(1));
  ASSERT_TRUE(mailbox.Post(Schedule(1)).ok());
  ASSERT_TRUE(mailbox.Post(Schedule(2)).ok());
  EXPECT_EQ(ReasonOf(mailbox.Post(Schedule(3))), "OVERLOADED");
  ShardMailbox::Taken taken;
  mailbox.Take(true, {}, &taken);
  EXPECT_EQ(mailbox.stats().commands, 2u);
  EXPECT_EQ(mailbox.stats().bytes, 2 * bytes);
  EXPECT_EQ(ReasonOf(mailbox.Post(Schedule(3))), "OVERLOADED");
  mailbox.Take(true, {.commands = 1, .bytes = bytes}, &taken);
  ASSERT_TRUE(mailbox.Post(Schedule(3)).ok());
  EXPECT_EQ(ReasonOf(mailbox.Post(Schedule(4))), "OVERLOADED");
  // A wait also releases, at once.
  mailbox.Wait(microseconds{1}, ShardMailbox::kNoCommands, {.commands = 1, .bytes = bytes});
  EXPECT_TRUE(mailbox.Post(Schedule(4)).ok());
  EXPECT_EQ(mailbox.stats().refused, 3u);
}

TEST(MailboxTest, BytesAreBoundedAndNamedInTheError) {
  ShardMailbox mailbox({.commands_max = 100, .bytes_max = 10'000});
  ASSERT_TRUE(mailbox.Post(Schedule(1, 6'000)).ok());
  const absl::Status status = mailbox.Post(Schedule(2, 6'000));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("limit 10000"));
  EXPECT_GT(base::GetErrorDetail(status)->retry_after_ms, 0u);
  EXPECT_TRUE(mailbox.Post(Schedule(3, 100)).ok());
}

TEST(MailboxTest, ACommandLargerThanTheBoundGetsInAlone) {
  ShardMailbox mailbox({.commands_max = 100, .bytes_max = 1'000});
  EXPECT_TRUE(mailbox.Post(Schedule(1, 5'000)).ok());
  EXPECT_FALSE(mailbox.Post(Schedule(2, 1)).ok());
}

TEST(MailboxTest, G3_CommandsBoundedElsewhereAreNeverRefused) {
  ShardMailbox mailbox({.commands_max = 1, .bytes_max = 1});
  ASSERT_TRUE(mailbox.Post(Schedule(1)).ok());
  EXPECT_EQ(ReasonOf(mailbox.Post(CancelCommand{})), "OVERLOADED");
  EXPECT_EQ(ReasonOf(mailbox.Post(GetCommand{})), "OVERLOADED");
  EXPECT_EQ(ReasonOf(mailbox.Post(protocol::InspectSubscriptionCommand{})), "OVERLOADED");
  EXPECT_TRUE(mailbox.Post(SettleCommand{}).ok());
  mailbox.PostAlways(AttachCommand{});
  mailbox.PostAlways(DetachCommand{});
  mailbox.PostAlways(SettleCommand{});
  mailbox.PostAlways(CreditCommand{});
  mailbox.PostAlways(protocol::OperationCommand{});
  EXPECT_EQ(mailbox.stats().commands, 7u);
}

TEST(MailboxTest, AfterStopPostRefusesAndTakeReturnsWaitingCommands) {
  ShardMailbox mailbox(kRoomy);
  ASSERT_TRUE(mailbox.Post(Schedule(1)).ok());
  mailbox.Stop();
  EXPECT_EQ(ReasonOf(mailbox.Post(Schedule(2))), "DRAINING");
  EXPECT_EQ(ReasonOf(mailbox.Post(SettleCommand{})), "DRAINING");
  mailbox.PostAlways(SettleCommand{});
  ShardMailbox::Taken taken;
  mailbox.Take(false, {}, &taken);
  EXPECT_FALSE(taken.stopping) << "commands still wait";
  mailbox.Take(true, {}, &taken);
  EXPECT_TRUE(taken.stopping);
  EXPECT_THAT(Tags(taken), ::testing::ElementsAre(1));
}

TEST(MailboxTest, WaitReturnsAtOnceIfCommandsWait) {
  ShardMailbox mailbox(kRoomy);
  ShardMailbox::Taken taken;
  ASSERT_TRUE(mailbox.Post(Schedule(1)).ok());
  mailbox.Wait(kLong, 1, {});
  mailbox.Take(true, {}, &taken);
  mailbox.Complete(std::vector<Completion>{{.sequence = 1, .outcome = {}}});
  mailbox.Wait(kLong, ShardMailbox::kNoCommands, {});
  mailbox.Take(true, {}, &taken);
  EXPECT_FALSE(taken.begun);
  mailbox.Begin();
  mailbox.Wait(kLong, ShardMailbox::kNoCommands, {});
  mailbox.Take(true, {}, &taken);
  EXPECT_TRUE(taken.begun);
  mailbox.StopDispatch();
  mailbox.Wait(kLong, ShardMailbox::kNoCommands, {});
  mailbox.Take(true, {}, &taken);
  EXPECT_TRUE(taken.stop_dispatch);
  mailbox.Stop();
  mailbox.Wait(kLong, ShardMailbox::kNoCommands, {});
}

TEST(MailboxTest, WaitForManyIsNotEndedByFewer) {
  ShardMailbox mailbox(kRoomy);
  ASSERT_TRUE(mailbox.Post(Schedule(1)).ok());
  ASSERT_TRUE(mailbox.Post(Schedule(2)).ok());
  const uint64_t start = base::ReadMicros();
  mailbox.Wait(std::chrono::milliseconds(20), 3, {});
  EXPECT_GE(base::ReadMicros() - start, 15'000u) << "two commands ended a wait for three";
  std::thread engine([&] { mailbox.Wait(kLong, 3, {}); });
  ASSERT_TRUE(mailbox.Post(Schedule(3)).ok());
  engine.join();
}

TEST(MailboxTest, ManySendersLoseNothing) {
  constexpr uint64_t kSenders = 4;
  constexpr uint64_t kPerSender = 5'000;
  ShardMailbox mailbox({.commands_max = 100'000, .bytes_max = size_t{1} << 30});
  std::vector<std::thread> senders;
  for (uint64_t sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&mailbox, sender] {
      for (uint64_t i = 0; i < kPerSender; ++i) {
        ASSERT_TRUE(mailbox.Post(Schedule(sender * kPerSender + i)).ok());
      }
    });
  }
  std::vector<uint64_t> next(kSenders, 0);
  size_t received = 0;
  ShardMailbox::Taken taken;
  ShardMailbox::Handled handled;
  while (received < kSenders * kPerSender) {
    mailbox.Wait(kLong, 1, std::exchange(handled, {}));
    mailbox.Take(true, {}, &taken);
    for (uint64_t tag : Tags(taken)) {
      ASSERT_EQ(tag % kPerSender, next[tag / kPerSender]++);
      ++received;
    }
    for (const Command& command : taken.commands) {
      ++handled.commands;
      handled.bytes += CommandBytes(command);
    }
  }
  for (std::thread& sender : senders) sender.join();
  mailbox.Take(true, handled, &taken);
  EXPECT_EQ(mailbox.stats().commands, 0u);
  EXPECT_EQ(mailbox.stats().bytes, 0u);
}

TEST(CommandSizeTest, CountsWhatACommandCarries) {
  EXPECT_GE(CommandBytes(Schedule(1, 1'000)), 1'000u);
  EXPECT_EQ(CommandWeight(Schedule(1)), 2u);
  SettleCommand settle;
  settle.begun.resize(10);
  settle.settlements.resize(10);
  EXPECT_EQ(CommandWeight(settle), 21u);
  EXPECT_GE(CommandBytes(settle), 20 * sizeof(protocol::LeaseToken));
  const size_t bytes = CommandBytes(settle);
  settle.settlements[0].reason = std::string(100, 'n');
  settle.settlements[9].reason = std::string(200, 'd');
  EXPECT_EQ(CommandBytes(settle), bytes + 300);
  EXPECT_EQ(CommandWeight(GetCommand{}), 1u);
}

}  // namespace
}  // namespace duetime::runtime
