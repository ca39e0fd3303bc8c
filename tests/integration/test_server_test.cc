// SPDX-License-Identifier: Apache-2.0
//
// The test server of the C++ library over the built daemon, and what may go wrong. The
// environment variable DUETIMED names the daemon.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "client/cpp/convert.h"
#include "client/cpp/testing/test_server_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/temp_directory.h"

namespace duetime::client {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

const absl::Time kStart = TestServer::Options().at;

TEST_F(TestServerTest, TheClockMovesByRequestOnly) {
  TestClock& clock = server().clock();
  EXPECT_EQ(*clock.Now(), kStart);
  EXPECT_EQ(FromProto(clock.Advance(absl::Hours(1))->clock().time()), kStart + absl::Hours(1));
  ASSERT_TRUE(clock.AdvanceTo(kStart + absl::Hours(48)).ok());
  ASSERT_TRUE(server().client().Schedule({.topic = "next", .when = absl::Hours(1)}).ok());
  EXPECT_EQ(clock.Next()->fired(), 1);
  EXPECT_EQ(*clock.Now(), kStart + absl::Hours(49));
  EXPECT_EQ(clock.Next(kStart + absl::Hours(50))->stop(), v1::Advanced::STOP_NOTHING);
  EXPECT_EQ(clock.AdvanceTo(kStart).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TestServerTest, IdleWaitsForHandlersAndAMoveForItsTimeout) {
  std::atomic<int> ended = 0;
  const auto slow = [&ended](const Delivery&) {
    poll(nullptr, 0, 300);
    ++ended;
    return Settlement::Ack();
  };
  ASSERT_TRUE(server().Subscribe("slow", slow).ok());
  ASSERT_TRUE(server().client().Schedule({.topic = "slow", .when = absl::ZeroDuration()}).ok());
  ASSERT_TRUE(server().Idle().ok());
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(*server().clock().Now(), kStart);
  ASSERT_TRUE(server().client().Schedule({.topic = "slow", .when = absl::Hours(1)}).ok());
  const auto held = server().clock().Advance(absl::Hours(2), {.timeout = absl::Milliseconds(50)});
  EXPECT_EQ(held.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(held.status().message(), HasSubstr("subscribers have messages"));
  const v1::HandOut last = server().Deliveries("slow").back();
  EXPECT_EQ(FromProto(last.time()), kStart + absl::Hours(1));
  EXPECT_EQ(last.attempt(), 1);
  EXPECT_EQ(server().AwaitSubscribers("nobody", 1, absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(server().Idle().ok());
}

TEST(TestServerProcessTest, AKilledTestLeavesNoServer) {
  const test::TempDirectory folder;
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe2(ready.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("TMPDIR", folder.path().c_str(), 1);
    const auto server = TestServer::Start();
    if (write(ready[1], server.ok() ? "y" : "n", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto end = Clock::now() + std::chrono::seconds(30);
  while (!std::filesystem::is_empty(folder.path()) && Clock::now() < end) poll(nullptr, 0, 5);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TestServerProcessTest, AServerThatCannotStartSaysWhy) {
  const std::pair<TestServer::Options, const char*> cases[] = {
      {{.binary = "/nowhere/duetimed"}, "or on PATH"},
      {{.at = kStart + 300 * 365 * absl::Hours(24)}, "test_clock"},
      {{.binary = "false"}, "did not start"}};
  for (const auto& [options, text] : cases) {
    const absl::Status status = TestServer::Start(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
}

TEST(TestServerReadmeTest, TheReadmeHasItsTests) {
  const auto read = [](const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(absl::StrCat(test::kSourceRoot, "/", path)).rdbuf();
    return text.str();
  };
  const std::string tests = read("tests/integration/test_server_readme_test.cc");
  EXPECT_THAT(read("client/cpp/README.md"),
              HasSubstr(absl::StrCat("```cpp\n", tests.substr(tests.find("#include")), "```\n")));
}

}  // namespace
}  // namespace duetime::client
