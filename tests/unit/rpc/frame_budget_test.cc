// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/frame_budget.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/raw_http2.h"

namespace duetime::rpc {
namespace {

using test::Http2Frame;
using test::Http2OpenCall;
using test::Http2Preface;

constexpr FrameBudget::Limits kLimits{
    .early_streams_max = 100, .cancels_per_second = 50, .idle_per_second = 200};
constexpr uint64_t kSecond = 1'000'000;
constexpr uint64_t kMany = 10'000;

bool Within(FrameBudget* budget, const std::string& bytes, uint64_t now_us) {
  return budget->Take(bytes, now_us) == FrameBudget::Excess::kNone;
}

// A connection whose client has sent its settings, and the server's acknowledgement if `acked`.
FrameBudget Begun(bool acked) {
  FrameBudget budget(kLimits);
  EXPECT_TRUE(Within(&budget, Http2Preface() + Http2Frame(test::kHttp2Settings, 0, 0), 0));
  EXPECT_TRUE(!acked || Within(&budget, Http2Frame(test::kHttp2Settings, test::kHttp2Ack, 0), 0));
  return budget;
}

// How often the frame may be sent at this time. The budget then stands behind the head of the frame
// that is one too many.
uint64_t Allowed(FrameBudget* budget, const std::string& frame, uint64_t now_us) {
  uint64_t count = 0;
  while (count < kMany && Within(budget, frame, now_us)) ++count;
  return count;
}

TEST(FrameBudgetTest, StreamsAreLimitedUntilTheSettingsAreAcknowledged) {
  FrameBudget silent = Begun(false);
  for (uint32_t i = 0; i < kLimits.early_streams_max; ++i) {
    ASSERT_TRUE(Within(&silent, Http2OpenCall(2 * i + 1), kSecond)) << i;
  }
  EXPECT_EQ(silent.Take(Http2OpenCall(9'999), kSecond), FrameBudget::Excess::kEarlyStreams);
  FrameBudget polite = Begun(true);
  for (uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(Within(&polite, Http2OpenCall(2 * i + 1), kSecond)) << "gRPC has its own limit";
  }
}

TEST(FrameBudgetTest, FramesThatCancelWorkAreLimitedInEachSecond) {
  for (const uint8_t type : {test::kHttp2Reset, test::kHttp2Settings, test::kHttp2Continuation}) {
    FrameBudget budget = Begun(true);
    const std::string frame = Http2Frame(type, 0, 1);
    const uint64_t burst = 2 * kLimits.cancels_per_second;
    EXPECT_EQ(Allowed(&budget, frame, 10 * kSecond), burst) << int{type};
    EXPECT_EQ(Allowed(&budget, frame, 11 * kSecond), kLimits.cancels_per_second) << int{type};
  }
}

struct IdleCase {
  const char* name;
  std::string frame;
  // How many may come at once.
  uint64_t burst;
};

TEST(FrameBudgetTest, FramesWithoutACallOrMessageAreLimitedInEachSecond) {
  constexpr uint64_t kBurst = kLimits.idle_per_second / 4;
  const std::string number("\0\0\0\1", 4);
  const std::string ping(8, 'p');
  const auto data = [](size_t bytes, uint8_t flags) {
    return Http2Frame(test::kHttp2Data, flags, 1, std::string(bytes, 'd'));
  };
  const IdleCase cases[] = {
      {"window of the connection", Http2Frame(test::kHttp2WindowUpdate, 0, 0, number), kBurst},
      {"window of a stream", Http2Frame(test::kHttp2WindowUpdate, 0, 1, number), kBurst},
      {"ping", Http2Frame(test::kHttp2Ping, 0, 0, ping), kBurst},
      {"answer to a ping", Http2Frame(test::kHttp2Ping, test::kHttp2Ack, 0, ping), kBurst},
      {"go away", Http2Frame(test::kHttp2GoAway, 0, 0, ping), kBurst},
      {"unknown", Http2Frame(0xfa, 0, 0, "?"), kBurst},
      {"headers of the server's streams", Http2OpenCall(2), kBurst / 8},
      {"headers of a closed stream", Http2OpenCall(1), kBurst / 8},
      {"empty data", data(0, 0), kBurst},
      {"the end of a call, again", data(0, test::kHttp2EndStream), kBurst},
      {"a byte", data(1, 0), kBurst},
      {"255 bytes", data(255, 0), kBurst},
      {"256 bytes", data(256, 0), kMany},
  };
  for (const IdleCase& row : cases) {
    SCOPED_TRACE(row.name);
    FrameBudget budget = Begun(true);
    ASSERT_TRUE(Within(&budget, test::Http2Call(1, "/a", "request"), kSecond));
    for (uint64_t i = 0; i < row.burst; ++i) {
      ASSERT_TRUE(Within(&budget, row.frame, 10 * kSecond)) << i;
    }
    FrameBudget later = budget;
    EXPECT_EQ(budget.Take(row.frame, 10 * kSecond),
              row.burst < kMany ? FrameBudget::Excess::kIdle : FrameBudget::Excess::kNone);
    EXPECT_EQ(Allowed(&later, row.frame, 11 * kSecond), row.burst);
  }
}

TEST(FrameBudgetTest, ACallGivesRoomForItsIdleFrames) {
  FrameBudget budget = Begun(true);
  const std::string window = Http2Frame(test::kHttp2WindowUpdate, 0, 0, std::string("\0\0\0\1", 4));
  for (uint64_t i = 0; i < kLimits.idle_per_second / 4; ++i) {
    ASSERT_TRUE(Within(&budget, window, kSecond));
  }
  for (uint32_t i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(Within(&budget, test::Http2Call(2 * i + 1, "/a", "request"), kSecond));
    for (int each = 0; each < 4; ++each) ASSERT_TRUE(Within(&budget, window, kSecond)) << i;
    FrameBudget full = budget;
    ASSERT_FALSE(Within(&full, window, kSecond)) << i;
  }
}

TEST(FrameBudgetTest, CountsTheRequestsThatAreNotFinished) {
  FrameBudget budget = Begun(true);
  const auto open = [&budget](const std::string& bytes) {
    EXPECT_TRUE(Within(&budget, bytes, kSecond));
    return budget.unfinished_requests();
  };
  EXPECT_EQ(open(Http2OpenCall(1)), 1u);
  // gRPC ignores headers of streams with even numbers, and the reserved bit.
  EXPECT_EQ(open(Http2OpenCall(0x7ffffffe)), 1u);
  EXPECT_EQ(open(Http2OpenCall(0x80000001)), 1u);
  EXPECT_EQ(open(test::Http2Call(3, "/a", "request")), 1u);
  EXPECT_EQ(open(Http2OpenCall(5)), 2u);
  EXPECT_EQ(open(Http2Frame(test::kHttp2Data, 0, 5, "part")), 2u);
  EXPECT_EQ(open(Http2Frame(test::kHttp2Data, test::kHttp2EndStream, 5)), 1u);
  // A cancel after the request, and trailers, do not count twice.
  EXPECT_EQ(open(Http2Frame(test::kHttp2Reset, 0, 5, std::string(4, '\0'))), 1u);
  EXPECT_EQ(open(Http2Frame(test::kHttp2Headers, test::kHttp2EndStream, 7)), 1u);
  EXPECT_EQ(open(Http2Frame(test::kHttp2Headers, test::kHttp2EndStream, 1)), 0u);
  EXPECT_EQ(open(Http2OpenCall(9) + Http2OpenCall(11)), 2u);
  EXPECT_EQ(open(Http2Frame(test::kHttp2Reset, 0, 9, std::string(4, '\0'))), 1u);
  for (uint32_t i = 0; i < 2 * kLimits.early_streams_max; ++i) open(Http2OpenCall(13 + 2 * i));
  EXPECT_EQ(budget.unfinished_requests(), kLimits.early_streams_max);
}

TEST(FrameBudgetTest, ACallWhoseFirstMessageIsCompleteDoesNotCount) {
  FrameBudget budget = Begun(true);
  const auto open = [&budget](const std::string& bytes) {
    EXPECT_TRUE(Within(&budget, bytes, kSecond));
    return budget.unfinished_requests();
  };
  const auto data = [](uint32_t stream, const std::string& bytes) {
    return Http2Frame(test::kHttp2Data, 0, stream, bytes);
  };
  const std::string message("\0\0\0\1\2", 5);
  const std::string body(258, 'm');
  EXPECT_EQ(open(Http2OpenCall(1) + Http2OpenCall(3) + Http2OpenCall(5)), 3u);
  EXPECT_EQ(open(data(1, std::string(5, '\0'))), 2u) << "an empty message";
  // In parts, between those of another stream.
  EXPECT_EQ(open(data(3, message.substr(0, 4)) + data(5, message + body.substr(1))), 2u);
  EXPECT_EQ(open(data(3, message.substr(4)) + data(3, body.substr(1))), 2u);
  EXPECT_EQ(open(data(3, "m")), 1u);
  EXPECT_EQ(open(data(3, "more") + data(7, message + body)), 1u);
  EXPECT_EQ(open(data(5, "more")), 0u) << "the message, and the beginning of the next one";
}

TEST(FrameBudgetTest, ItDoesNotMatterHowTheBytesAreCut) {
  std::string bytes = Http2Preface();
  bytes += Http2Frame(test::kHttp2Settings, 0, 0, std::string(12, '\x03'));
  // Data that looks like resets.
  bytes += Http2Frame(0, 0, 1, Http2Frame(test::kHttp2Reset, 0, 1) + std::string(70'000, '\x03'));
  for (uint32_t i = 0; i <= kLimits.early_streams_max; ++i) bytes += Http2OpenCall(2 * i + 1);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, bytes.size()}) {
    FrameBudget budget(kLimits);
    size_t taken = 0;
    while (taken < bytes.size() && Within(&budget, bytes.substr(taken, piece), 0)) taken += piece;
    EXPECT_LT(taken, bytes.size()) << "one stream too many";
    EXPECT_GE(taken + piece, bytes.size() - Http2OpenCall(1).size()) << "only the last one";
  }
}

}  // namespace
}  // namespace duetime::rpc
