// SPDX-License-Identifier: Apache-2.0
//
// The commands for a cell: several servers, of which one leads.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;

// A member reports every five seconds.
constexpr absl::Duration kAwayAfter = absl::Seconds(30);

std::string RoleOf(const v1::CellMember& member) {
  if (client::FromProto(member.report_age()) > kAwayAfter) return "away";
  return member.leads() ? "leads" : "follows";
}

// How far the clock is ahead of the log's, and from how many others it is apart.
std::string ClockOf(const v1::CellMember& member) {
  if (!member.has_clock_difference()) return "?";
  const absl::Duration ahead = client::FromProto(member.clock_difference());
  std::string text =
      absl::StrCat(ahead > absl::ZeroDuration() ? "+" : "", FormatDurationText(ahead));
  if (member.clocks_apart() > 0) absl::StrAppend(&text, ", apart from ", member.clocks_apart());
  return text;
}

std::string CellText(const v1::ServerInfoResponse& info) {
  int64_t groups = 0;
  for (const v1::CellMember& member : info.cell().members()) {
    groups = std::max(groups, member.groups());
  }
  std::vector<std::vector<std::string>> lines;
  for (const v1::CellMember& member : info.cell().members()) {
    const absl::Duration age =
        absl::Trunc(client::FromProto(member.report_age()), absl::Seconds(1));
    lines.push_back({member.name(), member.address(), RoleOf(member), absl::StrCat(member.epoch()),
                     absl::StrCat(groups - member.groups()),
                     absl::StrCat(FormatAgeText(age), " ago"), ClockOf(member)});
  }
  return absl::StrCat(
      info.cell().member(), " answers; ",
      info.leader_address().empty() && info.state() != v1::SERVING_STATE_SERVING
          ? "it knows no leader"
          : absl::StrCat("the leader is ",
                         info.leader_address().empty() ? "this member" : info.leader_address()),
      "\n\n",
      TableText({"MEMBER", "ADDRESS", "ROLE", "EPOCH", "BEHIND", "REPORTED", "CLOCK"}, lines));
}

std::string StateOf(const v1::GatewayCell& cell) {
  if (!cell.answers()) return "does not answer";
  return cell.complete() ? "serves" : "gets no new messages yet";
}

std::string GatewayText(const v1::ServerInfoResponse& info) {
  std::vector<std::vector<std::string>> lines;
  for (const v1::GatewayCell& cell : info.gateway_cells()) {
    std::string leader;
    for (const v1::CellMember& member : cell.cell().members()) {
      if (member.leads()) leader = member.name();
    }
    lines.push_back({cell.name(), absl::StrCat(cell.slots()), StateOf(cell), leader,
                     absl::StrCat(cell.counts().accepted()), absl::StrCat(cell.counts().acked()),
                     cell.addresses()});
  }
  return absl::StrCat(
      "a gateway answers; ACCEPTED and ACKED count since each cell's server has started\n\n",
      TableText({"CELL", "SLOTS", "STATE", "LEADER", "ACCEPTED", "ACKED", "ADDRESSES"}, lines));
}

ExitCode GatewayStatus(const Settings& settings, const v1::ServerInfoResponse& info) {
  if (settings.json) {
    for (const v1::GatewayCell& cell : info.gateway_cells()) Print(JsonLine(cell));
  } else {
    Print(GatewayText(info));
  }
  const bool all = std::all_of(info.gateway_cells().begin(), info.gateway_cells().end(),
                               [](const v1::GatewayCell& cell) { return cell.answers(); });
  return all ? kDone : kNotAsWished;
}

ExitCode CellStatus(const Settings& settings, const Input&) {
  return With<Client>(settings, [&](Client* client) {
    const auto info = client->ServerInfo();
    if (!info.ok()) return Fail(settings, info.status());
    if (info->gateway_cells_size() > 0) return GatewayStatus(settings, *info);
    if (!info->has_cell()) {
      PrintError("this server is alone: it is not a member of a cell\n");
      return kNotAsWished;
    }
    Print(settings.json ? JsonLine(info->cell()) : CellText(*info));
    return kDone;
  });
}

ExitCode HandOver(const Settings& settings, const Input&) {
  return With<AdminClient>(settings, [&](AdminClient* client) {
    const auto response = client->HandOver({});
    if (!response.ok()) return Fail(settings, response.status());
    Print(settings.json ? JsonLine(*response)
                        : "another member takes the lead: see duetime cell status\n");
    return kDone;
  });
}

}  // namespace

Commands CellCommands() {
  return {
      {"cell",
       "Several servers, of which one leads and the others take over: their state, and a hand-over",
       "",
       {"status", "transfer"}},
      {"cell status",
       "List the members, their roles, and how far they are behind; at a gateway, its cells",
       "Any member answers. BEHIND counts the records of the log that the member had not applied "
       "when it reported last,\nagainst the member that reported the most. CLOCK is how far the "
       "member's clock is "
       "ahead of the log's, at least; and\nfrom how many other members' clocks it differs by more "
       "than cell_clock_difference_max_ms.",
       {""},
       {},
       {.run = CellStatus}},
      {"cell transfer",
       "Let another member lead",
       "For maintenance of the machine that leads. Another member serves within half a second; the "
       "former leader follows.\nTo stop the leader is enough, too: it hands over first.",
       {""},
       {},
       {.run = HandOver}},
  };
}

}  // namespace duetime::cli
