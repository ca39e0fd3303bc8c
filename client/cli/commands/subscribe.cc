// SPDX-License-Identifier: Apache-2.0
//
// The command subscribe.
#include <chrono>
#include <cstdint>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <time.h>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/connection/connection_error.h"
#include "client/cli/show.h"
#include "client/cpp/subscriber.h"

namespace duetime::cli {
namespace {

// The pause between two checks for the end of the work. A signal ends the pause.
constexpr timespec kSignalInterval = {.tv_sec = 0, .tv_nsec = 50'000'000};

// Prints deliveries.
class Printer {
 public:
  Printer(const Settings& settings, const Input& input)
      : settings_(settings),
        quiet_(input.Has("--quiet")),
        settlement_(ReadSettlement(input).value()) {}

  // Several threads call Handle at once.
  client::Settlement Handle(const client::Delivery& delivery) const {
    if (quiet_) return settlement_;
    if (Print(settings_.json ? JsonLine(delivery.proto())
                             : DeliveryText(delivery, absl::Now(), settings_.zone))) {
      return settlement_;
    }
    // Another subscriber gets the message that was not written. The signal wakes RunSubscribe,
    // which ends the command.
    kill(getpid(), SIGTERM);
    return client::Settlement::Release();
  }

 private:
  const Settings& settings_;
  const bool quiet_;
  const client::Settlement settlement_;
};

// Prints on stderr that a stream is open, and with the first one the note. To be called by one
// thread at a time.
class ConnectText {
 public:
  ConnectText(const Settings& settings, const v1::GetSubscriptionRequest& names, std::string note)
      : text_(absl::StrCat("subscribed to ", names.topic(), "/",
                           names.name().empty() ? "default" : names.name(), " at ",
                           settings.server.target)),
        note_(std::move(note)) {}
  void operator()(const v1::SubscribeStarted&) {
    PrintError(absl::StrCat(text_, note_.empty() ? "" : "; ", note_, "\n"));
    note_.clear();
  }

 private:
  std::string text_;
  std::string note_;
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
  options.max_deliveries = input.Has("--max") ? input.Number("--max") : 0;
  options.max_outstanding_messages =
      static_cast<int>(input.Has("--credit") ? input.Number("--credit") : 0);
  // on_connect and on_disconnect print it.
  options.log = [](absl::LogSeverity, const std::string&) {};
  options.on_disconnect = [settings](const absl::Status& why) {
    const absl::Status status = NamedConnectionError(settings.server, why);
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

  client::SubscriberOptions options = MakeOptions(settings, input);
  v1::GetSubscriptionRequest read;
  read.set_topic(options.topic);
  read.set_name(options.subscription);
  const absl::StatusOr<std::string> note = LookAtSubscription(settings, input, read);
  if (!note.ok()) return Fail(settings, note.status());
  if (!settings.json && !input.Has("--quiet")) {
    options.on_connect = ConnectText(settings, read, *note);
  }
  const Printer printer(settings, input);
  auto subscriber = client::Subscriber::Start(
      options, [&printer](const client::Delivery& delivery) { return printer.Handle(delivery); });
  if (!subscriber.ok()) return Fail(settings, subscriber.status());

  const auto start = std::chrono::steady_clock::now();
  const absl::Duration time_max = input.Duration("--for").value_or(absl::InfiniteDuration());
  bool signalled = false;
  while (!signalled && !(*subscriber)->WaitUntilEnded(absl::ZeroDuration()) &&
         absl::FromChrono(std::chrono::steady_clock::now() - start) < time_max) {
    signalled = sigtimedwait(&signals, nullptr, &kSignalInterval) > 0;
  }
  (*subscriber)->Stop().IgnoreError();  // The counts show the unconfirmed settlements.

  const client::SubscriberCounts counts = (*subscriber)->counts();
  const std::string totals = settings.json ? CountsJson(counts) : CountsText(counts);
  if (input.Has("--quiet")) {
    Print(totals);
  } else {
    PrintError(totals);
  }
  const absl::Status ended = (*subscriber)->status();
  if (!ended.ok()) return Fail(settings, ended);
  if (counts.streams == 0 && !signalled) {
    return Fail(settings, absl::UnavailableError("the subscriber never connected"));
  }
  const bool too_few = input.Has("--max") && counts.delivered < input.Number("--max");
  return too_few && !signalled ? kNotAsWished : kDone;
}

}  // namespace duetime::cli
