// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of operations on pending messages. See RESULTS.md.
//
//   lifecycle_bench mixed     order time-outs: scheduled under a key, four in five cancelled by it
//   lifecycle_bench queries   lists and forecasts over many pending messages
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "duetime/v1/admin.grpc.pb.h"
#include "tests/bench/listeners.h"
#include "tests/bench/load.h"
#include "tests/bench/meter.h"
#include "tests/support/paths.h"
#include "tests/support/server_process.h"

namespace duetime::bench {
namespace {

using test::ServerProcess;

constexpr int64_t kDayMs = 24 * 3'600'000;

struct Options {
  std::vector<std::string> flags;
  int64_t messages = 0;
  double seconds = 10;
  int clients = 4;
};

std::unique_ptr<ServerProcess> StartDaemon(const Options& options) {
  return bench::StartDaemon(test::kDaemon, options.flags);
}

// Waits until the directory's size has not changed for some seconds, at most a minute, and returns
// the size in bytes.
uint64_t SettledBytes(const std::string& directory) {
  constexpr int kSame = 5;
  uint64_t last = 0;
  for (int i = 0, same = 0; i < 60 && same < kSame; ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const uint64_t bytes = DirectoryBytes(directory);
    same = bytes == last ? same + 1 : 0;
    last = bytes;
  }
  return last;
}

// One client of the mixed profile. Sends batches of orders under keys of its own, and cancels four
// in five of them. Returns the number of operations that succeeded.
uint64_t RunOrders(const std::shared_ptr<grpc::Channel>& channel, int client, double seconds) {
  constexpr int kBatch = 1000;
  const auto stub = v1::Messages::NewStub(channel);
  MessageSource source("orders", 1'800'000, kDayMs, static_cast<uint64_t>(client));
  const auto start = SteadyClock::now();
  uint64_t done = 0;
  for (int64_t round = 0; SecondsSince(start) < seconds; ++round) {
    const auto key = [&](int i) {
      return std::to_string(client) + "/" + std::to_string(round) + "/" + std::to_string(i);
    };
    v1::ScheduleBatchRequest schedule;
    for (int i = 0; i < kBatch; ++i) {
      v1::ScheduleRequest* message = schedule.add_messages();
      source.Fill(message);
      message->set_key(key(i));
    }
    grpc::ClientContext schedule_context;
    v1::ScheduleBatchResponse scheduled;
    if (!stub->ScheduleBatch(&schedule_context, schedule, &scheduled).ok()) std::exit(1);
    for (const auto& result : scheduled.results()) done += result.has_error() ? 0u : 1u;
    v1::CancelBatchRequest cancel;
    for (int i = 0; i < kBatch; ++i) {
      if (i % 5 == 0) continue;
      v1::CancelRequest* item = cancel.add_cancels();
      item->mutable_key()->set_topic("orders");
      item->mutable_key()->set_key(key(i));
    }
    grpc::ClientContext cancel_context;
    v1::CancelBatchResponse cancelled;
    if (!stub->CancelBatch(&cancel_context, cancel, &cancelled).ok()) std::exit(1);
    for (const auto& result : cancelled.results()) {
      done += result.cancel().outcome() == v1::CancelResponse::OUTCOME_CANCELLED ? 1u : 0u;
    }
  }
  return done;
}

int Mixed(const Options& options) {
  const auto server = StartDaemon(options);
  const double cpu = ProcessCpuSeconds(server->pid());
  std::vector<uint64_t> done(static_cast<size_t>(options.clients));
  std::vector<std::thread> clients;
  const auto start = SteadyClock::now();
  for (int i = 0; i < options.clients; ++i) {
    clients.emplace_back([&, i] {
      done[static_cast<size_t>(i)] = RunOrders(server->Connect(), i, options.seconds);
    });
  }
  for (std::thread& client : clients) client.join();
  const double seconds = SecondsSince(start);
  uint64_t sum = 0;
  for (const uint64_t operations : done) sum += operations;
  const double live = static_cast<double>(sum) / 9;  // one of nine operations leaves a message
  std::printf(
      "mixed: %.0f operations/s (4 of 5 orders cancelled by key), server %.2f us CPU each\n",
      static_cast<double>(sum) / seconds,
      (ProcessCpuSeconds(server->pid()) - cpu) / static_cast<double>(sum) * 1e6);
  const auto now = static_cast<double>(DirectoryBytes(server->data_dir()));
  const auto settled = static_cast<double>(SettledBytes(server->data_dir()));
  std::printf("disk: %.0f MB, settled %.0f MB, for %.0f live messages and %.0f tombstones\n",
              now / 1e6, settled / 1e6, live, live * 4);
  return 0;
}

template <typename Call>
void Time(const char* name, Call call) {
  std::vector<double> times_ms;
  int64_t rows = 0;
  for (int i = 0; i < 20; ++i) {
    const auto start = SteadyClock::now();
    rows = call();
    times_ms.push_back(SecondsSince(start) * 1000);
  }
  std::printf("%-44s p50 %8.2f ms, max %8.2f ms, %lld rows\n", name, Quantile(&times_ms, 0.5),
              Quantile(&times_ms, 1.0), static_cast<long long>(rows));
}

int Queries(const Options& options) {
  constexpr int kBatch = 10'000;
  constexpr int64_t kYearMs = 365 * kDayMs;
  const int64_t messages = options.messages > 0 ? options.messages : 10'000'000;
  const auto server = StartDaemon(options);
  const auto channel = server->Connect();
  MessageSource source("", 0, 1);
  // Due times spread evenly over a year. Nine of ten messages go to one topic, the others to a
  // hundred topics. Batches follow the order of time: a batch spread over the whole year would
  // write more counters than messages. With this order, the database files overlap less than with a
  // random one.
  const LoadResult accepted = RunBatches(
      channel, static_cast<int>(messages / kBatch), 4,
      [&](int batch, v1::ScheduleBatchRequest* request) {
        request->Clear();
        for (int i = 0; i < kBatch; ++i) {
          const int64_t n = int64_t{batch} * kBatch + i;
          const std::string topic = n % 10 != 0 ? "big" : "small-" + std::to_string(n / 10 % 100);
          const int64_t delay_ms = 600'000 + n * (kYearMs / messages);
          v1::ScheduleRequest* const message = request->add_messages();
          message->set_topic(topic);
          source.FillPayload(message);
          message->mutable_delay()->set_seconds(delay_ms / 1000);
        }
      });
  std::printf("%lld pending over a year, accepted at %.0f/s, %llu errors\n",
              static_cast<long long>(messages), accepted.per_second,
              static_cast<unsigned long long>(accepted.errors));
  std::this_thread::sleep_for(std::chrono::seconds(5));
  const auto stub = v1::Messages::NewStub(channel);
  const auto admin = v1::Admin::NewStub(channel);
  const auto list = [&](const std::string& topic) {
    return [&stub, topic, token = std::string()]() mutable {
      grpc::ClientContext context;
      v1::ListRequest request;
      v1::ListResponse response;
      request.set_topic(topic);
      request.set_page_size(1000);
      request.set_page_token(token);
      if (!stub->List(&context, request, &response).ok()) std::exit(1);
      token = response.next_page_token();
      return int64_t{response.messages_size()};
    };
  };
  Time("List, pages of 1,000, topic with 9 of 10", list("big"));
  Time("List, pages of 1,000, topic with 1 of 1,000", list("small-7"));
  const auto forecast = [&](const std::string& topic, v1::ForecastRequest::Bucket bucket,
                            int count) {
    return [&admin, topic, bucket, count] {
      grpc::ClientContext context;
      v1::ForecastRequest request;
      v1::ForecastResponse response;
      request.set_topic(topic);
      request.set_bucket(bucket);
      request.set_buckets(count);
      if (!admin->Forecast(&context, request, &response).ok()) std::exit(1);
      return int64_t{response.buckets_size()};
    };
  };
  Time("Forecast, a year by days, one topic",
       forecast("big", v1::ForecastRequest::BUCKET_DAY, 365));
  Time("Forecast, a year by hours, one topic",
       forecast("big", v1::ForecastRequest::BUCKET_HOUR, 8'760));
  Time("Forecast, a week by minutes, one topic",
       forecast("big", v1::ForecastRequest::BUCKET_MINUTE, 10'000));
  Time("Forecast, a year by days, all topics", forecast("", v1::ForecastRequest::BUCKET_DAY, 365));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Benchmarks of what is done to messages before they are due");
  Options options;
  std::function<int(const Options&)> chosen;
  const auto add = [&](const char* name, const char* help, int (*run)(const Options&)) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->add_option("--seconds", options.seconds, "length of the measurement");
    command->add_option("--messages", options.messages, "how many messages");
    command->add_option("--clients", options.clients, "how many clients");
    command->add_option("--flag", options.flags, "more flags for the daemon");
    command->callback([&chosen, run] { chosen = run; });
  };
  add("mixed", "order time-outs, four in five cancelled", Mixed);
  add("queries", "lists and forecasts at ten million pending", Queries);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  PrintMachine(test::TempDirectory(test::TempDirectory::Where::kDisk).path());
  return chosen(options);
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
