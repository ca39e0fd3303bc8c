// SPDX-License-Identifier: Apache-2.0
#include "tests/support/history.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/history_checker.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

using testing::HasSubstr;

TEST(HistoryTest, EventsComeBackFromTheFile) {
  const TempDirectory directory;
  const std::string path = directory.Join("history");
  HistoryWriter writer(path, {.first_message = 1, .message_step = 3});
  EXPECT_EQ(writer.NewMessage(), 1u);
  EXPECT_EQ(writer.NewMessage(), 4u);
  EXPECT_EQ(writer.messages(), 2u);
  writer.Add({.time_ms = 50, .message = 1, .what = What::kSchedule});
  writer.Add({.id = Fingerprint("a"),
              .time_ms = 70,
              .token = 9,
              .message = 1,
              .run = 2,
              .attempt = 3,
              .what = What::kDelivery,
              .flags = kMaybeRedelivered,
              .subscription = 1});
  ASSERT_TRUE(writer.Flush());

  std::string error;
  const auto reader = HistoryReader::Open(path, &error);
  ASSERT_NE(reader, nullptr) << error;
  ASSERT_EQ(reader->events().size(), 2u);
  const Event& delivery = reader->events()[1];
  EXPECT_GT(delivery.at_ns, reader->events()[0].at_ns);
  EXPECT_LE(delivery.at_ns, writer.NowNanos());
  EXPECT_EQ(delivery.id, Fingerprint("a"));
  EXPECT_THAT(ToText(delivery), HasSubstr("delivery of 1 run 2 subscription 1 attempt 3"));
  EXPECT_THAT(ToText(delivery), HasSubstr("maybe redelivered"));
}

TEST(HistoryTest, ThreadsShareAWriter) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kEach = 3'000;
  const TempDirectory directory;
  {
    HistoryWriter writer(directory.Join("history"));
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&writer] {
        for (uint32_t j = 0; j < kEach; ++j) writer.Add({.message = j, .what = What::kAck});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::string error;
  const auto reader = HistoryReader::Open(directory.Join("history"), &error);
  ASSERT_NE(reader, nullptr) << error;
  ASSERT_EQ(reader->events().size(), kThreads * kEach);
  for (size_t i = 1; i < reader->events().size(); ++i) {
    ASSERT_LT(reader->events()[i - 1].at_ns, reader->events()[i].at_ns);
  }
}

TEST(HistoryTest, ReadsUpToATornEvent) {
  const TempDirectory directory;
  const std::string path = directory.Join("history");
  { HistoryWriter(path).Add({.message = 5, .what = What::kAck}); }
  std::ofstream(path, std::ios::app) << "the process died here";
  std::string error;
  const auto reader = HistoryReader::Open(path, &error);
  ASSERT_NE(reader, nullptr) << error;
  ASSERT_EQ(reader->events().size(), 1u);
  EXPECT_EQ(reader->events()[0].message, 5u);
}

TEST(HistoryTest, RefusesOtherFiles) {
  const TempDirectory directory;
  std::string error;
  EXPECT_EQ(HistoryReader::Open(directory.Join("none"), &error), nullptr);
  EXPECT_THAT(error, HasSubstr("No such file"));
  std::ofstream(directory.Join("empty")).flush();
  std::ofstream(directory.Join("text")) << std::string(1'000, 'x');
  for (const char* name : {"empty", "text"}) {
    EXPECT_EQ(HistoryReader::Open(directory.Join(name), &error), nullptr);
    EXPECT_THAT(error, HasSubstr("not a history"));
  }
}

TEST(HistoryTest, AFullDiskIsNoticed) {
  HistoryWriter writer("/dev/full");
  writer.Add({.what = What::kKill});
  EXPECT_FALSE(writer.Flush());
}

TEST(HistoryTest, ATestThatEndsBadlyNamesItsHistory) {
  struct Row {
    const char* name;
    int (*end)(HistoryWriter*);
  };
  for (const Row& row : {Row{"too little happened",
                             [](HistoryWriter* history) { return JudgeAndKeep(history, {}); }},
                         Row{"it could not run to its end", &KeepUnjudged}}) {
    SCOPED_TRACE(row.name);
    const TempDirectory directory;
    HistoryWriter history(directory.Join("history"));
    history.Add({.what = What::kStart});
    testing::internal::CaptureStdout();
    const int code = row.end(&history);
    EXPECT_THAT(testing::internal::GetCapturedStdout(),
                HasSubstr("history_check " + history.path()));
    EXPECT_EQ(code, 2);
    std::string error;
    const auto reader = HistoryReader::Open(history.path(), &error);
    ASSERT_NE(reader, nullptr) << error;
    EXPECT_EQ(reader->events().size(), 1u);
  }
}

TEST(HistoryTest, FingerprintsDifferAndStay) {
  EXPECT_EQ(Fingerprint("a"), Fingerprint("a"));
  EXPECT_NE(Fingerprint("a"), Fingerprint("b"));
  EXPECT_NE(Fingerprint(""), 0u);
}

}  // namespace
}  // namespace duetime::test
