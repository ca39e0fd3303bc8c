// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/trace_context.h"

#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace duetime::api {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Headers = std::vector<absl::string_view>;

constexpr char kId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, TakesATraceparentInTheFormOfTheStandardOnly) {
  const std::string zeros(32, '0');
  const struct {
    std::string header;
    bool valid;
  } cases[] = {
      {kParent, true},
      {absl::StrCat("00-", kId, "-00f067aa0ba902b7-00"), true},
      {absl::StrCat("00-", kId, "-00f067aa0ba902b7-01-more"), false},
      {absl::StrCat("cc-", kId, "-00f067aa0ba902b7-01-more"), true},
      {absl::StrCat("cc-", kId, "-00f067aa0ba902b7-01"), true},
      {absl::StrCat("cc-", kId, "-00f067aa0ba902b7-01.more"), false},
      {absl::StrCat("cc-", kId, "-00f067aa0ba902b7-01-", std::string(201, 'x')), false},
      {absl::StrCat("ff-", kId, "-00f067aa0ba902b7-01"), false},
      {absl::StrCat("0-", kId, "-00f067aa0ba902b7-001"), false},
      {absl::StrCat("00-", zeros, "-00f067aa0ba902b7-01"), false},
      {absl::StrCat("00-", kId, "-0000000000000000-01"), false},
      {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false},
      {absl::StrCat("00-", kId, "-00f067aa0ba902b7-0x"), false},
      {absl::StrCat("00_", kId, "_00f067aa0ba902b7_01"), false},
      {"", false},
  };
  for (const auto& [header, valid] : cases) {
    const TraceContext trace = ParseTraceContext(Headers{header}, Headers{"a=1"});
    EXPECT_EQ(trace.parent, valid ? header : "") << header;
    EXPECT_EQ(trace.state, valid ? "a=1" : "") << header;
  }
  EXPECT_EQ(ParseTraceContext(Headers{kParent, kParent}, {}).parent, "");
}

TEST(TraceContextTest, IgnoresAMalformedTracestateAndKeepsTheTraceparent) {
  const std::string long_value(257, 'v');
  std::string many = "k0=v";
  for (int i = 1; i < 32; ++i) absl::StrAppend(&many, ",k", i, "=v");
  const std::string too_many = absl::StrCat(many, ",k32=v");
  const std::string half = absl::StrCat("a=", std::string(250, 'v'));
  const struct {
    Headers headers;
    std::string state;
  } cases[] = {
      {{"a=1"}, "a=1"},
      {{"tenant@vendor=x y!", " b_-*/=2 ,, "}, "tenant@vendor=x y!,b_-*/=2"},
      {{}, ""},
      {{"A=1"}, ""},
      {{"a"}, ""},
      {{"a="}, ""},
      {{"=1"}, ""},
      {{"a=1=2"}, ""},
      {{"a=\x01"}, ""},
      {{"a=1", "b"}, ""},
      {{many}, many},
      {{too_many}, ""},
      {{half, half}, absl::StrCat(half, ",", half)},
      {{half, half, half}, ""},
  };
  for (const auto& [headers, state] : cases) {
    const TraceContext trace = ParseTraceContext(Headers{kParent}, headers);
    EXPECT_EQ(trace.parent, kParent);
    EXPECT_EQ(trace.state, state) << testing::PrintToString(headers);
  }
  const std::string large = absl::StrCat("a=", long_value);
  EXPECT_EQ(ParseTraceContext(Headers{kParent}, Headers{large}).state, "");
}

TEST(TraceContextTest, AddsAttributesWithinTheLimits) {
  const TraceContext trace{.parent = kParent, .state = "a=1"};
  constexpr size_t kParentBytes = 11 + 55;
  constexpr size_t kStateBytes = 10 + 3;
  const auto added = [&](size_t pairs_max, size_t bytes_max) {
    RequestLimits limits;
    limits.attributes_max = pairs_max;
    limits.attributes_bytes_max = bytes_max;
    storage::MessageRecord::Pairs attributes = {{"k", "v"}};
    AddTraceContext(trace, limits, &attributes);
    return attributes.size() - 1;
  };
  EXPECT_EQ(added(3, 2 + kParentBytes + kStateBytes), 2u);
  EXPECT_EQ(added(3, 1 + kParentBytes + kStateBytes), 1u);
  EXPECT_EQ(added(2, 1'000), 1u);
  EXPECT_EQ(added(3, 1 + kParentBytes), 0u);
  EXPECT_EQ(added(1, 1'000), 0u);
}

TEST(TraceContextTest, AMessageWithItsOwnKeepsIt) {
  for (const char* name : {"traceparent", "tracestate"}) {
    storage::MessageRecord::Pairs attributes = {{name, "own"}};
    AddTraceContext({.parent = kParent, .state = "a=1"}, {}, &attributes);
    EXPECT_THAT(attributes, ElementsAre(Pair(name, "own")));
  }
  storage::MessageRecord::Pairs none;
  AddTraceContext({}, {}, &none);
  EXPECT_THAT(none, IsEmpty());
}

}  // namespace
}  // namespace duetime::api
