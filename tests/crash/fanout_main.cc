// SPDX-License-Identifier: Apache-2.0
//
// The crash test of the backlog and of fan-out. One topic has three subscriptions: by turns one is
// diligent, one is slow, and one is absent for a time. Memory for due messages is so small that
// messages keep moving to disk and back. The test kills the real daemon again and again: while it
// spills, while it reads back, and between the settlements of one message.
//
//   fanout_crash_test [--cycles=N] [--seed=N] [--shards=N] [--daemon=PATH]
//
// DUETIME_TEST_SCALE multiplies the default number of cycles. The test judges the history as
// kill9_test does. In addition, the topic must be empty at the end. Exit code 0: no promise was
// broken and enough happened; 1: a promise was broken; 2: the test could not run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "duetime/v1/admin.grpc.pb.h"
#include "tests/crash/kill9_clients.h"
#include "tests/crash/kill_cycles.h"
#include "tests/support/history_checker.h"
#include "tests/support/server_process.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;

constexpr int kSubscriptions = 3;
constexpr const char* kTopic = "fan";
// Longer than the longest delay and nack.
constexpr int64_t kQuietMs = 1'500;
constexpr int64_t kDrainTimeoutMs = 120'000;

std::string NameOf(int subscription) {
  return std::string(1, static_cast<char>('a' + subscription));
}

// Counts of the events that the runs must meet.
struct Met {
  // Kills while a subscription had messages on disk: without a stream that could take them, and
  // with one.
  int spilling = 0;
  int reading_back = 0;
};

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + milliseconds(10'000));
}

bool CreateSubscriptions(const std::shared_ptr<grpc::Channel>& channel) {
  const auto admin = v1::Admin::NewStub(channel);
  for (int i = 0; i < kSubscriptions; ++i) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::CreateSubscriptionRequest request;
    request.mutable_subscription()->set_topic(kTopic);
    request.mutable_subscription()->set_name(NameOf(i));
    // A drain of some seconds must see the next attempt of each message.
    request.mutable_subscription()->mutable_settings()->mutable_retry()->mutable_min_backoff();
    v1::CreateSubscriptionResponse response;
    const grpc::Status status = admin->CreateSubscription(&context, request, &response);
    if (status.ok()) continue;
    std::printf("subscription: %s\n", status.error_message().c_str());
    return false;
  }
  return true;
}

// Whether the subscription has undelivered messages on disk; false if that is unknown.
bool IsBehind(v1::Admin::Stub* admin, int subscription) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetSubscriptionRequest request;
  request.set_topic(kTopic);
  request.set_name(NameOf(subscription));
  v1::GetSubscriptionResponse response;
  return admin->GetSubscription(&context, request, &response).ok() &&
         response.subscription().counts().behind();
}

// Messages pending in the topic; -1 if unknown.
int64_t Pending(v1::Admin::Stub* admin) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetTopicRequest request;
  request.set_name(kTopic);
  v1::GetTopicResponse response;
  if (!admin->GetTopic(&context, request, &response).ok()) return -1;
  return response.topic().counts().pending();
}

// Schedules batches until it is stopped.
class Producer {
 public:
  Producer(const test::ServerProcess& server, uint32_t run, uint64_t seed, HistoryWriter* history)
      : run_(run),
        history_(history),
        thread_([this, channel = server.Connect(), seed] { Run(channel, seed); }) {}
  ~Producer() { Stop(); }
  void Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run(const std::shared_ptr<grpc::Channel>& channel, uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto stub = v1::Messages::NewStub(channel);
    while (!stopping_) {
      ScheduleSome(stub.get(), &random);
      std::this_thread::sleep_for(milliseconds(4));
    }
  }

  void ScheduleSome(v1::Messages::Stub* stub, std::mt19937_64* random) {
    v1::ScheduleBatchRequest batch;
    ScheduleRecord record(history_);
    for (uint64_t left = 1 + (*random)() % 30; left > 0; --left) {
      const auto delay_ms = static_cast<int64_t>((*random)() % 60);
      v1::ScheduleRequest* message = batch.add_messages();
      message->set_topic(kTopic);
      message->set_payload(std::to_string(record.Begin(delay_ms)) + " " +
                           std::string((*random)() % 200, 'x'));
      message->mutable_delay()->set_nanos(static_cast<int32_t>(delay_ms * 1'000'000));
    }
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ScheduleBatchResponse response;
    const grpc::Status status = stub->ScheduleBatch(&context, batch, &response);
    record.End(run_, status, response, /*accepted=*/nullptr);
  }

  const uint32_t run_;
  HistoryWriter* const history_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::unique_ptr<SubscriberClient> Subscribe(const test::ServerProcess& server, uint32_t run,
                                            int subscription, const SubscriberHabits& habits,
                                            uint64_t seed, HistoryWriter* history) {
  return std::make_unique<SubscriberClient>(
      SubscriberClient::Where{.target = server.target(),
                              .topic = kTopic,
                              .run = run,
                              .subscription = NameOf(subscription),
                              .number = static_cast<uint8_t>(subscription)},
      habits, seed, history);
}

// One run of the daemon. Some runs are killed during the start.
bool RunOnce(test::ServerProcess* server, int number, std::mt19937_64* random,
             HistoryWriter* history, Met* met) {
  const auto run = static_cast<uint32_t>(number);
  history->Add({.run = run, .what = What::kStart});
  if (number > 1 && (*random)() % 15 == 0) {
    KillDuringStart(server, random);
    history->Add({.run = run, .what = What::kKill});
    return true;
  }
  if (!StartRun(server, number)) return false;
  if (number == 1 && !CreateSubscriptions(server->Connect())) return false;
  Producer producer(*server, run, (*random)(), history);
  const int diligent = number % kSubscriptions;
  const int slow = (number + 1) % kSubscriptions;
  const int absent = (number + 2) % kSubscriptions;
  std::vector<std::unique_ptr<SubscriberClient>> subscribers;
  subscribers.push_back(Subscribe(*server, run, diligent,
                                  {.credit = 100, .acks = 100, .nacks = 0, .breaks = 0},
                                  (*random)(), history));
  subscribers.push_back(Subscribe(*server, run, slow,
                                  {.credit = 10, .acks = 60, .nacks = 10, .breaks = 2}, (*random)(),
                                  history));
  std::this_thread::sleep_for(milliseconds(50 + (*random)() % 150));
  // In half of the runs the absent subscriber connects late and has to catch up.
  const bool comes = (*random)() % 2 == 0;
  if (comes) {
    subscribers.push_back(Subscribe(*server, run, absent,
                                    {.credit = 50, .acks = 90, .nacks = 5, .breaks = 1},
                                    (*random)(), history));
    std::this_thread::sleep_for(milliseconds((*random)() % 150));
  }
  const auto admin = v1::Admin::NewStub(server->Connect());
  const bool absent_behind = IsBehind(admin.get(), absent);
  const bool slow_behind = IsBehind(admin.get(), slow);
  history->Add({.run = run, .what = What::kKill});
  const bool alive = KillRun(server, number);
  producer.Stop();
  subscribers.clear();
  if (absent_behind && !comes) ++met->spilling;
  if ((absent_behind && comes) || slow_behind) ++met->reading_back;
  return alive;
}

// The last run: delivers every message to each subscription and acks it. Returns the number of
// pending messages, or nullopt if the run failed.
std::optional<int64_t> Drain(test::ServerProcess* server, int number, HistoryWriter* history) {
  const auto run = static_cast<uint32_t>(number);
  history->Add({.run = run, .what = What::kStart});
  if (!StartRun(server, number)) return std::nullopt;
  std::vector<std::unique_ptr<SubscriberClient>> subscribers;
  for (int i = 0; i < kSubscriptions; ++i) {
    subscribers.push_back(Subscribe(
        *server, run, i, {.credit = 1'000, .acks = 100, .nacks = 0, .breaks = 0}, 1, history));
  }
  const auto admin = v1::Admin::NewStub(server->Connect());
  const int64_t begun = SteadyMillis();
  const auto quiet = [&subscribers] {
    return std::all_of(subscribers.begin(), subscribers.end(), [](const auto& subscriber) {
      return SteadyMillis() - subscriber->last_received_ms() > kQuietMs;
    });
  };
  while (!quiet() && SteadyMillis() - begun < kDrainTimeoutMs) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  const int64_t pending = Pending(admin.get());
  subscribers.clear();
  history->Add({.run = run, .what = What::kDrained});
  const auto exit = server->Stop();
  std::printf("drain: %lld pending, %.1f s\n", static_cast<long long>(pending),
              static_cast<double>(SteadyMillis() - begun) / 1'000);
  if (pending < 0 || !exit.has_value() || exit->code != 0) return std::nullopt;
  return pending;
}

// Fewer events would mean that the run proves nothing.
bool EnoughKills(int cycles, const Met& met) {
  std::printf("killed with messages on disk: no stream there %d times, a stream %d times\n",
              met.spilling, met.reading_back);
  return met.spilling >= cycles / 10 && met.reading_back >= cycles / 10;
}

int Main(const KillOptions& options) {
  std::printf("seed %llu, %d cycles, %d shards\n", static_cast<unsigned long long>(options.seed),
              options.cycles, options.shards);
  std::fflush(stdout);
  std::mt19937_64 random(options.seed);
  test::ServerProcess server(
      DaemonOptions(options, {"--drain-grace-ms=300", "--low-watermark-period-ms=10",
                              "--due-idle-max=10", "--due-max=1000", "--spill-age-ms=1000"}));
  HistoryWriter history(test::HistoryPath());
  Met met;
  for (int run = 1; run <= options.cycles; ++run) {
    if (!RunOnce(&server, run, &random, &history, &met)) return KeepUnjudged(&history);
  }
  const std::optional<int64_t> pending = Drain(&server, options.cycles + 1, &history);
  if (!pending.has_value()) return KeepUnjudged(&history);
  const bool enough = EnoughKills(options.cycles, met);
  const int64_t cycles = options.cycles;
  const int code = JudgeAndKeep(&history,
                                {.subscriptions = kSubscriptions,
                                 .minimum = {.scheduled = 20 * cycles,
                                             .redelivered_by_later_run = cycles / 4 * 3,
                                             .acked_in_several_runs = cycles,
                                             .kills = cycles}},
                                /*keep=*/*pending > 0 || !enough);
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  if (*pending > 0 || code == 1) return 1;
  return enough ? code : 2;
}

}  // namespace
}  // namespace duetime::crash

int main(int argc, char** argv) {
  auto options = duetime::crash::DefaultKillOptions(60);
  CLI::App app("Kills the daemon while its subscriptions are behind, and judges what they saw.");
  duetime::crash::AddKillOptions(&app, &options);
  CLI11_PARSE(app, argc, argv);
  return duetime::crash::Main(options);
}
