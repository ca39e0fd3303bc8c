// SPDX-License-Identifier: Apache-2.0
//
// The list of open streams, and the end of a stream by an operator, through a socket.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/unit/rpc/server_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

using Ids = std::vector<std::string>;

class StreamsTest : public ServerTest {
 protected:
  std::vector<v1::SubscriberStream> List(const std::string& request = "") {
    const auto page = Must(&Admin::ListStreams, request);
    return {page.streams().begin(), page.streams().end()};
  }
};

TEST_F(StreamsTest, AStreamShowsItsClientAndItsWork) {
  Start();
  TestSubscriber subscriber(messages_.get());
  EXPECT_TRUE(List().empty());
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic("orders");
  request.mutable_start()->set_client_id("worker 7");
  request.mutable_start()->set_max_outstanding_messages(5);
  subscriber.Send(request);
  ASSERT_TRUE(subscriber.ReadOne());

  auto streams = List();
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_NE(streams[0].id(), "");
  EXPECT_EQ(streams[0].topic(), "orders");
  EXPECT_EQ(streams[0].subscription(), "default");
  EXPECT_EQ(streams[0].client_id(), "worker 7");
  EXPECT_NE(streams[0].peer(), "");
  EXPECT_EQ(streams[0].principal(), "");
  EXPECT_EQ(streams[0].max_outstanding_messages(), 5);
  EXPECT_EQ(streams[0].max_outstanding_bytes(), 64 << 20);
  EXPECT_EQ(streams[0].in_flight(), 0);
  EXPECT_GT(streams[0].start_time().seconds(), 0);
  EXPECT_FALSE(streams[0].has_last_settle_time());

  MustSchedule(NewMessage("orders", "a"));
  MustSchedule(NewMessage("orders", "b"));
  subscriber.ReadDeliveries(2);
  EXPECT_EQ(List()[0].in_flight(), 2);
  subscriber.Ack(subscriber.deliveries[0].lease_token());
  subscriber.ReadSettled(1);
  EXPECT_EQ(List()[0].in_flight(), 1);
  EXPECT_GE(List()[0].last_settle_time().seconds(), streams[0].start_time().seconds());

  subscriber.HalfClose();
  subscriber.Finish();
  EXPECT_TRUE(List().empty());
}

TEST_F(StreamsTest, PagesAreInTheOrderOfOpening) {
  Start();
  TestSubscriber first(messages_.get());
  TestSubscriber second(messages_.get());
  TestSubscriber third(messages_.get());
  first.Start("t", 0, "b");
  second.Start("other");
  third.Start("t", 0, "a");
  const auto names = [&](const std::string& filter, int page_size) {
    Ids found;
    std::string token;
    do {
      const auto page = Must(&Admin::ListStreams, absl::StrCat(filter, " page_size: ", page_size,
                                                               " page_token: '", token, "'"));
      EXPECT_LE(page.streams_size(), page_size);
      for (const auto& stream : page.streams()) {
        found.push_back(absl::StrCat(stream.topic(), " ", stream.subscription()));
      }
      token = page.next_page_token();
    } while (!token.empty() && !HasFailure());
    return found;
  };
  for (const int page_size : {1, 2, 3}) {
    EXPECT_EQ(names("", page_size), (Ids{"t b", "other default", "t a"})) << page_size;
    EXPECT_EQ(names("topic: 't'", page_size), (Ids{"t b", "t a"})) << page_size;
  }
  EXPECT_EQ(names("topic: 'none'", 1), Ids{});
  const std::string token = Must(&Admin::ListStreams, "page_size: 1").next_page_token();
  EXPECT_EQ(Reason(&Admin::ListStreams, absl::StrCat("topic: 't' page_token: '", token, "'")),
            "INVALID_PAGE_TOKEN");
}

TEST_F(StreamsTest, TheLeasesOfAnEndedStreamEndAtOnce) {
  shards_ = 2;
  Start();
  TestSubscriber ended(messages_.get());
  ended.Start("orders", 1);
  const std::string id = MustSchedule(NewMessage("orders", "p"));
  ended.ReadDeliveries(1);
  TestSubscriber other(messages_.get());
  other.Start("orders");
  const std::string stream = absl::StrCat("id: '", List()[0].id(), "'");

  Must(&Admin::EndStream, stream);
  ASSERT_EQ(List().size(), 1u);
  EXPECT_EQ(Reason(&Admin::EndStream, stream), "STREAM_NOT_FOUND");
  // After the delay of a retry. The lease of the first stream would last for 30 s.
  other.ReadDeliveries(1);
  EXPECT_EQ(other.deliveries[0].message_id(), id);
  const grpc::Status status = ended.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "STREAM_ENDED");
  EXPECT_EQ(Reason(&Admin::EndStream, "id: ''"), "STREAM_NOT_FOUND");
}

}  // namespace
}  // namespace duetime::rpc
