// SPDX-License-Identifier: Apache-2.0
//
// The C++ client library against the built daemon: behaviour that only both together can show.
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/admin_client.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/pager.h"
#include "client/cpp/schedule_stream.h"
#include "client/cpp/subscriber.h"
#include "tests/integration/daemon_fixture.h"

namespace duetime::test {
namespace {

class ClientLibraryTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon(); }

  client::ClientOptions Options() const {
    client::ClientOptions options;
    options.server.target = server_->target();
    options.deadline = absl::Seconds(30);
    return options;
  }

  std::unique_ptr<client::ScheduleStream> OpenStream() {
    return *client::ScheduleStream::Open(
        {.server = Options().server},
        [](int64_t, const absl::StatusOr<v1::ScheduleResponse>& result) {
          EXPECT_TRUE(result.ok()) << result.status();
        });
  }

  // Counts the pending messages by payload size. Each message of these tests has its own size.
  std::map<int64_t, int> SizesOf(const std::string& topic) {
    const auto client = *client::Client::Create(Options());
    v1::ListRequest request;
    request.set_topic(topic);
    request.set_page_size(1'000);
    client::MessageReader reader(client.get(), request);
    std::map<int64_t, int> sizes;
    for (;;) {
      const auto message = reader.Next();
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok() || !message->has_value()) return sizes;
      ++sizes[(*message)->payload_bytes()];
    }
  }

  static std::vector<client::NewMessage> Frame(size_t first, size_t count) {
    std::vector<client::NewMessage> frame(count);
    for (size_t i = 0; i < count; ++i) {
      frame[i].topic = "t";
      frame[i].payload = std::string(first + i, 'x');
      frame[i].when = absl::Hours(1);
    }
    return frame;
  }
};

TEST_F(ClientLibraryTest, AStreamSchedulesAndAListReadsItBack) {
  const auto stream = OpenStream();
  for (size_t first = 0; first < 3'000; first += 100) {
    ASSERT_TRUE(stream->Send(Frame(first, 100)).ok());
  }
  const absl::Status finished = stream->Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  EXPECT_EQ(stream->answered(), 3'000);
  const std::map<int64_t, int> sizes = SizesOf("t");
  ASSERT_EQ(sizes.size(), 3'000u);
  for (const auto& [size, count] : sizes) EXPECT_EQ(count, 1) << size;
}

// The server may have accepted some of the unanswered frames before the kill. The client sends them
// again with their request ids, and each message exists once.
TEST_F(ClientLibraryTest, WhatAKillLeavesInDoubtIsSentAgainWithoutDoubles) {
  auto stream = OpenStream();
  absl::Status status;
  size_t sent = 0;
  // The server may have written some of these without an answer.
  for (; sent < 500 && status.ok(); sent += 100) status = stream->Send(Frame(sent, 100));
  server_->Kill();
  if (status.ok()) status = stream->Finish();
  std::vector<client::NewMessage> unanswered = stream->TakeUnanswered();
  EXPECT_EQ(static_cast<int64_t>(unanswered.size()), stream->sent() - stream->answered());
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  stream = OpenStream();
  // Sends the messages twice, because a repeat must have no effect on any stream.
  ASSERT_TRUE(stream->Send(unanswered).ok());
  ASSERT_TRUE(stream->Send(unanswered).ok());
  status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status;
  const std::map<int64_t, int> sizes = SizesOf("t");
  EXPECT_EQ(sizes.size(), sent);
  for (const auto& [size, count] : sizes) EXPECT_EQ(count, 1) << size;
}

// gRPC connects only while a thread waits in it. A server in another process shows it.
TEST_F(ClientLibraryTest, ACallAndASubscriberFindTheServerSoonAfterARestart) {
  using Clock = std::chrono::steady_clock;
  client::ClientOptions options = Options();
  options.backoff.initial = options.backoff.max = absl::Milliseconds(500);
  const auto client = *client::Client::Create(options);
  std::atomic<int> connects = 0;
  client::SubscriberOptions subscriber_options;
  subscriber_options.server = options.server;
  subscriber_options.topic = "t";
  subscriber_options.backoff = options.backoff;
  subscriber_options.on_connect = [&](const v1::SubscribeStarted&) { ++connects; };
  const auto subscriber = *client::Subscriber::Start(
      subscriber_options, [](const client::Delivery&) { return client::Settlement::Ack(); });
  const auto wait_for_connects = [&](int count) {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (connects < count && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_GE(connects, count);
  };
  wait_for_connects(1);
  for (int restart = 1; restart <= 3; ++restart) {
    server_->Kill();
    // The first tries find no server.
    std::future<absl::Status> call = std::async(std::launch::async, [&] {
      return client->Schedule({.topic = "t", .when = absl::Hours(1)}).status();
    });
    EXPECT_EQ(call.wait_for(std::chrono::milliseconds(600)), std::future_status::timeout);
    ASSERT_TRUE(server_->Start()) << server_->error();
    const auto started = Clock::now();
    EXPECT_TRUE(call.get().ok());
    wait_for_connects(restart + 1);
    EXPECT_LT(Clock::now() - started, std::chrono::seconds(3)) << "restart " << restart;
  }
  EXPECT_TRUE(subscriber->Stop().ok());
}

TEST_F(ClientLibraryTest, AForecastCountsWhatIsThere) {
  const auto client = *client::Client::Create(Options());
  const auto results = client->ScheduleBatch(Frame(0, 10));
  ASSERT_TRUE(results.ok()) << results.status();
  const auto admin = *client::AdminClient::Create(Options());
  v1::ForecastRequest request;
  request.set_topic("t");
  const auto forecast = admin->Forecast(request);
  ASSERT_TRUE(forecast.ok()) << forecast.status();
  EXPECT_EQ(forecast->total().messages(), 10);
}

}  // namespace
}  // namespace duetime::test
