// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/wire_check.h"

#include <string>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::rpc {
namespace {

WireSummary Check(const std::string& bytes, const google::protobuf::Descriptor* type) {
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  return CheckWire(&input, type);
}

v1::ScheduleRequest Request() {
  v1::ScheduleRequest request;
  request.set_topic("t");
  request.set_payload(std::string(1000, '\xff'));
  (*request.mutable_attributes())["k"] = "v";
  request.mutable_deliver_time()->set_seconds(5);
  return request;
}

TEST(WireCheckTest, KnownFieldsAreFine) {
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 3; ++i) *batch.add_messages() = Request();
  const WireSummary summary = Check(batch.SerializeAsString(), batch.GetDescriptor());
  EXPECT_TRUE(summary.well_formed);
  EXPECT_EQ(summary.unknown_bytes, 0u);
  EXPECT_EQ(summary.elements, 3u);
  EXPECT_TRUE(Check("", batch.GetDescriptor()).well_formed);
}

TEST(WireCheckTest, CountsRepeatedMessagesAndStrings) {
  v1::SubscribeRequest request;
  for (int i = 0; i < 100; ++i) request.add_begun("");
  request.add_settlements()->mutable_nack();
  request.add_settlements()->mutable_extend();
  const WireSummary summary = Check(request.SerializeAsString(), request.GetDescriptor());
  EXPECT_EQ(summary.elements, 102u);
  EXPECT_EQ(summary.unknown_bytes, 0u);
}

TEST(WireCheckTest, CountsUnknownBytesAtEveryDepth) {
  v1::ScheduleRequest item = Request();
  // Field 100, length-delimited, 50 bytes. Two bytes of tag and one of length precede it.
  v1::ScheduleRequest::GetReflection()->MutableUnknownFields(&item)->AddLengthDelimited(
      100, std::string(50, 'x'));
  google::protobuf::Timestamp* time = item.mutable_deliver_time();
  google::protobuf::Timestamp::GetReflection()->MutableUnknownFields(time)->AddVarint(100, 1);
  v1::ScheduleBatchRequest batch;
  *batch.add_messages() = item;
  EXPECT_EQ(Check(batch.SerializeAsString(), batch.GetDescriptor()).unknown_bytes, 53u + 3u);
}

TEST(WireCheckTest, AKnownNumberOfAnotherTypeIsUnknown) {
  const std::string topic_as_varint("\x08\x01\x08\x01", 4);
  const WireSummary summary = Check(topic_as_varint, v1::ScheduleRequest::GetDescriptor());
  EXPECT_TRUE(summary.well_formed);
  EXPECT_EQ(summary.unknown_bytes, 4u);
}

TEST(WireCheckTest, RefusesWhatIsNotTheWireFormat) {
  const auto* type = v1::ScheduleBatchRequest::GetDescriptor();
  v1::ScheduleBatchRequest batch;
  *batch.add_messages() = Request();
  const std::string good = batch.SerializeAsString();
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(Check(good.substr(0, size), type).well_formed) << size;
  }
  EXPECT_FALSE(Check("\xff", type).well_formed);
  EXPECT_FALSE(Check(std::string("\x0b", 1), type).well_formed);              // group without end
  EXPECT_FALSE(Check(std::string("\x0c", 1), type).well_formed);              // end without group
  EXPECT_FALSE(Check(std::string("\x0a\x02\x0a\x05", 4), type).well_formed);  // inner beyond outer
  EXPECT_FALSE(Check(std::string(100'000, '\x13'), type).well_formed);        // groups without end
}

}  // namespace
}  // namespace duetime::rpc
