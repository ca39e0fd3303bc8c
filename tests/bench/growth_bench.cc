// SPDX-License-Identifier: Apache-2.0
//
// growth_bench: the same work beside more and more pending messages, which are due over a year
// from tomorrow on. One daemon, whose store grows from size to size. See RESULTS.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "duetime/v1/admin.grpc.pb.h"
#include "tests/bench/listeners.h"
#include "tests/bench/load.h"
#include "tests/bench/meter.h"
#include "tests/support/paths.h"

namespace duetime::bench {
namespace {

using test::ServerProcess;

constexpr int kBatch = 1'000;
constexpr int kBatchesInFlight = 8;
constexpr int64_t kDayMs = 24 * 3'600'000;
constexpr int64_t kYearMs = 365 * kDayMs;
constexpr char kFar[] = "far";
constexpr int64_t kFarCancels = 100'000;

struct Options {
  std::string daemon = test::kDaemon;
  std::vector<std::string> flags;
  std::vector<int64_t> sizes = {100'000, 1'000'000, 10'000'000, 30'000'000};
  int rounds = 3;
  int64_t messages = 200'000;
  int64_t rate = 5'000;
  double seconds = 5;
};

// Medians of the rounds beside one number of pending messages.
struct Row {
  std::vector<double> accept_us;
  std::vector<double> cancel_us;
  std::vector<double> cancel_far_us;
  std::vector<double> burst_us;
  std::vector<double> burst_rate;
  std::vector<double> p99_ms;
  std::vector<double> list_ms;
  std::vector<double> forecast_ms;
};

double Median(std::vector<double>* values) { return Quantile(values, 0.5); }

// Waits until the daemon has used less than a twentieth of a core for a second: its compactions
// have ended.
void WaitUntilIdle(const ServerProcess& server) {
  for (int i = 0; i < 300; ++i) {
    const double before = ProcessCpuSeconds(server.pid());
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (ProcessCpuSeconds(server.pid()) - before < 0.05) return;
  }
}

class Growth {
 public:
  explicit Growth(const Options& options)
      : options_(options), server_(StartDaemon(options.daemon, options.flags)), meter_(*server_) {}

  void GrowTo(int64_t size) {
    constexpr int64_t kStep = 500'000;
    const auto channel = server_->Connect();
    const int64_t more = size - pending_;
    // Some of each step, so the cancels of far messages read all over the store.
    const int64_t steps = (more + kStep - 1) / kStep;
    const auto kept = static_cast<size_t>(std::min<int64_t>(kFarCancels, size / 10) / steps);
    far_ids_.clear();
    meter_.Take();
    double accept_s = 0;
    for (int64_t left = more; left > 0; left -= kStep) {
      std::vector<std::string> ids;
      const auto start = SteadyClock::now();
      Check(ScheduleBatches(channel, &source_, std::min(left, kStep), kBatch, kBatchesInFlight,
                            &ids));
      accept_s += SecondsSince(start);
      std::shuffle(ids.begin(), ids.end(), random_);
      far_ids_.insert(far_ids_.end(), ids.begin(),
                      ids.begin() + static_cast<ptrdiff_t>(std::min(kept, ids.size())));
    }
    std::shuffle(far_ids_.begin(), far_ids_.end(), random_);
    pending_ = size;
    const auto end = SteadyClock::now();
    WaitUntilIdle(*server_);
    std::printf(
        "\n%lld pending; accepted at %.0f/s, idle after %.0f s more; per message %.0f bytes "
        "written, %.0f on disk\n",
        static_cast<long long>(size), static_cast<double>(more) / accept_s, SecondsSince(end),
        meter_.Take().disk_bytes / static_cast<double>(more),
        static_cast<double>(DirectoryBytes(server_->data_dir())) / static_cast<double>(size));
    std::fflush(stdout);
  }

  void Measure() {
    Row row;
    for (int rounds_left = options_.rounds; rounds_left > 0; --rounds_left) {
      Batches(rounds_left, &row);
      Burst(&row);
      Steady(&row);
      Reads(&row);
    }
    std::printf(
        "server us: accept %.2f, cancel of these %.2f, cancel of far messages %.2f, deliver + ack "
        "%.2f\nburst %.0f/s; p99 lateness at %lld/s %.1f ms; List of 1,000 %.1f ms; Forecast, a "
        "year by days %.1f ms\n",
        Median(&row.accept_us), Median(&row.cancel_us), Median(&row.cancel_far_us),
        Median(&row.burst_us), Median(&row.burst_rate), static_cast<long long>(options_.rate),
        Median(&row.p99_ms), Median(&row.list_ms), Median(&row.forecast_ms));
  }

  void Restart() {
    const double resident = static_cast<double>(test::ResidentBytes(server_->pid())) / 1e6;
    MessageSource soon("soon", 0, 1);
    Check(ScheduleBatches(server_->Connect(), &soon, 1, 1, 1, nullptr));
    server_->Kill();
    Received received;
    const auto start = SteadyClock::now();
    if (!server_->Start()) {
      std::fprintf(stderr, "no restart: %s\n", server_->error().c_str());
      std::exit(1);
    }
    const auto listener = Listen(*server_, "soon", 10, &received);
    WaitFor([&] { return received.count.load() > 0; }, 60);
    std::printf("resident %.0f MB; kill -9 and start: first delivery after %.2f s\n", resident,
                SecondsSince(start));
    std::fflush(stdout);
  }

 private:
  static void Check(const LoadResult& result) {
    if (result.errors == 0) return;
    std::fprintf(stderr, "%llu errors\n", static_cast<unsigned long long>(result.errors));
    std::exit(1);
  }

  // Accepts and cancels as many, and cancels a part of the far messages.
  void Batches(int rounds_left, Row* row) {
    const auto channel = server_->Connect();
    MessageSource source("day", 600'000, kDayMs);
    std::vector<std::string> ids;
    meter_.Take();
    LoadResult result =
        ScheduleBatches(channel, &source, options_.messages, kBatch, kBatchesInFlight, &ids);
    row->accept_us.push_back(ServerMicros(meter_.Take(), result.operations));
    Check(result);
    std::shuffle(ids.begin(), ids.end(), random_);
    meter_.Take();
    result = CancelBatches(channel, ids, kBatch, kBatchesInFlight);
    row->cancel_us.push_back(ServerMicros(meter_.Take(), result.operations));
    Check(result);
    const size_t count = far_ids_.size() / static_cast<size_t>(rounds_left);
    const std::vector<std::string> far(far_ids_.end() - static_cast<ptrdiff_t>(count),
                                       far_ids_.end());
    far_ids_.resize(far_ids_.size() - count);
    pending_ -= static_cast<int64_t>(count);
    meter_.Take();
    result = CancelBatches(channel, far, kBatch, kBatchesInFlight);
    row->cancel_far_us.push_back(ServerMicros(meter_.Take(), result.operations));
    Check(result);
    WaitUntilIdle(*server_);
  }

  // All due within one second.
  void Burst(Row* row) {
    const int64_t due_ms = WallMillis() + 2'000 + options_.messages / 100;
    Check(ScheduleMany(server_->Connect(), {"burst"}, options_.messages, due_ms, 1'000));
    Received received;
    const auto listener = Listen(*server_, "burst", 50'000, &received);
    WaitFor([&] { return WallMillis() >= due_ms; }, 600);
    meter_.Take();
    WaitFor([&] { return listener->counts().acked >= options_.messages; }, 120);
    const Spent spent = meter_.Take();
    const auto acked = static_cast<double>(listener->counts().acked);
    row->burst_us.push_back(ServerMicros(spent, acked));
    row->burst_rate.push_back(acked / spent.seconds);
    WaitUntilIdle(*server_);
  }

  void Steady(Row* row) {
    Received received;
    std::atomic<bool> stop{false};
    const auto listener = Listen(*server_, "steady", 10'000, &received);
    std::thread sender(Trickle, server_->Connect(), "steady", options_.rate, &stop, int64_t{100});
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.seconds));
    stop = true;
    sender.join();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::lock_guard<std::mutex> lock(received.mutex);
    row->p99_ms.push_back(Quantile(&received.lateness_ms, 0.99));
  }

  template <typename Call>
  static double MillisOf(Call call) {
    std::vector<double> times_ms;
    for (int i = 0; i < 20; ++i) {
      const auto start = SteadyClock::now();
      if (!call().ok()) std::exit(1);
      times_ms.push_back(SecondsSince(start) * 1e3);
    }
    return Median(&times_ms);
  }

  void Reads(Row* row) {
    const auto messages = v1::Messages::NewStub(server_->Connect());
    const auto admin = v1::Admin::NewStub(server_->Connect());
    v1::ListRequest list;
    list.set_topic(kFar);
    list.set_page_size(kBatch);
    row->list_ms.push_back(MillisOf([&] {
      grpc::ClientContext context;
      v1::ListResponse page;
      const grpc::Status status = messages->List(&context, list, &page);
      list.set_page_token(page.next_page_token());
      return status;
    }));
    v1::ForecastRequest forecast;
    forecast.set_topic(kFar);
    forecast.set_bucket(v1::ForecastRequest::BUCKET_DAY);
    forecast.set_buckets(365);
    row->forecast_ms.push_back(MillisOf([&] {
      grpc::ClientContext context;
      v1::ForecastResponse response;
      return admin->Forecast(&context, forecast, &response);
    }));
  }

  const Options& options_;
  const std::unique_ptr<ServerProcess> server_;
  Meter meter_;
  MessageSource source_{kFar, kDayMs, kYearMs};
  std::mt19937_64 random_{1};
  std::vector<std::string> far_ids_;
  int64_t pending_ = 0;
};

int Main(int argc, char** argv) {
  CLI::App app("The same work beside more and more pending messages");
  Options options;
  app.add_option("--sizes", options.sizes, "numbers of pending messages, from small to large")
      ->delimiter(',');
  app.add_option("--rounds", options.rounds, "rounds at each size, of which the median counts");
  app.add_option("--messages", options.messages, "of a batch measurement, and of a burst");
  app.add_option("--rate", options.rate, "messages per second of the steady load");
  app.add_option("--seconds", options.seconds, "length of the steady load");
  app.add_option("--flag", options.flags, "more flags for the daemon");
  app.add_option("--daemon", options.daemon, "another daemon, for example an older one");
  CLI11_PARSE(app, argc, argv);
  PrintMachine(test::TempDirectory(test::TempDirectory::Where::kDisk).path());
  Growth growth(options);
  for (const int64_t size : options.sizes) {
    growth.GrowTo(size);
    growth.Measure();
    growth.Restart();
  }
  return 0;
}

}  // namespace
}  // namespace duetime::bench

int main(int argc, char** argv) { return duetime::bench::Main(argc, argv); }
