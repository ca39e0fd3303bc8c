// SPDX-License-Identifier: Apache-2.0
//
// The command subscribe.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <time.h>

#include "absl/strings/str_cat.h"

#include "client/cli/commands.h"
#include "client/cli/show.h"
#include "client/cpp/subscriber.h"

namespace duetime::cli {
namespace {

// The pause between two checks for the end of the work. A signal ends the pause.
constexpr timespec kSignalInterval = {.tv_sec = 0, .tv_nsec = 50'000'000};

// Prints deliveries, up to a number of messages.
class Printer {
 public:
  Printer(const Settings& settings, const Input& input)
      : settings_(settings),
        quiet_(input.Has("--quiet")),
        settlement_(ReadSettlement(input).value()),
        messages_max_(input.Has("--max") ? input.Number("--max") : INT64_MAX) {}

  // Several threads call Handle at once.
  client::Settlement Handle(const client::Delivery& delivery) {
    if (!TakeOne()) {
      // A release before the end would only bring the message back here.
      finished_.wait(false);
      return client::Settlement::Release();
    }
    if (!quiet_) {
      // One call writes a line as a whole, also if several threads print.
      Print(settings_.json ? JsonLine(delivery.proto())
                           : DeliveryText(delivery, absl::Now(), settings_.zone));
      std::fflush(stdout);
    }
    handled_.fetch_add(1);
    return settlement_;
  }

  // The subscriber is about to stop. Messages beyond the number may go.
  void Finish() {
    finished_.store(true);
    finished_.notify_all();
  }

  bool HasEnough() const { return handled_.load() == messages_max_; }

  // Returns the subscriber's counts without the messages beyond the number.
  client::SubscriberCounts Counts(client::SubscriberCounts counts) const {
    counts.released = 0;
    counts.delivered = handled_.load();
    return counts;
  }

 private:
  // Returns false if the number is reached.
  bool TakeOne() {
    int64_t taken = taken_.load();
    while (taken < messages_max_) {
      if (taken_.compare_exchange_weak(taken, taken + 1)) return true;
    }
    return false;
  }

  const Settings& settings_;
  const bool quiet_;
  const client::Settlement settlement_;
  const int64_t messages_max_;
  std::atomic<int64_t> taken_{0};
  // Messages printed, never more than taken.
  std::atomic<int64_t> handled_{0};
  std::atomic<bool> finished_{false};
};

client::SubscriberOptions MakeOptions(const Settings& settings, const Input& input) {
  client::SubscriberOptions options;
  options.server = settings.server;
  options.topic = input.Text("TOPIC");
  options.subscription = input.Text("-s,--subscription");
  options.client_id = "duetime subscribe";
  options.lease = input.Duration("--lease").value_or(absl::ZeroDuration());
  options.extend_max = input.Duration("--extend-max").value_or(options.extend_max);
  options.handler_threads = static_cast<int>(input.Number("--workers"));
  // Without --credit, fetch no more than --max messages, so that other subscribers get the others
  // at once.
  options.max_outstanding_messages =
      static_cast<int>(input.Has("--credit") ? input.Number("--credit")
                                             : std::min(input.Number("--max"), int64_t{1'000}));
  options.on_disconnect = [settings](const absl::Status& status) {
    if (settings.json) {
      PrintError(ErrorJson(status));
    } else {
      PrintError(status.ok() ? "duetime: the server closed the stream\n"
                             : ErrorText(status, settings.server.target));
    }
  };
  return options;
}

}  // namespace

ExitCode RunSubscribe(const Settings& settings, const Input& input) {
  // Block the signals here and in every later thread, so that only the wait below gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Printer printer(settings, input);
  auto subscriber = client::Subscriber::Start(
      MakeOptions(settings, input),
      [&printer](const client::Delivery& delivery) { return printer.Handle(delivery); });
  if (!subscriber.ok()) return Fail(settings, subscriber.status());

  const auto start = std::chrono::steady_clock::now();
  const absl::Duration time_max = input.Duration("--for").value_or(absl::InfiniteDuration());
  bool signalled = false;
  while (!signalled && !printer.HasEnough() &&
         !(*subscriber)->WaitUntilEnded(absl::ZeroDuration()) &&
         absl::FromChrono(std::chrono::steady_clock::now() - start) < time_max) {
    signalled = sigtimedwait(&signals, nullptr, &kSignalInterval) > 0;
  }
  printer.Finish();
  (*subscriber)->Stop().IgnoreError();  // The counts show the unconfirmed settlements.

  const client::SubscriberCounts counts = printer.Counts((*subscriber)->counts());
  const std::string totals = settings.json ? CountsJson(counts) : CountsText(counts);
  input.Has("--quiet") ? Print(totals) : PrintError(totals);
  const absl::Status ended = (*subscriber)->status();
  if (!ended.ok()) return Fail(settings, ended);
  const bool too_few = input.Has("--max") && !printer.HasEnough() && !signalled;
  return too_few ? kNotAsWished : kDone;
}

}  // namespace duetime::cli
