// SPDX-License-Identifier: Apache-2.0
//
// The command top.
#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/sampler.h"
#include "client/cli/commands/top_screen.h"
#include "client/cli/connection/connection_error.h"
#include "client/cli/show.h"
#include "client/cli/terminal/screen.h"
#include "client/cli/terminal/signals.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;

// A server that does not answer must not keep the user from leaving.
constexpr absl::Duration kDeadlineMax = absl::Seconds(2);
constexpr char kKeys[] = "order: r rate, l late, d due, p pending, n name; q ends";

std::string LineJson(const TopicLine& line) {
  nlohmann::ordered_json json = {{"topic", line.name},      {"pending", line.pending},
                                 {"due", line.due},         {"in_flight", line.in_flight},
                                 {"streams", line.streams}, {"note", line.note}};
  if (line.delivered_rate) json["delivered_per_second"] = *line.delivered_rate;
  if (line.acked_rate) json["acked_per_second"] = *line.acked_rate;
  if (line.late) json["late_seconds"] = absl::ToDoubleSeconds(*line.late);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

struct View {
  Order order = Order::kRate;
  absl::Duration interval{};
};

// Prints one screen, whose rates are those of one interval.
ExitCode ShowOnce(const Settings& settings, const View& view, Sampler* sampler, Signals* signals) {
  const absl::StatusOr<Sample> before = sampler->Read();
  if (!before.ok()) return Fail(settings, before.status());
  signals->Wait(view.interval);
  const absl::StatusOr<Sample> now = sampler->Read();
  if (absl::IsCancelled(now.status())) return kDone;
  if (!now.ok()) return Fail(settings, now.status());
  if (settings.json) {
    for (const TopicLine& line : MakeLines(&*before, *now, view.order)) Print(LineJson(line));
  } else {
    Print(ScreenText(settings.server.target, &*before, *now, view.order, "",
                     {.width = 1'000, .height = 10'000}));
  }
  return kDone;
}

// The live screen.
class Top {
 public:
  Top(const Settings& settings, const View& view, Sample first, Sampler* sampler, Signals* signals)
      : settings_(settings),
        view_(view),
        now_(std::move(first)),
        sampler_(sampler),
        signals_(signals) {}

  void Run() {
    absl::Time next = absl::Now() + view_.interval;
    while (!ended_ && !signals_->Interrupted() && base::OutputStatus().ok()) {
      Draw();
      WaitForInput(next - absl::Now());
      if (absl::Now() < next) continue;
      ReadSample();
      next = absl::Now() + view_.interval;
    }
  }

 private:
  void Draw() {
    screen_.Draw(ScreenText(settings_.server.target, before_.has_value() ? &*before_ : nullptr,
                            now_, view_.order, error_, Screen::Size()) +
                 kKeys);
  }

  // Keeps the last sample if the server does not answer.
  void ReadSample() {
    absl::StatusOr<Sample> sample = sampler_->Read();
    if (sample.ok()) {
      before_ = std::exchange(now_, *std::move(sample));
      error_.clear();
    } else {
      error_ = ReasonText(NamedConnectionError(settings_.server, sample.status()),
                          settings_.server.target);
    }
  }

  // Returns after a key, a signal, or `timeout`.
  void WaitForInput(absl::Duration timeout) {
    pollfd inputs[] = {{.fd = signals_->fd(), .events = POLLIN, .revents = 0},
                       {.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
    const int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1)));
    if (poll(inputs, 2, static_cast<int>(std::max<int64_t>(ms, 0))) <= 0) return;
    if (inputs[0].revents != 0) TakeSignal();
    if (inputs[1].revents != 0) TakeKey();
  }

  void TakeSignal() {
    const int signal = signals_->Wait(absl::ZeroDuration());
    if (signal == SIGTSTP) screen_.Suspend();
    if (signal == SIGHUP) ended_ = true;
    // SIGWINCH needs nothing more: the next Draw uses the new size.
  }

  void TakeKey() {
    char key = 'q';
    // A terminal that has gone ends the command like the key.
    if (read(STDIN_FILENO, &key, 1) < 0 && errno == EINTR) return;
    if (key == 'q') ended_ = true;
    view_.order = OrderOf({&key, 1}).value_or(view_.order);
  }

  const Settings& settings_;
  View view_;
  std::optional<Sample> before_;
  Sample now_;
  std::string error_;
  Sampler* const sampler_;
  Signals* const signals_;
  const bool has_keys_ = isatty(STDIN_FILENO) != 0;
  bool ended_ = false;
  Screen screen_;
};

ExitCode RunTop(const Settings& settings, const Input& input) {
  Signals signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH});
  const View view = {.order = *OrderOf(input.Text("--order")),
                     .interval = *input.Duration("--interval")};
  Settings impatient = settings;
  impatient.deadline = std::min(settings.deadline, kDeadlineMax);
  return With<Client>(impatient, [&](Client* client) {
    return With<AdminClient>(impatient, [&](AdminClient* admin) {
      Sampler sampler(client, admin, input.Text("PREFIX"), &signals);
      if (input.Has("--once") || settings.json || isatty(STDOUT_FILENO) == 0) {
        return ShowOnce(settings, view, &sampler, &signals);
      }
      absl::StatusOr<Sample> first = sampler.Read();
      if (!first.ok()) return Fail(settings, first.status());
      Top(settings, view, *std::move(first), &sampler, &signals).Run();
      return kDone;
    });
  });
}

absl::Status CheckView(Input* input) {
  if (!OrderOf(input->Text("--order")).has_value()) {
    return absl::InvalidArgumentError("--order is rate, late, due, pending or name");
  }
  return *input->Duration("--interval") >= absl::Milliseconds(100)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("--interval is at least 100ms");
}

}  // namespace

Command TopCommand() {
  return {"top",
          "Show the topics by rate, lateness and backlog, live",
          "Keys: r, l, d, p and n order by rate, lateness, due and pending messages, and name; q "
          "ends. LATE is\nfor how long the oldest message that a subscription waits for has been "
          "due. At "
          "most 200 topics are read:\nname a prefix if there are more.",
          {"", "shop/ --order late", "--once --json"},
          {Row("", "PREFIX", "Only topics whose names begin with this"),
           Row("", "--order", "The order: rate, late, due, pending or name", {Default("rate")}),
           Row("", "--interval", "The time between two looks, over which rates are counted: 2s",
               {Type(Row::Type::kDuration), Default("2s")}),
           Row("", "--once", "Print one screen and end, for scripts", {Type(Row::Type::kFlag)})},
          Action{.run = RunTop}.After(CheckView)};
}

}  // namespace duetime::cli
