// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/frame_budget.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/raw_http2.h"

namespace duetime::rpc {
namespace {

using test::Http2Frame;
using test::Http2OpenCall;
using test::Http2Preface;

constexpr FrameBudget::Limits kLimits{.early_streams_max = 100, .cancels_per_second = 50};
constexpr uint64_t kSecond = 1'000'000;

// A connection whose client has sent its settings, and the server's acknowledgement if `acked`.
FrameBudget Begun(bool acked) {
  FrameBudget budget(kLimits);
  EXPECT_TRUE(budget.Take(Http2Preface() + Http2Frame(test::kHttp2Settings, 0, 0), 0));
  EXPECT_TRUE(!acked || budget.Take(Http2Frame(test::kHttp2Settings, test::kHttp2Ack, 0), 0));
  return budget;
}

// How often the frame may be sent at this time.
uint64_t Allowed(FrameBudget* budget, const std::string& frame, uint64_t now_us) {
  uint64_t count = 0;
  while (count < 1'000 && budget->Take(frame, now_us)) ++count;
  return count;
}

TEST(FrameBudgetTest, StreamsAreLimitedUntilTheSettingsAreAcknowledged) {
  FrameBudget silent = Begun(false);
  EXPECT_EQ(Allowed(&silent, Http2OpenCall(1), kSecond), kLimits.early_streams_max);
  FrameBudget polite = Begun(true);
  EXPECT_EQ(Allowed(&polite, Http2OpenCall(1), kSecond), 1'000u) << "gRPC has a limit of its own";
}

TEST(FrameBudgetTest, FramesThatCancelWorkAreLimitedInEachSecond) {
  for (const uint8_t type : {test::kHttp2Reset, test::kHttp2Settings, test::kHttp2Continuation}) {
    FrameBudget budget = Begun(true);
    const std::string frame = Http2Frame(type, 0, 1);
    const uint64_t burst = 2 * kLimits.cancels_per_second;
    EXPECT_EQ(Allowed(&budget, frame, 10 * kSecond), burst) << int{type};
    EXPECT_EQ(Allowed(&budget, frame, 11 * kSecond), kLimits.cancels_per_second) << int{type};
  }
  FrameBudget budget = Begun(true);
  EXPECT_EQ(Allowed(&budget, Http2Frame(0, 0, 1, "data"), 0), 1'000u);
}

TEST(FrameBudgetTest, CountsTheRequestsThatAreNotFinished) {
  FrameBudget budget = Begun(true);
  const auto open = [&budget](const std::string& bytes) {
    EXPECT_TRUE(budget.Take(bytes, kSecond));
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
    EXPECT_TRUE(budget.Take(bytes, kSecond));
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
    while (taken < bytes.size() && budget.Take(bytes.substr(taken, piece), 0)) taken += piece;
    EXPECT_LT(taken, bytes.size()) << "one stream too many";
    EXPECT_GE(taken + piece, bytes.size() - Http2OpenCall(1).size()) << "only the last one";
  }
}

}  // namespace
}  // namespace duetime::rpc
