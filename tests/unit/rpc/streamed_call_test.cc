// SPDX-License-Identifier: Apache-2.0
//
// The frames of a CallStream as bytes.
#include "server/api/streamed_call.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "duetime/v1/messages.pb.h"
#include "server/api/unary.h"
#include "tests/unit/rpc/requests_and_errors.h"

namespace duetime::api {
namespace {

using rpc::ReasonOf;

const StreamedMethods& Streamed() {
  static const StreamedMethods methods(UnaryMethods());
  return methods;
}

v1::CallStreamRequest Frame(const std::string& text) {
  return rpc::Asked<v1::CallStreamRequest>(text).proto;
}

TEST(StreamedCallTest, AFrameHasItsCallsInOrder) {
  const std::string bytes =
      Frame(
          "calls { number: 7 schedule { topic: 't' } timeout { seconds: 2 nanos: 1 } "
          "traceparent: 'p' tracestate: 's' } calls { number: -1 get {} }")
          .SerializeAsString();
  std::vector<ParsedCall> calls;
  ASSERT_TRUE(ParseFrame(bytes, Streamed(), RequestLimits{}, &calls).ok());
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].number, 7);
  EXPECT_EQ(calls[0].method->descriptor->name(), "Schedule");
  EXPECT_EQ(calls[0].timeout_ms, 2'001u);
  EXPECT_EQ(calls[0].traceparent, "p");
  EXPECT_EQ(calls[0].tracestate, "s");
  v1::ScheduleRequest request;
  EXPECT_TRUE(request.ParseFromString(std::string(calls[0].request)));
  EXPECT_EQ(request.topic(), "t");
  EXPECT_EQ(calls[1].number, -1);
  EXPECT_EQ(calls[1].method->descriptor->name(), "Get");
  EXPECT_TRUE(calls[1].request.empty());
  EXPECT_EQ(calls[1].timeout_ms, ParsedCall::kNoTimeout);
}

TEST(StreamedCallTest, BadFramesAreRefused) {
  const std::string negative_timeout =
      Frame("calls { get {} timeout { seconds: -1 } }").SerializeAsString();
  RequestLimits limits;
  limits.batch_messages_max = 2;
  limits.batch_bytes_max = 100;
  const std::string long_topic(100, 'x');
  struct Case {
    std::string bytes;
    std::string reason;
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {Frame("calls { get {} } calls { get {} }").SerializeAsString(), ""},
           {Frame("calls { number: 1 }").SerializeAsString(), "MALFORMED_REQUEST"},
           {std::string("\x0a\x04\x1a\x00\x22\x00", 6), "MALFORMED_REQUEST"},
           {negative_timeout, "MALFORMED_REQUEST"},
           {"\x0a\x7f", "MALFORMED_REQUEST"},
           {std::string("\x0a\xff\xff\xff\xff\x0f", 6), "MALFORMED_REQUEST"},
           {"\x0b", "MALFORMED_REQUEST"},
           {std::string("\x00", 1), "MALFORMED_REQUEST"},
           {Frame("calls { get {} } calls { get {} } calls { get {} }").SerializeAsString(),
            "BATCH_TOO_LARGE"},
           {Frame("calls { schedule { topic: '" + long_topic + "' } }").SerializeAsString(), ""},
           {Frame("calls { schedule { topic: '" + long_topic + "' } } calls { get {} }")
                .SerializeAsString(),
            "BATCH_TOO_LARGE"}}) {
    std::vector<ParsedCall> calls;
    const absl::Status status = ParseFrame(c.bytes, Streamed(), limits, &calls);
    EXPECT_EQ(status.ok() ? "" : ReasonOf(status), c.reason) << testing::PrintToString(c.bytes);
  }
}

// Whatever the bytes are, they are read within their bounds.
TEST(StreamedCallTest, APartOfAFrameIsReadWithinItsBounds) {
  const std::string whole =
      Frame(
          "calls { number: 300 schedule { topic: 'abc' payload: 'x' } timeout { seconds: 2 } } "
          "calls { number: 2 cancel { message_id: 'm' } traceparent: 'p' }")
          .SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    std::vector<ParsedCall> calls;
    ParseFrame(part, Streamed(), RequestLimits{}, &calls).IgnoreError();
    for (const ParsedCall& call : calls) {
      EXPECT_TRUE(call.request.empty() ||
                  (call.request.data() >= part.data() &&
                   call.request.data() + call.request.size() <= part.data() + part.size()));
    }
  }
}

}  // namespace
}  // namespace duetime::api
