// SPDX-License-Identifier: Apache-2.0
//
// Parses protos from their text format, so that a table of cases can hold them. If a field stands
// twice, the second one is merged into the first or replaces it.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace duetime {

template <typename Proto>
Proto ParseProto(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &proto)) << text;
  return proto;
}

// Whether `actual` is the message that `expected` describes in text format.
inline testing::AssertionResult IsProto(const google::protobuf::Message& actual,
                                        const std::string& expected) {
  const std::unique_ptr<google::protobuf::Message> wanted(actual.New());
  if (!google::protobuf::TextFormat::ParseFromString(expected, wanted.get())) {
    return testing::AssertionFailure() << "no text format: " << expected;
  }
  if (google::protobuf::util::MessageDifferencer::Equals(actual, *wanted)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << actual.ShortDebugString() << "\n  instead of\n"
                                     << wanted->ShortDebugString();
}

}  // namespace duetime
