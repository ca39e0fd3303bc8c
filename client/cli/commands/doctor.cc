// SPDX-License-Identifier: Apache-2.0
//
// The command doctor.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/commands/commands.h"
#include "client/cli/commands/findings.h"
#include "client/cli/commands/host_facts.h"
#include "client/cli/connection/connection_error.h"
#include "client/cli/connection/server_certificate.h"
#include "client/cli/show.h"
#include "client/cli/terminal/colour.h"
#include "client/cli/text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/error.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using Level = Finding::Level;

// Doctor looks at no more topics, messages of a topic, and operations.
constexpr size_t kTopicsMax = 1'000;
constexpr int kMessagesMax = 1'000;
constexpr int kOperationsMax = 1'000;
constexpr int kOffsetReads = 3;
// After half of an answer that took so long, no further one is asked for.
constexpr absl::Duration kSlowAnswer = absl::Milliseconds(500);
// The columns of level and name.
constexpr int kLevelWidth = 9;
constexpr int kCheckWidth = 12;

bool NoAnswer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

void Append(const Findings& more, Findings* all) {
  all->insert(all->end(), more.begin(), more.end());
}

// Asks for the state of the server a few times, because the fastest answer shows the offset of the
// clocks best.
absl::Status CheckServer(const client::ClientOptions& options, v1::ServerInfoResponse* found,
                         Findings* all) {
  const auto client = client::Client::Create(options);
  if (!client.ok()) return client.status();
  v1::ServerInfoResponse& info = *found;
  absl::Duration offset;
  absl::Duration precision = absl::InfiniteDuration();
  for (int i = 0; i < kOffsetReads; ++i) {
    const absl::Time sent = absl::Now();
    absl::StatusOr<v1::ServerInfoResponse> answer = (*client)->ServerInfo();
    if (!answer.ok()) return answer.status();
    const absl::Duration half = (absl::Now() - sent) / 2;
    info = *std::move(answer);
    if (half >= precision) continue;
    precision = half;
    offset = client::FromProto(info.server_time()) - (sent + half);
    if (half > kSlowAnswer) break;
  }
  Append(CheckServerInfo(info, DUETIME_VERSION), all);
  if (info.clock_state() != v1::CLOCK_STATE_TEST) all->push_back(CheckOffset(offset, precision));
  return absl::OkStatus();
}

// Also when no call succeeds, because a certificate that has ended is why.
void AddCertificate(const Settings& settings, Findings* all) {
  const client::ServerAddress& server = settings.server;
  const bool tls = !server.tls_ca_file.empty() || !server.tls_cert_file.empty();
  if (!tls || absl::StartsWith(server.target, "unix:")) return;
  const auto end = ReadCertificateEnd(server.target, settings.deadline);
  // Without an answer, another finding says that the server cannot be reached.
  if (end.ok()) all->push_back(CheckCertificate(*end, absl::Now()));
}

Finding AskForIdentity(const client::ClientOptions& options) {
  const auto client = AdminClient::Create(options);
  if (!client.ok()) return CheckIdentity(client.status());
  v1::CheckAccessRequest request;
  request.set_verb(v1::ACCESS_VERB_OPERATE);
  return CheckIdentity((*client)->CheckAccess(request));
}

// A message that fails is in flight or waits for its next attempt, and it has been due for long. So
// the oldest messages of the topics that have such messages are enough.
absl::Status CheckMessages(const client::ClientOptions& options,
                           const std::vector<v1::Subscription>& subscriptions, Findings* all) {
  const auto client = client::Client::Create(options);
  if (!client.ok()) return client.status();
  std::set<std::string> topics;
  for (const v1::Subscription& subscription : subscriptions) {
    const v1::SubscriptionCounts& counts = subscription.counts();
    if (counts.delayed() + counts.in_flight() > 0) topics.insert(subscription.topic());
  }
  std::vector<v1::Message> messages;
  for (const std::string& topic : topics) {
    v1::ListRequest request;
    request.set_topic(topic);
    request.add_states(v1::Message::STATE_DUE);
    request.add_states(v1::Message::STATE_IN_FLIGHT);
    request.set_page_size(kMessagesMax);
    const absl::StatusOr<v1::ListResponse> page = (*client)->List(request);
    // The topic may have been deleted meanwhile.
    if (absl::IsNotFound(page.status())) continue;
    if (!page.ok()) return page.status();
    messages.insert(messages.end(), page->messages().begin(), page->messages().end());
  }
  Append(CheckFailing(messages, subscriptions), all);
  return absl::OkStatus();
}

absl::Status CheckAllOperations(const client::ClientOptions& options,
                                const v1::ServerInfoResponse& info, Findings* all) {
  const auto client = AdminClient::Create(options);
  if (!client.ok()) return client.status();
  v1::ListOperationsRequest request;
  request.set_page_size(kOperationsMax);
  const absl::StatusOr<v1::ListOperationsResponse> page = (*client)->ListOperations(request);
  if (!page.ok()) return page.status();
  Append(CheckOperations({page->operations().begin(), page->operations().end()},
                         client::FromProto(info.server_time())),
         all);
  return absl::OkStatus();
}

// Looks at the counts of each subscription only if `info` says that there is something to find.
absl::Status CheckAllTopics(const client::ClientOptions& options,
                            const v1::ServerInfoResponse& info, Findings* all) {
  const auto client = AdminClient::Create(options);
  if (!client.ok()) return client.status();
  v1::ListTopicsRequest request;
  request.set_page_size(kTopicsMax);
  const absl::StatusOr<v1::ListTopicsResponse> page = (*client)->ListTopics(request);
  if (!page.ok()) return page.status();
  std::vector<v1::Subscription> subscriptions;
  for (const v1::Topic& topic : page->topics()) {
    v1::ListSubscriptionsRequest of_topic;
    of_topic.set_topic(topic.name());
    const auto some = (*client)->ListSubscriptions(of_topic);
    // The topic may have been deleted meanwhile.
    if (absl::IsNotFound(some.status())) continue;
    if (!some.ok()) return some.status();
    subscriptions.insert(subscriptions.end(), some->subscriptions().begin(),
                         some->subscriptions().end());
  }
  const v1::Counts& counts = info.counts();
  if (counts.due_ready() > 0 || counts.dead_letter_hops_refused() > 0 || counts.blocked() > 0 ||
      counts.delayed() > 0 || counts.in_flight() > 0) {
    for (v1::Subscription& subscription : subscriptions) {
      v1::GetSubscriptionRequest get;
      get.set_topic(subscription.topic());
      get.set_name(subscription.name());
      auto with_counts = (*client)->GetSubscription(get);
      if (with_counts.ok()) subscription = *std::move(with_counts);
    }
  }
  Append(CheckTopics({page->topics().begin(), page->topics().end()}, subscriptions), all);
  Append(CheckReaders({page->topics().begin(), page->topics().end()}, subscriptions,
                      client::FromProto(info.server_time())),
         all);
  Append(CheckHeldKeys(subscriptions), all);
  return CheckMessages(options, subscriptions, all);
}

absl::Status CheckAllRecurrences(const client::ClientOptions& options,
                                 const v1::ServerInfoResponse& info, Findings* all) {
  std::vector<v1::Recurrence> stalled;
  if (info.counts().recurrences_stalled() > 0) {
    const auto client = AdminClient::Create(options);
    if (!client.ok()) return client.status();
    v1::ListRecurrencesRequest request;
    do {
      const auto page = (*client)->ListRecurrences(request);
      if (!page.ok()) return page.status();
      for (const v1::Recurrence& one : page->recurrences()) {
        if (one.state() == v1::Recurrence::STATE_STALLED) stalled.push_back(one);
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty() && stalled.empty());
  }
  Append(CheckRecurrences(info, stalled), all);
  return absl::OkStatus();
}

Finding FailedCall(const Settings& settings, const absl::Status& failed) {
  const absl::Status error = NamedConnectionError(settings.server, failed);
  const std::string text = ReasonText(error, settings.server.target);
  if (error != failed) {
    return Bad("server", "connection-options-wrong", text, "Change the options of the connection.");
  }
  if (client::GetErrorInfo(error).reason == "CELL_UNAVAILABLE") {
    return Bad("server", "cell-unavailable", text,
               "See duetime cell status; ask the members of the cell by their own addresses.");
  }
  if (NoAnswer(error)) {
    return Bad("server", "server-unreachable", text,
               "Start it (its log says why it stopped), or name its address: --server.");
  }
  return Bad("server", "call-failed", text,
             "If it is a right, name a token that has it: --token-file; otherwise, see the "
             "server's log.");
}

Findings CheckMachine(const std::string& data_dir, int64_t shards) {
  Findings all = {CheckKernelClock(ReadKernelClock())};
  if (data_dir.empty()) return all;
  const absl::StatusOr<DiskFacts> disk = ReadDisk(data_dir);
  if (!disk.ok()) {
    all.push_back(Bad("disk", "data-dir-unreadable", std::string(disk.status().message()),
                      "Name the data_dir of the server's configuration."));
    return all;
  }
  Append(CheckDisk(*disk), &all);
  const absl::StatusOr<ProcessFacts> process = ReadProcess(data_dir);
  if (process.ok()) {
    Append(CheckProcess(*process, shards), &all);
  } else {
    all.push_back(Warning("process", "process-unreadable", std::string(process.status().message()),
                          "Run this where the server runs, as its user or as root."));
  }
  return all;
}

std::string FindingText(const Finding& finding) {
  const std::string level = LevelText(finding.level);
  std::string text = absl::StrCat(
      PaintState(level), std::string(kLevelWidth - level.size(), ' '),
      absl::StrFormat("%-*s%s\n", kCheckWidth, finding.check, Printable(finding.text)));
  if (!finding.advice.empty()) {
    absl::StrAppend(&text, std::string(kLevelWidth + kCheckWidth, ' '), finding.advice, "\n");
  }
  return text;
}

std::string FindingJson(const Finding& finding) {
  const nlohmann::ordered_json json = {{"check", finding.check},
                                       {"id", finding.id},
                                       {"level", LevelText(finding.level)},
                                       {"text", finding.text},
                                       {"advice", finding.advice}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int64_t CountOf(Level level, const Findings& findings) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.level == level; });
}

ExitCode ShowAll(const Settings& settings, const Findings& findings) {
  for (const Finding& finding : findings) {
    Print(settings.json ? FindingJson(finding) : FindingText(finding));
  }
  if (!settings.json) {
    Print(absl::StrCat("\n", CountOf(Level::kOk, findings), " ok, ",
                       CountOf(Level::kWarning, findings), " to look at, ",
                       CountOf(Level::kBad, findings), " bad\n"));
  }
  return CountOf(Level::kBad, findings) > 0 ? kNotAsWished : kDone;
}

// One line for each finding, for programs. The exit codes are those that health checks agree on.
ExitCode ShowQuiet(const Settings& settings, const Findings& findings) {
  for (const Finding& finding : findings) {
    if (finding.level == Level::kOk) continue;
    Print(settings.json ? FindingJson(finding)
                        : absl::StrCat(finding.id, " ", LevelText(finding.level), " ",
                                       Printable(finding.text), "\n"));
  }
  if (CountOf(Level::kBad, findings) > 0) return kDoctorBad;
  return CountOf(Level::kWarning, findings) > 0 ? kDoctorWarning : kDone;
}

ExitCode RunDoctor(const Settings& settings, const Input& input) {
  client::ClientOptions options;
  options.server = settings.server;
  options.backoff = kWaits;
  options.deadline = settings.deadline;
  options.attempts_max = kTriesMax;
  Findings findings;
  v1::ServerInfoResponse info;
  absl::Status status = CheckServer(options, &info, &findings);
  AddCertificate(settings, &findings);
  if (status.ok()) findings.push_back(CheckAddress(settings.server));
  const bool refused = absl::IsUnauthenticated(status);
  // Further calls would wait for the cells that do not answer.
  const bool whole = CheckGateway(info).level == Level::kOk;
  if ((status.ok() && whole) || refused) findings.push_back(AskForIdentity(options));
  if (status.ok() && whole) status = CheckAllTopics(options, info, &findings);
  if (status.ok() && whole) status = CheckAllRecurrences(options, info, &findings);
  if (status.ok() && whole) status = CheckAllOperations(options, info, &findings);
  if (!whole) {
    findings.push_back(Warning("topics", "checks-skipped",
                               "identity, topics, messages, recurrences and operations were not "
                               "looked at, because not all cells answer",
                               "Run this again when all cells answer."));
  }
  if (!status.ok() && !refused) findings.push_back(FailedCall(settings, status));
  const std::string data_dir = input.Text("--data-dir");
  Append(CheckMachine(data_dir, info.shards()), &findings);

  const Names ignored = input.List("--ignore");
  std::erase_if(findings, [&](const Finding& finding) {
    return std::find(ignored.begin(), ignored.end(), finding.id) != ignored.end();
  });

  if (input.Has("--quiet")) return ShowQuiet(settings, findings);
  const ExitCode code = ShowAll(settings, findings);
  if (!settings.json && data_dir.empty()) {
    PrintError("on the server's machine, --data-dir also looks at its disk, files and memory\n");
  }
  return NoAnswer(status) ? kNoAnswer : code;
}

}  // namespace

Command DoctorCommand() {
  return {"doctor",
          "Look for what is wrong or set unsafely, and say what to do",
          "Prints a line for each check: ok, warning or bad. Exit code 3: something is bad. The "
          "checks of the disk\nwrite a small file to the data directory and remove it again.\n"
          "With --quiet, a line is the id, the level and the text of a warning or of something "
          "bad; the ids never\nchange. Exit code 0: nothing found, 1: warnings only, 2: something "
          "is bad, or the server does not answer.",
          {"", "--data-dir /var/lib/duetime", "--quiet", "--quiet --ignore topic-without-limit",
           "--json"},
          {Row("", "--data-dir",
               "The server's data directory: also look at its disk, open files and memory"),
           Row("", "--quiet", "Print only what was found, for cron and health checks",
               {Type(Row::Type::kFlag)}),
           Row("", "--ignore", "The id of a finding to leave out; may be repeated",
               {Type(Row::Type::kList)})},
          {.run = RunDoctor}};
}

}  // namespace duetime::cli
