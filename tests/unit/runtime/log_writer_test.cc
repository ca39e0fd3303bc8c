// SPDX-License-Identifier: Apache-2.0
//
// The log with a reader that reads, stalls, or has gone.
#include "server/runtime/log_writer.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <string>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/runtime/logging.h"

namespace duetime::runtime {
namespace {

constexpr std::chrono::seconds kLongWait{20};
constexpr size_t kBytesMax = 64 << 10;

class LogWriterTest : public ::testing::Test {
 protected:
  LogWriterTest() {
    EXPECT_NE(signal(SIGPIPE, SIG_IGN), SIG_ERR);
    EXPECT_EQ(pipe2(fds_.data(), O_CLOEXEC), 0);
    // A small pipe, so that a reader that does not read stalls the writer.
    EXPECT_GT(fcntl(fds_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~LogWriterTest() override {
    CloseReader();
    close(fds_[1]);
  }
  void CloseReader() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  LogWriter::Options Options(std::chrono::milliseconds close_timeout = kLongWait) const {
    return {.fd = fds_[1], .bytes_max = kBytesMax, .close_timeout = close_timeout};
  }
  static std::string Notice(uint64_t lost) { return absl::StrCat("lost ", lost, "\n"); }
  // The next line, or "" at the end.
  std::string ReadLine() {
    for (;;) {
      const size_t size = unread_.find('\n');
      if (size != std::string::npos) {
        std::string line = unread_.substr(0, size);
        unread_.erase(0, size + 1);
        return line;
      }
      std::array<char, 4096> buffer{};
      const ssize_t got = read(fds_[0], buffer.data(), buffer.size());
      if (got <= 0) return "";
      unread_.append(buffer.data(), static_cast<size_t>(got));
    }
  }

  std::string unread_;
  std::array<int, 2> fds_{-1, -1};
};

TEST_F(LogWriterTest, WritesLinesInOrder) {
  LogWriter writer(Options(), Notice);
  writer.Add("one\n");
  writer.Add("two\n");
  ASSERT_TRUE(writer.Flush(kLongWait));
  writer.Add("three\n");
  for (const char* line : {"one", "two", "three"}) EXPECT_EQ(ReadLine(), line);
  EXPECT_EQ(writer.lost(), 0u);
}

TEST_F(LogWriterTest, AReaderThatStallsCostsLinesAndBlocksNobody) {
  constexpr uint64_t kLines = 2'000;
  LogWriter writer(Options(), Notice);
  const std::string line = std::string(999, 'x') + '\n';
  for (uint64_t i = 0; i < kLines; ++i) writer.Add(line);
  const uint64_t lost = writer.lost();
  EXPECT_GT(lost, 0u);
  EXPECT_FALSE(writer.Flush(std::chrono::milliseconds(1)));

  // The reader is back: each line is there or counted.
  uint64_t seen = 0;
  uint64_t reported = 0;
  while (seen + reported < kLines) {
    const std::string text = ReadLine();
    ASSERT_FALSE(text.empty());
    uint64_t count = 0;
    if (absl::StartsWith(text, "lost ")) {
      ASSERT_TRUE(absl::SimpleAtoi(text.substr(5), &count));
      reported += count;
    } else {
      ++seen;
    }
  }
  EXPECT_EQ(reported, lost);
  EXPECT_EQ(seen, kLines - lost);
  writer.Add("after\n");
  EXPECT_EQ(ReadLine(), "after");
  EXPECT_EQ(writer.lost(), lost);
}

TEST_F(LogWriterTest, TheEndWritesWhatWaitsButDoesNotWaitForAStalledReader) {
  {
    LogWriter writer(Options(), Notice);
    writer.Add("last\n");
  }
  EXPECT_EQ(ReadLine(), "last");
  LogWriter stalled(Options(std::chrono::milliseconds(1)), Notice);
  for (int i = 0; i < 200; ++i) stalled.Add(std::string(999, 'x') + '\n');
  stalled.Close();
  const uint64_t lost = stalled.lost();
  stalled.Add("late\n");
  EXPECT_EQ(stalled.lost(), lost + 1);
}

TEST_F(LogWriterTest, LinesForAReaderThatHasGoneAreCounted) {
  LogWriter writer(Options(), Notice);
  CloseReader();
  writer.Add("one\n");
  writer.Add("two\n");
  ASSERT_TRUE(writer.Flush(kLongWait));
  EXPECT_EQ(writer.lost(), 2u);
}

TEST_F(LogWriterTest, TheLogOfTheDaemonLosesLinesInsteadOfTime) {
  uint64_t lost = 0;
  {
    const Log log({.level = "info", .format = "json", .buffer_bytes = kBytesMax}, fds_[1]);
    spdlog::info("begin");
    for (int i = 0; i < 1'000; ++i) spdlog::warn("{}", std::string(999, 'x'));
    spdlog::debug("not written at this level");
    lost = LogLinesLost();
    EXPECT_GT(lost, 0u);
    CloseReader();  // or the end would wait for a second
  }
  EXPECT_EQ(LogLinesLost(), 0u) << "there is no log";
}

TEST_F(LogWriterTest, AFailedCheckWritesOutTheLogFirst) {
  EXPECT_DEATH(
      {
        const Log log({.buffer_bytes = kBytesMax}, STDERR_FILENO);
        spdlog::error("the last words");
        DT_CHECK(false);
      },
      "the last words(.|\n)*check failed: false");
}

}  // namespace
}  // namespace duetime::runtime
