// SPDX-License-Identifier: Apache-2.0
#include "client/delay_client.h"

#include <atomic>
#include <gtest/gtest.h>
#include <mutex>

#include "client/error.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::client {
namespace {

class DelayClientTest : public testing::Test {
 protected:
  std::unique_ptr<Client> MakeClient() {
    ClientOptions options;
    options.server.target = server_.target();
    options.backoff = {
        .initial = absl::Milliseconds(1), .max = absl::Milliseconds(4), .multiplier = 2.0};
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // Fails the first `failures` calls with UNAVAILABLE, and counts.
  grpc::Status FailFirst(int failures) {
    if (++calls_ > failures) return grpc::Status::OK;
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STARTING");
  }

  FakeServer server_;
  std::atomic<int> calls_{0};
};

TEST_F(DelayClientTest, ScheduleSendsAllAndReturnsAll) {
  // gRPC's own threads order what the server saw before what the client does next, but no sanitizer
  // sees that.
  std::mutex mutex;
  v1::ScheduleRequest last;
  const auto last_seen = [&] {
    const std::lock_guard lock(mutex);
    return last;
  };
  server_.on_schedule = [&](const v1::ScheduleRequest& request, v1::ScheduleResponse* response) {
    {
      const std::lock_guard lock(mutex);
      last = request;
    }
    v1::Message* message = response->mutable_message();
    message->set_id("id1");
    message->set_topic(request.topic());
    message->mutable_deliver_time()->set_seconds(100);
    message->mutable_accept_time()->set_seconds(90);
    message->set_state(v1::Message::SCHEDULED);
    message->set_payload_bytes(3);
    return grpc::Status::OK;
  };
  server_.Start();
  const auto client = MakeClient();
  NewMessage message;
  message.topic = "t";
  message.payload = "abc";
  message.attributes = {{"k", "v"}};
  message.when = absl::Milliseconds(1'500);
  const auto accepted = client->Schedule(message);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->id, "id1");
  EXPECT_EQ(accepted->deliver_time, absl::FromUnixSeconds(100));
  EXPECT_EQ(accepted->accept_time, absl::FromUnixSeconds(90));
  EXPECT_EQ(accepted->state, v1::Message::SCHEDULED);
  EXPECT_EQ(accepted->payload_bytes, 3);
  v1::ScheduleRequest seen = last_seen();
  EXPECT_EQ(seen.topic(), "t");
  EXPECT_EQ(seen.payload(), "abc");
  EXPECT_EQ(seen.attributes().at("k"), "v");
  EXPECT_EQ(seen.delay().seconds(), 1);
  EXPECT_EQ(seen.delay().nanos(), 500'000'000);
  message.when = absl::FromUnixMillis(7'007);
  ASSERT_TRUE(client->Schedule(message).ok());
  seen = last_seen();
  EXPECT_EQ(seen.deliver_time().seconds(), 7);
  EXPECT_EQ(seen.deliver_time().nanos(), 7'000'000);
}

TEST_F(DelayClientTest, ScheduleIsNotRepeatedUnlessDuplicatesAreAllowed) {
  server_.on_schedule = [&](const v1::ScheduleRequest&, v1::ScheduleResponse*) {
    return FailFirst(1);
  };
  server_.Start();
  const auto client = MakeClient();
  const auto refused = client->Schedule({.topic = "t"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "STARTING");
  EXPECT_EQ(calls_, 1);
  calls_ = 0;
  EXPECT_TRUE(client->Schedule({.topic = "t"}, Client::Repeat::kAllowDuplicates).ok());
  EXPECT_EQ(calls_, 2);
}

TEST_F(DelayClientTest, CancelGetAndInfoAreRepeatedOnUnavailable) {
  server_.on_cancel = [&](const v1::CancelRequest& request, v1::CancelResponse* response) {
    EXPECT_EQ(request.message_id(), "x");
    EXPECT_TRUE(request.stop_redelivery());
    response->set_outcome(v1::CancelResponse::NOT_FOUND);
    return FailFirst(2);
  };
  server_.on_get = [&](const v1::GetRequest& request, v1::GetResponse* response) {
    EXPECT_EQ(request.view(), v1::FULL);
    response->mutable_message()->set_payload("p");
    return FailFirst(2);
  };
  server_.on_info = [&](v1::ServerInfoResponse* response) {
    response->set_version("9");
    return FailFirst(2);
  };
  server_.Start();
  const auto client = MakeClient();
  const auto cancelled = client->Cancel("x", true);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->outcome, v1::CancelResponse::NOT_FOUND);
  EXPECT_TRUE(cancelled->tried_before);
  EXPECT_EQ(calls_, 3);
  calls_ = 0;
  const auto message = client->Get("x", View::kFull);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->payload, "p");
  EXPECT_EQ(calls_, 3);
  calls_ = 0;
  const auto info = client->ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "9");
  EXPECT_EQ(calls_, 3);
}

TEST_F(DelayClientTest, GivesUpAfterItsTries) {
  server_.on_get = [&](const v1::GetRequest&, v1::GetResponse*) { return FailFirst(100); };
  server_.Start();
  EXPECT_EQ(MakeClient()->Get("x").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls_, 4);
}

TEST_F(DelayClientTest, OtherErrorsAreNotRepeated) {
  server_.on_get = [&](const v1::GetRequest&, v1::GetResponse*) {
    ++calls_;
    return MakeServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", 250);
  };
  server_.Start();
  const auto got = MakeClient()->Get("x");
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "OVERLOADED");
  EXPECT_EQ(GetErrorInfo(got.status()).retry_delay, absl::Milliseconds(250));
  EXPECT_EQ(calls_, 1);
}

TEST_F(DelayClientTest, AWaitBeyondTheDeadlineIsNotBegun) {
  server_.on_get = [&](const v1::GetRequest&, v1::GetResponse*) {
    ++calls_;
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STORAGE_FAILED", 60'000);
  };
  server_.Start();
  const auto got = MakeClient()->Get("x");
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "STORAGE_FAILED");
  EXPECT_EQ(calls_, 1);
}

TEST_F(DelayClientTest, NoServerIsUnavailable) {
  const auto got = MakeClient()->Get("x");
  EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "");
}

TEST_F(DelayClientTest, ADeadlineThatHasPassed) {
  server_.Start();
  ClientOptions options;
  options.server.target = server_.target();
  options.deadline = absl::ZeroDuration();
  const auto client = Client::Create(options);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->Get("x").status().code(), absl::StatusCode::kDeadlineExceeded);
  // And one without end does not overflow.
  options.deadline = absl::InfiniteDuration();
  const auto patient = Client::Create(options);
  ASSERT_TRUE(patient.ok());
  EXPECT_EQ((*patient)->Get("x").status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(DelayClientTest, BatchResultsAreInOrderAMessageOrAnErrorEach) {
  server_.on_batch = [](const v1::ScheduleBatchRequest& request,
                        v1::ScheduleBatchResponse* response) {
    for (const v1::ScheduleRequest& item : request.messages()) {
      v1::ScheduleResult* result = response->add_results();
      if (item.topic().empty()) {
        result->mutable_error()->set_code(3);
        result->mutable_error()->set_message("no topic");
      } else {
        result->mutable_message()->set_id(item.topic());
      }
    }
    return grpc::Status::OK;
  };
  server_.Start();
  const auto client = MakeClient();
  const std::vector<NewMessage> batch = {{.topic = "a"}, {.topic = ""}, {.topic = "c"}};
  const auto results = client->ScheduleBatch(batch);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_EQ((*results)[0]->id, "a");
  EXPECT_EQ((*results)[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*results)[2]->id, "c");
  const auto none = client->ScheduleBatch({});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_F(DelayClientTest, ABatchAnsweredShortIsAnError) {
  server_.on_batch = [](const v1::ScheduleBatchRequest&, v1::ScheduleBatchResponse*) {
    return grpc::Status::OK;
  };
  server_.Start();
  const std::vector<NewMessage> batch = {{.topic = "a"}};
  EXPECT_EQ(MakeClient()->ScheduleBatch(batch).status().code(), absl::StatusCode::kInternal);
}

TEST(OpenChannelTest, RefusesWhatCannotWork) {
  EXPECT_EQ(OpenChannel({.target = ""}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenChannel({.target = "h:1", .tls_cert_file = "/c"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenChannel({.target = "h:1", .tls_ca_file = "/no/such/file"}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace duetime::client
