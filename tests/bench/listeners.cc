// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/listeners.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace duetime::bench {

using test::ServerProcess;

std::unique_ptr<ServerProcess> StartDaemon(const std::string& daemon,
                                           const std::vector<std::string>& flags) {
  ServerProcess::Options options;
  options.daemon = daemon;
  options.flags = flags;
  options.metrics = true;
  options.where = test::TempDirectory::Where::kDisk;
  auto server = std::make_unique<ServerProcess>(std::move(options));
  if (!server->Start()) {
    std::fprintf(stderr, "the daemon does not start: %s\n", server->error().c_str());
    std::exit(1);
  }
  return server;
}

std::unique_ptr<client::Subscriber> Listen(
    const ServerProcess& server, const std::string& topic, int credit, Received* received,
    std::function<client::Settlement(const client::Delivery&)> answer,
    const std::string& subscription) {
  client::SubscriberOptions options;
  options.server = client::ServerAddress{};
  options.server.target = server.target();
  options.topic = topic;
  options.subscription = subscription;
  options.max_outstanding_messages = credit;
  auto subscriber = client::Subscriber::Start(
      options, [received, answer = std::move(answer)](const client::Delivery& delivery) {
        const auto& time = delivery.proto().deliver_time();
        const double due_ms =
            static_cast<double>(time.seconds()) * 1e3 + static_cast<double>(time.nanos()) / 1e6;
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        const double late = std::chrono::duration<double, std::milli>(now).count() - due_ms;
        if (late < 0) received->early.fetch_add(1);
        {
          const std::lock_guard<std::mutex> lock(received->mutex);
          received->lateness_ms.push_back(late);
          const auto& handed = delivery.proto().lateness();
          received->hand_out_ms.push_back(static_cast<double>(handed.seconds()) * 1e3 +
                                          static_cast<double>(handed.nanos()) / 1e6);
        }
        received->count.fetch_add(1);
        return answer ? answer(delivery) : client::Settlement::Ack();
      });
  if (!subscriber.ok()) {
    std::fprintf(stderr, "%s\n", subscriber.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(subscriber);
}

void WaitFor(const std::function<bool()>& done, double seconds_max) {
  const auto start = SteadyClock::now();
  while (!done() && SecondsSince(start) < seconds_max) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Trickle(const Channel& channel, const std::string& topic, int64_t rate,
             const std::atomic<bool>* stop, int64_t ahead_ms) {
  const auto stub = v1::Messages::NewStub(channel);
  MessageSource source(topic, ahead_ms, 500);
  const auto start = SteadyClock::now();
  int64_t sent = 0;
  while (!stop->load()) {
    const auto target = static_cast<int64_t>(SecondsSince(start) * static_cast<double>(rate));
    v1::ScheduleBatchRequest request;
    for (; sent < target && request.messages_size() < 1000; ++sent) {
      source.Fill(request.add_messages());
    }
    if (request.messages_size() > 0) {
      grpc::ClientContext context;
      v1::ScheduleBatchResponse response;
      if (!stub->ScheduleBatch(&context, request, &response).ok()) std::printf("ERROR\n");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

LoadResult ScheduleMany(const Channel& channel, const std::vector<std::string>& topics,
                        int64_t messages, int64_t due_ms, int64_t spread_ms) {
  constexpr int64_t kBatch = 5000;
  const auto batches = static_cast<int>((messages + kBatch - 1) / kBatch);
  MessageSource source("", 0, 1);
  return RunBatches(channel, batches, 4, [&](int i, v1::ScheduleBatchRequest* request) {
    request->Clear();
    const int64_t first = i * kBatch;
    for (int64_t j = first; j < std::min(messages, first + kBatch); ++j) {
      v1::ScheduleRequest* message = request->add_messages();
      message->set_topic(topics[static_cast<size_t>(j) % topics.size()]);
      source.FillPayload(message);
      const int64_t when = due_ms + j % spread_ms;
      message->mutable_deliver_time()->set_seconds(when / 1000);
      message->mutable_deliver_time()->set_nanos(static_cast<int32_t>(when % 1000) * 1'000'000);
    }
  });
}

void PrintLateness(const char* name, Received* received) {
  const std::lock_guard<std::mutex> lock(received->mutex);
  std::printf(
      "%s: %lld delivered, lateness p50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms, max %.1f ms "
      "(at hand-out p99 %.0f, max %.0f), early %lld\n",
      name, static_cast<long long>(received->count.load()), Quantile(&received->lateness_ms, 0.5),
      Quantile(&received->lateness_ms, 0.99), Quantile(&received->lateness_ms, 0.999),
      Quantile(&received->lateness_ms, 1.0), Quantile(&received->hand_out_ms, 0.99),
      Quantile(&received->hand_out_ms, 1.0), static_cast<long long>(received->early.load()));
}

}  // namespace duetime::bench
