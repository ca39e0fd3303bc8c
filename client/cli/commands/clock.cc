// SPDX-License-Identifier: Apache-2.0
//
// The commands for the clock of a server with a test clock.
#include <string>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::FromProto;

std::string ClockText(const v1::Clock& clock, const absl::TimeZone& zone) {
  std::string pace = clock.frozen()       ? "stands still"
                     : clock.speed() == 1 ? "runs"
                                          : absl::StrCat("runs, ", clock.speed(), " times as fast");
  return absl::StrCat(FormatTimeText(FromProto(clock.time()), zone), ", ", pace, "\n");
}

std::string ShownText(const v1::GetClockResponse& response, const absl::TimeZone& zone) {
  return ClockText(response.clock(), zone);
}

std::string SetText(const v1::SetClockResponse& response, const absl::TimeZone& zone) {
  return ClockText(response.clock(), zone);
}

std::string StopText(const v1::Advanced& advanced) {
  switch (advanced.stop()) {
    case v1::Advanced::STOP_NOTHING:
      return "nothing more happens\n";
    case v1::Advanced::STOP_SUBSCRIBERS:
      return "stopped: subscribers hold messages that they have not settled\n";
    case v1::Advanced::STOP_TIMEOUT:
      return "stopped: the time of the call was up, and there is more to do\n";
    default:
      return "";
  }
}

std::string AdvancedText(const v1::Advanced& advanced, const absl::TimeZone& zone) {
  std::string text = ClockText(advanced.clock(), zone);
  const auto add = [&text](int64_t number, absl::string_view what) {
    if (number > 0) absl::StrAppend(&text, "  ", number, " ", what, "\n");
  };
  add(advanced.fired(), "became due");
  add(advanced.handed_out(), "handed out");
  add(advanced.acked(), "acked");
  add(advanced.nacked(), "failed");
  add(advanced.leases_lost(), "leases lost");
  add(advanced.expired(), "expired");
  add(advanced.dead_lettered(), "dead letters");
  add(advanced.dropped(), "dropped");
  for (const v1::HandOut& one : advanced.hand_outs()) {
    absl::StrAppend(&text, FormatTimeText(FromProto(one.time()), zone), "  ", one.message_id(),
                    "  ", one.topic(), one.subscription().empty() ? "" : " ", one.subscription(),
                    one.attempt() > 1 ? absl::StrCat(", attempt ", one.attempt()) : "", "\n");
  }
  const int64_t more = advanced.handed_out() - advanced.hand_outs_size();
  if (more > 0 && advanced.hand_outs_size() > 0) absl::StrAppend(&text, "and ", more, " more\n");
  return text + StopText(advanced);
}

// Makes the call, with a deadline after the timeout of the request. Exit code 3: the clock has not
// reached its target.
template <typename Request, typename Response>
Action Move(absl::StatusOr<Response> (AdminClient::*call)(const Request&)) {
  Action action;
  action.request = &Request::default_instance();
  action.run = [call](const Settings& settings, const Input& input) {
    Settings patient = settings;
    const v1::AdvanceLimits& limits = input.As<Request>().limits();
    constexpr absl::Duration kTimeout = absl::Seconds(10);
    patient.deadline += limits.has_timeout() ? FromProto(limits.timeout()) : kTimeout;
    return With<AdminClient>(patient, [&](AdminClient* client) {
      const auto response = (client->*call)(input.As<Request>());
      const ExitCode code = Show(settings, response, [&](const Response& answer) {
        return AdvancedText(answer.advanced(), settings.zone);
      });
      const bool reached =
          code != kDone || response->advanced().stop() == v1::Advanced::STOP_REACHED;
      return reached ? code : kNotAsWished;
    });
  };
  return action;
}

Rows LimitRows() {
  return {
      Row("limits.until_idle", "--until-idle",
          "Wait at each event until subscribers have settled all that they have"),
      Row("limits.end_leases", "--end-leases",
          "Let leases end whose handlers still run; otherwise the clock waits for them"),
      Row("limits.timeout", "--for", "How long the call may take: 30s (default: 10s)"),
      Row("limits.hand_outs_max", "--list",
          "How many hand-outs to list: 0 to 10000 (default: 1000)"),
  };
}

}  // namespace

Commands ClockCommands() {
  return {
      {"clock",
       "Show the clock of a server with a test clock, or move it",
       "A server with a test clock is started by duetimed --test-clock, for tests of programs that "
       "use duetime.",
       {"", "advance 48h", "next"},
       {},
       Call(&AdminClient::GetClock, ShownText)},
      {"clock advance",
       "Move the clock forward, past everything that happens until then",
       "Exit code 3: the clock is not there yet, because subscribers hold messages or the time of "
       "the call was up.",
       {"48h", "10d --until-idle", "--to 2027-03-28T01:00:00Z"},
       Join({{Row("by", "BY", "How far: 48h"), Row("to", "--to", "To this time instead")},
             LimitRows()}),
       Move(&AdminClient::Advance)},
      {"clock next",
       "Move the clock to the next time at which something happens to a message",
       "Exit code 3: nothing more happens.",
       {"", "--until 2027-12-31T00:00:00Z"},
       Join({{Row("until", "--until", "Not past this time")}, LimitRows()}),
       Move(&AdminClient::AdvanceToNext)},
      {"clock freeze",
       "Stop the clock; only clock advance and clock next move it",
       "",
       {""},
       {},
       Call(&AdminClient::SetClock, SetText).After([](Input* input) {
         input->Mutable<v1::SetClockRequest>()->set_frozen(true);
       })},
      {"clock run",
       "Let the clock run",
       "",
       {"", "--speed 60"},
       {Row("speed", "--speed", "Seconds of server time for each second: 1 to 100000")},
       Call(&AdminClient::SetClock, SetText)},
  };
}

}  // namespace duetime::cli
