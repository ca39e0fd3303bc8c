// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/soak_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temp_directory.h"

namespace duetime::crash {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kMegabyte = 1 << 20;

// A value at each second of a hundred: level, but for one quarter of the time or for a leak.
std::vector<Sample> Samples(double from, double to, const Sample& more) {
  std::vector<Sample> samples;
  for (int second = 0; second < 100; ++second) {
    Sample sample = {.seconds = static_cast<double>(second),
                     .memory_bytes = 100 * kMegabyte,
                     .descriptors = 100,
                     .threads = 20,
                     .directory_bytes = 500 * kMegabyte,
                     .live_bytes = 10 * kMegabyte};
    if (second >= from && second < to) {
      sample.memory_bytes += more.memory_bytes;
      sample.descriptors += more.descriptors;
      sample.threads += more.threads;
      sample.directory_bytes += more.directory_bytes;
      sample.live_bytes += more.live_bytes;
    }
    samples.push_back(sample);
  }
  return samples;
}

TEST(SoakGrowthTest, FindsWhatGrew) {
  const struct {
    const char* name;
    double from;
    double to;
    Sample more;
    std::vector<const char*> grew;
  } kCases[] = {
      {"level", 0, 0, {}, {}},
      {"within the slack", 75, 100, {.memory_bytes = 40 * kMegabyte, .descriptors = 30}, {}},
      {"memory, by age", 75, 100, {.memory_bytes = 80 * kMegabyte}, {"memory_bytes from"}},
      {"memory, a leak that a restart hides",
       90,
       100,
       {.memory_bytes = 80 * kMegabyte},
       {"memory_bytes from", "memory_bytes within"}},
      {"descriptors", 75, 100, {.descriptors = 60}, {"descriptors from"}},
      {"threads", 88, 100, {.threads = 12}, {"threads from", "threads within"}},
      {"the directory", 75, 100, {.directory_bytes = 300 * kMegabyte}, {"directory_bytes from"}},
      {"the directory, with live bytes",
       75,
       100,
       {.directory_bytes = 300 * kMegabyte, .live_bytes = 300 * kMegabyte},
       {}},
      {"a peak in the first quarter", 0, 25, {.memory_bytes = 900 * kMegabyte, .threads = 90}, {}},
      {"a peak in the third quarter", 50, 75, {.memory_bytes = 900 * kMegabyte, .threads = 90}, {}},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.name);
    const std::vector<std::string> lines = Growth(Samples(test.from, test.to, test.more), 100);
    ASSERT_EQ(lines.size(), test.grew.size()) << testing::PrintToString(lines);
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_THAT(lines[i], StartsWith(test.grew[i]));
  }
}

TEST(SoakGrowthTest, SamplesThatAreMissingFail) {
  std::vector<Sample> samples = Samples(0, 0, {});
  samples.resize(70);
  const std::vector<std::string> lines = Growth(samples, 100);
  ASSERT_EQ(lines.size(), 7u);
  for (const std::string& line : lines) EXPECT_THAT(line, HasSubstr("too few samples"));
}

TEST(SoakSamplesTest, MeasuresAProcessAndWritesAFile) {
  const test::TempDirectory directory;
  Sample sample;
  ASSERT_TRUE(Measure(getpid(), directory.path(), &sample));
  EXPECT_GT(sample.memory_bytes, kMegabyte);
  EXPECT_GT(sample.descriptors, 2);
  EXPECT_GE(sample.threads, 1);
  ASSERT_TRUE(WriteSamples(directory.path(), {sample, {.seconds = 2}}));
  Sample later;
  ASSERT_TRUE(Measure(getpid(), directory.path(), &later));
  EXPECT_GT(later.directory_bytes, sample.directory_bytes);
  EXPECT_FALSE(Measure(0, directory.path(), &later));
}

}  // namespace
}  // namespace duetime::crash
