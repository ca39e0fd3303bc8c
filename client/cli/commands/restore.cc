// SPDX-License-Identifier: Apache-2.0
//
// The commands for a server whose data directory was made from a backup.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/pager.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;
using TopicPages = client::PageReader<v1::ListTopicsRequest, v1::ListTopicsResponse>;

// The names of the topics that wait.
absl::StatusOr<Names> TopicsPausedByRestore(AdminClient* client) {
  Names paused;
  TopicPages pages({}, [client](const auto& request) { return client->ListTopics(request); });
  for (;;) {
    const auto page = pages.Next();
    if (!page.ok()) return page.status();
    if (!page->has_value()) return paused;
    for (const v1::Topic& topic : (*page)->topics()) {
      if (topic.paused_by_restore()) paused.push_back(topic.name());
    }
  }
}

// When the first pending message of a topic is due; "-" if there is none.
absl::StatusOr<std::string> OldestText(const Settings& settings, Client* client,
                                       const std::string& topic) {
  v1::ListRequest request;
  request.set_topic(topic);
  request.set_page_size(1);
  const auto page = client->List(request);
  if (!page.ok()) return page.status();
  if (page->messages().empty()) return std::string("-");
  return FormatTimeText(client::FromProto(page->messages(0).deliver_time()), settings.zone);
}

ExitCode ShowStatus(const Settings& settings, Client* client, AdminClient* admin) {
  const auto info = client->ServerInfo();
  if (!info.ok()) return Fail(settings, info.status());
  const auto names = TopicsPausedByRestore(admin);
  if (!names.ok()) return Fail(settings, names.status());
  std::vector<v1::Topic> paused;
  for (const std::string& name : *names) {
    v1::GetTopicRequest request;
    request.set_name(name);
    absl::StatusOr<v1::Topic> topic = admin->GetTopic(request);
    if (!topic.ok()) return Fail(settings, topic.status());
    paused.push_back(*std::move(topic));
  }
  if (settings.json) {
    for (const v1::Topic& topic : paused) Print(JsonLine(topic));
    return kDone;
  }
  if (!info->has_restored()) {
    Print("this server was not restored from a backup\n");
    return kDone;
  }
  Print(absl::StrCat(
      "restored from a backup of ",
      FormatTimeText(client::FromProto(info->restored().snapshot_time()), settings.zone), ", on ",
      FormatTimeText(client::FromProto(info->restored().restore_time()), settings.zone), "\n"));
  if (paused.empty()) {
    Print("no topic waits\n");
    return kDone;
  }
  std::vector<std::vector<std::string>> lines;
  for (const v1::Topic& topic : paused) {
    const auto oldest = OldestText(settings, client, topic.name());
    if (!oldest.ok()) return Fail(settings, oldest.status());
    lines.push_back({topic.name(), absl::StrCat(topic.counts().pending()),
                     absl::StrCat(topic.counts().due()), *oldest});
  }
  Print(TableText({"TOPIC", "PENDING", "OVERDUE", "FIRST DUE"}, lines));
  Print(
      "\nthese topics deliver nothing until duetime restore release; what was due after the backup "
      "may have been\ndelivered by the original server\n");
  return kDone;
}

ExitCode Status(const Settings& settings, const Input&) {
  return With<AdminClient>(settings, [&](AdminClient* admin) {
    return With<Client>(settings,
                        [&](Client* client) { return ShowStatus(settings, client, admin); });
  });
}

// Ends the messages of a topic that are due before the time of the request. Returns their number.
absl::StatusOr<int64_t> Drop(const Settings& settings, const v1::StartBulkRequest& request,
                             AdminClient* client) {
  absl::StatusOr<v1::Operation> operation = client->StartBulk(request);
  if (operation.ok()) operation = WaitForEnd(settings, client, *std::move(operation));
  if (!operation.ok()) return operation.status();
  if (operation->state() != v1::Operation::STATE_DONE) {
    return absl::AbortedError(absl::StrCat("the operation ", operation->name(), " did not end"));
  }
  return operation->changed();
}

absl::Status ReleaseTopic(const Settings& settings, const v1::StartBulkRequest& request,
                          AdminClient* client) {
  std::string dropped;
  if (request.filter().has_end_time()) {
    const absl::StatusOr<int64_t> count = Drop(settings, request, client);
    if (!count.ok()) return count.status();
    dropped = absl::StrCat(*count, " messages are dropped, ");
  }
  v1::ResumeTopicRequest resume;
  resume.set_name(request.topic());
  const auto resumed = client->ResumeTopic(resume);
  if (!resumed.ok()) return resumed.status();
  Print(settings.json ? JsonLine(*resumed)
                      : absl::StrCat(request.topic(), ": ", dropped, "it delivers again\n"));
  return absl::OkStatus();
}

ExitCode Release(const Settings& settings, const Input& input, const v1::StartBulkRequest& asked,
                 AdminClient* client) {
  const auto paused = TopicsPausedByRestore(client);
  if (!paused.ok()) return Fail(settings, paused.status());
  bool found = false;
  for (const std::string& topic : *paused) {
    if (!input.Has("--all") && topic != asked.topic()) continue;
    found = true;
    v1::StartBulkRequest request = asked;
    request.set_topic(topic);
    if (absl::Status status = ReleaseTopic(settings, request, client); !status.ok()) {
      return Fail(settings, status);
    }
  }
  if (found) return kDone;
  PrintError(input.Has("--all") ? "no topic waits\n"
                                : absl::StrCat("topic ", asked.topic(), " does not wait\n"));
  return kNotAsWished;
}

absl::Status CheckRelease(Input* input) {
  auto* const request = input->Mutable<v1::StartBulkRequest>();
  request->set_action(v1::BULK_ACTION_PURGE);
  if (request->topic().empty() != input->Has("--all")) {
    return absl::InvalidArgumentError("name one topic, or --all");
  }
  if (request->filter().has_end_time() == input->Has("--deliver")) {
    return absl::InvalidArgumentError(
        "say what happens to what is due: --deliver, or --drop-before TIME");
  }
  return absl::OkStatus();
}

}  // namespace

Commands RestoreCommands() {
  return {
      {"restore",
       "After a start from a backup: show what waits, and let topics deliver again",
       "duetimed --restore makes a data directory from a backup. A server that starts there holds "
       "all topics, because the\noriginal may have delivered some of their messages after the "
       "backup. Each command has its own help.",
       {"status", "release orders --drop-before \"2026-12-24 18:00\""}},
      {"restore status",
       "List the topics that wait, with what is overdue",
       "",
       {""},
       {},
       {.run = Status}},
      {"restore release",
       "Let a topic deliver again",
       "To keep messages apart instead of dropping them, set a retention with the policy "
       "dead-letter on the subscriptions\nbefore you release the topic: see duetime subscription "
       "update --help.",
       {"orders --deliver", "orders --drop-before \"2026-12-24 18:00\"", "--all --deliver"},
       {Row("topic", "TOPIC", "The topic"),
        Row("", "--all", "All topics that wait", {Type(Row::Type::kFlag)}),
        Row("", "--deliver", "Deliver all messages, also those that are overdue",
            {Type(Row::Type::kFlag)}),
        Row("filter.end_time", "--drop-before",
            "End the messages that are due before this time, and deliver the others: \"2026-12-24 "
            "18:00\", now, -1h")},
       Do<AdminClient, v1::StartBulkRequest>(Release).After(CheckRelease)},
  };
}

}  // namespace duetime::cli
