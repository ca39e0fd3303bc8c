// SPDX-License-Identifier: Apache-2.0
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
#include "client/cli/output.h"
#include "client/subscriber.h"

namespace duetime::cli {
namespace {

// How soon the end of the work is noticed. Signals are noticed at once.
constexpr timespec kGlance = {.tv_sec = 0, .tv_nsec = 50'000'000};

// Prints what arrives, up to a number of messages.
class Printer {
 public:
  Printer(const Settings& settings, const SubscribeArguments& arguments)
      : settings_(settings),
        arguments_(arguments),
        messages_max_(arguments.messages_max.value_or(INT64_MAX)) {}

  // Called by several threads at once.
  client::Settlement Handle(const client::Delivery& delivery) {
    // What came beyond the number goes back when the stream is closed.
    if (!TakeOne()) return client::Settlement::Leave();
    if (!arguments_.quiet) {
      const absl::Time received = absl::Now();
      const std::string text = settings_.json ? DeliveryJson(delivery, received)
                                              : DeliveryText(delivery, received, settings_.zone);
      // One call writes a line whole, also among threads.
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    handled_.fetch_add(1);
    return arguments_.settlement;
  }

  bool HasEnough() const { return handled_.load() == messages_max_; }

  // The subscriber's counts without what came beyond the number wanted.
  client::SubscriberCounts Counts(client::SubscriberCounts counts) const {
    counts.left -= counts.delivered - handled_.load();
    counts.delivered = handled_.load();
    return counts;
  }

 private:
  // False: enough were taken.
  bool TakeOne() {
    int64_t taken = taken_.load();
    while (taken < messages_max_) {
      if (taken_.compare_exchange_weak(taken, taken + 1)) return true;
    }
    return false;
  }

  const Settings& settings_;
  const SubscribeArguments& arguments_;
  const int64_t messages_max_;
  std::atomic<int64_t> taken_{0};
  // Printed: never more than taken.
  std::atomic<int64_t> handled_{0};
};

client::SubscriberOptions MakeOptions(const Settings& settings,
                                      const SubscribeArguments& arguments) {
  client::SubscriberOptions options;
  options.server = settings.server;
  options.topic = arguments.topic;
  options.subscription = arguments.subscription;
  options.client_id = "duetime subscribe";
  options.lease = arguments.lease;
  options.extend_max = arguments.extend_max;
  options.handler_threads = arguments.workers;
  options.max_outstanding_messages = arguments.credit;
  // Not more than is wanted: what is fetched and given back counts as an attempt.
  if (arguments.messages_max.has_value() && arguments.credit == 0) {
    options.max_outstanding_messages =
        static_cast<int>(std::min(*arguments.messages_max, int64_t{1'000}));
  }
  options.on_disconnect = [settings](const absl::Status& status) {
    std::string text =
        settings.json ? ErrorJson(status) : "duetime: the server closed the stream\n";
    if (!status.ok() && !settings.json) text = ErrorText(status, settings.server.target);
    std::fwrite(text.data(), 1, text.size(), stderr);
  };
  return options;
}

}  // namespace

ExitCode Run(const Settings& settings, const SubscribeArguments& arguments) {
  // Blocked here and in every thread to come, so that only the wait below meets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Printer printer(settings, arguments);
  auto subscriber = client::Subscriber::Start(
      MakeOptions(settings, arguments),
      [&printer](const client::Delivery& delivery) { return printer.Handle(delivery); });
  if (!subscriber.ok()) return Fail(settings, subscriber.status());

  const auto start = std::chrono::steady_clock::now();
  const absl::Duration time_max = arguments.time_max.value_or(absl::InfiniteDuration());
  bool interrupted = false;
  while (!interrupted && !printer.HasEnough() &&
         !(*subscriber)->WaitUntilEnded(absl::ZeroDuration()) &&
         absl::FromChrono(std::chrono::steady_clock::now() - start) < time_max) {
    interrupted = sigtimedwait(&signals, nullptr, &kGlance) > 0;
  }
  (*subscriber)->Stop().IgnoreError();  // The counts tell what was not confirmed.

  const client::SubscriberCounts counts = printer.Counts((*subscriber)->counts());
  const std::string totals = settings.json ? CountsJson(counts) : CountsText(counts);
  std::FILE* out = arguments.quiet ? stdout : stderr;
  std::fwrite(totals.data(), 1, totals.size(), out);
  const absl::Status ended = (*subscriber)->status();
  if (!ended.ok()) return Fail(settings, ended);
  const bool too_few = arguments.messages_max.has_value() && !printer.HasEnough() && !interrupted;
  return too_few ? kNotAsWished : kDone;
}

}  // namespace duetime::cli
