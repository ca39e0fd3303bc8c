// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/findings.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "client/cli/row.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/convert.h"
#include "server/base/cores.h"

namespace duetime::cli {
namespace {

using Level = Finding::Level;

// What a check accepts without a remark.
constexpr absl::Duration kOffsetMax = absl::Milliseconds(100);
constexpr absl::Duration kPrecisionMax = absl::Milliseconds(500);
constexpr double kUseMax = 0.8;
constexpr int64_t kFreeBytesMin = int64_t{2} << 30;
constexpr double kFreePartMin = 0.1;
constexpr absl::Duration kSyncMax = absl::Milliseconds(10);
constexpr absl::Duration kSyncBad = absl::Milliseconds(100);
constexpr absl::Duration kCertificateMin = absl::Hours(21 * 24);
constexpr absl::Duration kCertificateBad = absl::Hours(3 * 24);
constexpr int64_t kOpenFilesMin = 20'000;
constexpr int64_t kWaitingForKeyMax = 1'000;
constexpr int kAttemptsMax = 9;
constexpr absl::Duration kStartMax = absl::Minutes(1);
constexpr absl::Duration kUnreadMax = absl::Minutes(1);
// Threads of the server other than those of shards and connections: its own, and those of gRPC and
// RocksDB.
constexpr int64_t kOtherThreadsMax = 60;

Finding Ok(std::string check, std::string text) {
  return {.level = Level::kOk, .check = std::move(check), .text = std::move(text)};
}
// True if only programs of this machine can reach the address.
bool IsLocal(absl::string_view target) {
  if (absl::StartsWith(target, "unix:")) return true;
  if (const size_t slash = target.rfind('/'); slash != absl::string_view::npos) {
    target.remove_prefix(slash + 1);
  }
  return absl::StartsWith(target, "localhost") || absl::StartsWith(target, "127.") ||
         absl::StartsWith(target, "[::1]");
}

Finding CheckState(const v1::ServerInfoResponse& info) {
  const absl::Duration uptime = absl::Trunc(client::FromProto(info.uptime()), absl::Seconds(1));
  switch (info.state()) {
    case v1::SERVING_STATE_SERVING:
      return Ok("server", absl::StrCat("has served for ", FormatAgeText(uptime)));
    case v1::SERVING_STATE_STORAGE_FAILED:
      return Bad("server", "storage-failed", "a write to its disk failed, and it accepts nothing",
                 "Find the cause in its log, then restart it; acknowledged messages are safe.");
    case v1::SERVING_STATE_STANDBY:
      if (info.leader_address().empty()) {
        return Warning("server", "cell-without-leader", "follows its cell, which nobody leads",
                       "Wait two seconds; if this lasts, see Cell in the runbook.");
      }
      return Ok("server", absl::StrCat("follows its cell; the leader is ", info.leader_address()));
    default:
      return Warning("server", "server-not-serving",
                     absl::StrCat("is ", WordOf(info.state()), " and accepts nothing"),
                     "Wait a moment; if this lasts, its log says what it waits for.");
  }
}

Finding CheckVersion(const v1::ServerInfoResponse& info, absl::string_view client_version) {
  if (info.version() == client_version) {
    return Ok("version", absl::StrCat("server and tool are ", client_version));
  }
  return Warning("version", "version-differs",
                 absl::StrCat("the server is ", info.version(), ", this tool is ", client_version),
                 "Install the same version of both.");
}

Finding CheckClock(const v1::ServerInfoResponse& info) {
  switch (info.clock_state()) {
    case v1::CLOCK_STATE_SET_BACK:
      return Warning("clock", "clock-set-back",
                     "the server's clock was set back, so messages that were scheduled by delay "
                     "come later",
                     "Let a time daemon slew the clock instead of stepping it; this ends by "
                     "itself.");
    case v1::CLOCK_STATE_AHEAD:
      return Bad("clock", "clock-ahead",
                 "the server's clock jumped ahead, and the server does not follow it",
                 "Set the clock right, or restart the server if the new time is right.");
    case v1::CLOCK_STATE_TEST:
      return Warning("clock", "clock-test",
                     "the server has a test clock: its time moves when a client says so",
                     "Nothing, if it is for tests; real messages need another server.");
    default:
      return Ok("clock", "the server's clock made no step");
  }
}

Finding CheckDamage(const v1::ServerInfoResponse& info) {
  if (!info.has_damage()) return Ok("data", "no damage was found since the start");
  return Bad("data", "data-damaged",
             absl::StrCat(info.damage().blocks_total(), " damaged blocks were found"),
             "See duetime damage list, copy the data directory, and follow RUNBOOK.md.");
}

Finding CheckSpace(const v1::ServerInfoResponse& info) {
  if (!info.disk_low()) return Ok("space", "the server's disk has room");
  return Bad("space", "disk-full", "the server's disk is nearly full, and it refuses new messages",
             "Free space or enlarge the volume; the server then accepts messages by itself.");
}

Finding CheckUse(const v1::ServerInfoResponse& info) {
  const v1::Counts& counts = info.counts();
  const v1::Limits& limits = info.limits();
  // What the topics leave of twice the limit.
  const int64_t names_max =
      std::max<int64_t>(int64_t{2} * limits.topics_max() - counts.topics(), 0);
  std::string deleted;
  if (counts.deleted_topics() > 0) {
    deleted =
        absl::StrCat(", ", counts.deleted_topics(), " of ", names_max, " names of deleted topics");
  }
  const std::string text =
      absl::StrCat(counts.topics(), " of ", limits.topics_max(), " topics", deleted, ", ",
                   counts.streams(), " of ", limits.streams_max(), " streams");
  const auto near = [](int64_t count, int64_t max) {
    return static_cast<double>(count) > kUseMax * static_cast<double>(max);
  };
  if (near(counts.topics(), limits.topics_max()) || near(counts.deleted_topics(), names_max) ||
      near(counts.streams(), limits.streams_max())) {
    return Warning("limits", "limit-near", text,
                   "Raise topics_max or streams_max in the server's configuration before the "
                   "limit is reached.");
  }
  return Ok("limits", text);
}

Finding CheckRepeats(const v1::ServerInfoResponse& info) {
  const absl::Duration kept = client::FromProto(info.limits().request_retention());
  if (kept > absl::ZeroDuration()) {
    return Ok("repeats",
              absl::StrCat("a repeated request is recognised for ", FormatDurationText(kept)));
  }
  return Warning("repeats", "request-retention-off",
                 "a client that repeats a request can make a second message",
                 "Set request_retention_ms in the server's configuration.");
}

// "3 of 5 topics (a, b, ...)"
std::string SomeText(const std::vector<std::string>& names, size_t all, absl::string_view noun) {
  constexpr size_t kNamesMax = 3;
  std::string text = absl::StrCat(names.size(), " of ", all, " ", noun, " (");
  for (size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", Printable(names[i]));
  }
  return absl::StrCat(text, names.size() > kNamesMax ? ", ...)" : ")");
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(duration));
}

Finding CheckSyncs(const DiskFacts& disk) {
  if (disk.in_memory) {
    return Bad("fsync", "data-dir-in-memory",
               "the data directory is in memory, and a restart of the machine loses it",
               "Use a directory on a disk.");
  }
  if (disk.syncs.empty()) {
    return Warning("fsync", "data-dir-not-writable",
                   "no file could be written to the data directory",
                   "Run this as the user of the server.");
  }
  std::vector<absl::Duration> sorted = disk.syncs;
  std::sort(sorted.begin(), sorted.end());
  const absl::Duration median = sorted[sorted.size() / 2];
  const std::string text = absl::StrCat("a synced write takes ", Milliseconds(median), ", at most ",
                                        Milliseconds(sorted.back()), " of ", sorted.size());
  const std::string advice =
      "Each answer waits for one: use a local SSD, best with power-loss protection.";
  if (median > kSyncBad) return Bad("fsync", "disk-sync-slow", text, advice);
  return median > kSyncMax ? Warning("fsync", "disk-sync-slow", text, advice) : Ok("fsync", text);
}

Finding CheckCores(const ProcessFacts& process, int64_t shards) {
  const std::string text = absl::StrCat("the server has ", process.threads, " threads, ", shards,
                                        " of them for shards, on ", process.cores,
                                        process.cores == 1 ? " core" : " cores");
  const auto fit = static_cast<int64_t>(base::ThreadsThatFit(static_cast<size_t>(process.cores)));
  if (shards > fit) {
    return Warning("cores", "more-shards-than-cores", text,
                   "Give it more cores, or move its messages to a new data directory (export, "
                   "import): the number of shards never changes.");
  }
  if (process.threads > kOtherThreadsMax + 2 * fit) {
    return Warning("cores", "more-threads-than-cores", text,
                   "Lower io_threads, or give it more cores.");
  }
  return Ok("cores", text);
}

}  // namespace

Finding Warning(std::string check, std::string id, std::string text, std::string advice) {
  return {Level::kWarning, std::move(check), std::move(id), std::move(text), std::move(advice)};
}

Finding Bad(std::string check, std::string id, std::string text, std::string advice) {
  return {Level::kBad, std::move(check), std::move(id), std::move(text), std::move(advice)};
}

std::string LevelText(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarning:
      return "warning";
    case Level::kBad:
      return "bad";
  }
  return "";
}

Finding CheckAddress(const client::ServerAddress& address) {
  const bool tls = !address.tls_ca_file.empty() || !address.tls_cert_file.empty();
  if (tls && !address.tls_cert_file.empty()) return Ok("access", "TLS, with a certificate of ours");
  if (IsLocal(address.target)) {
    return Ok("access", absl::StrCat(address.target, " is an address of this machine"));
  }
  if (!tls) {
    return Bad("access", "access-without-tls",
               "the server accepts connections of other machines without TLS: everyone who "
               "reaches it can read, cancel and settle every message",
               "Set tls_cert, tls_key and tls_client_ca in the server's configuration, or listen "
               "on 127.0.0.1.");
  }
  return Warning("access", "access-without-client-certificate",
                 "TLS, but the server asks for no certificate: everyone who reaches it can read, "
                 "cancel and settle every message",
                 "Set tls_client_ca in the server's configuration.");
}

Findings CheckServerInfo(const v1::ServerInfoResponse& info, absl::string_view client_version) {
  Findings findings = {CheckState(info),  CheckVersion(info, client_version),
                       CheckClock(info),  CheckDamage(info),
                       CheckSpace(info),  CheckUse(info),
                       CheckRepeats(info)};
  if (info.gateway_cells_size() > 0) findings.push_back(CheckGateway(info));
  return findings;
}

Finding CheckGateway(const v1::ServerInfoResponse& info) {
  std::vector<std::string> missing;
  for (const v1::GatewayCell& cell : info.gateway_cells()) {
    if (!cell.answers()) missing.push_back(cell.name());
  }
  if (missing.empty()) {
    return Ok("cells", absl::StrCat("all ", info.gateway_cells_size(), " cells answer"));
  }
  return Bad("cells", "gateway-cell-away",
             absl::StrCat("no answer from: ", absl::StrJoin(missing, ", ")),
             "see duetime cell status; ask their members by their own addresses");
}

Finding CheckOffset(absl::Duration offset, absl::Duration precision) {
  const absl::Duration distance = absl::AbsDuration(offset);
  // A slow answer says when the server had the time only roughly.
  if (precision > kPrecisionMax) {
    return Ok("offset", absl::StrCat("the server's time is not known: its answer took ",
                                     Milliseconds(2 * precision)));
  }
  if (distance <= kOffsetMax + precision) {
    return Ok("offset", absl::StrCat("the server's time is this machine's, to ",
                                     Milliseconds(distance + precision)));
  }
  return Warning(
      "offset", "clock-offset",
      absl::StrCat("the server's time is ", FormatAgeText(distance),
                   offset > absl::ZeroDuration() ? " ahead of" : " behind", " this machine's"),
      "Synchronise the clocks of both machines by NTP.");
}

Finding CheckCertificate(absl::Time end, absl::Time now) {
  const absl::Duration left = end - now;
  const absl::Duration hours = absl::Trunc(absl::AbsDuration(left), absl::Hours(1));
  constexpr char kAdvice[] =
      "Put a new certificate and key in place of tls_cert and tls_key; the server reads them "
      "within two seconds.";
  if (left <= absl::ZeroDuration()) {
    return Bad("certificate", "certificate-ended",
               absl::StrCat("the server's TLS certificate ended ", FormatAgeText(hours), " ago"),
               kAdvice);
  }
  const std::string text =
      absl::StrCat("the server's TLS certificate ends in ", FormatAgeText(hours));
  if (left >= kCertificateMin) return Ok("certificate", text);
  return left < kCertificateBad ? Bad("certificate", "certificate-ends-soon", text, kAdvice)
                                : Warning("certificate", "certificate-ends-soon", text, kAdvice);
}

Finding CheckIdentity(const absl::StatusOr<v1::CheckAccessResponse>& answer) {
  if (absl::IsFailedPrecondition(answer.status())) {
    return Ok("identity", "the server asks for no token");
  }
  if (absl::IsUnauthenticated(answer.status())) {
    return Bad("identity", "credentials-refused",
               "the server refuses the credentials: " + ReasonText(answer.status(), ""),
               "Name the file of a valid token: --token-file; duetime token create makes one.");
  }
  if (!answer.ok()) {
    return Warning("identity", "identity-unknown",
                   absl::StrCat("the server did not tell it: ",
                                absl::StatusCodeToString(answer.status().code())),
                   "Look at the server's version and its log.");
  }
  return Ok("identity",
            absl::StrCat("the server knows this client as ", answer->principal(),
                         answer->allowed() ? ", which may" : ", which may not", " operate it"));
}

Findings CheckTopics(const std::vector<v1::Topic>& topics,
                     const std::vector<v1::Subscription>& subscriptions) {
  std::vector<std::string> unlimited;
  std::vector<std::string> paused;
  std::vector<std::string> endless;
  std::vector<std::string> out_of_hops;
  for (const v1::Topic& topic : topics) {
    if (topic.settings().max_pending() == 0) unlimited.push_back(topic.name());
    if (topic.settings().paused()) paused.push_back(topic.name());
  }
  for (const v1::Subscription& subscription : subscriptions) {
    const std::string name = absl::StrCat(subscription.topic(), " ", subscription.name());
    if (subscription.settings().retry().max_attempts() == 0) endless.push_back(name);
    if (subscription.settings().paused()) paused.push_back(name);
    if (subscription.counts().dead_letter_hops_refused() > 0) out_of_hops.push_back(name);
  }
  Findings all;
  all.push_back(unlimited.empty()
                    ? Ok("quotas", absl::StrCat("all of ", topics.size(), " topics have a limit"))
                    : Warning("quotas", "topic-without-limit",
                              absl::StrCat(SomeText(unlimited, topics.size(), "topics"),
                                           " accept messages until the disk is full"),
                              "Set a limit: duetime topic update NAME --max-pending N."));
  all.push_back(endless.empty()
                    ? Ok("retries", absl::StrCat("all of ", subscriptions.size(),
                                                 " subscriptions end their attempts"))
                    : Warning("retries", "subscription-without-attempt-limit",
                              absl::StrCat(SomeText(endless, subscriptions.size(), "subscriptions"),
                                           " deliver a message that fails for ever"),
                              "Set a limit: duetime subscription update TOPIC NAME "
                              "--max-attempts N."));
  if (!paused.empty()) {
    all.push_back(Warning(
        "paused", "delivery-paused",
        absl::StrCat(
            SomeText(paused, topics.size() + subscriptions.size(), "topics and subscriptions"),
            " deliver nothing"),
        "If this is not wanted: duetime topic resume NAME, or subscription resume."));
  }
  if (!out_of_hops.empty()) {
    all.push_back(Bad(
        "dead letters", "dead-letter-hops-exceeded",
        absl::StrCat(SomeText(out_of_hops, subscriptions.size(), "subscriptions"),
                     " have messages that were in 16 dead-letter topics and fail again"),
        "Look whether these topics lead back to each other (--dead-letter-topic), then settle or "
        "purge: duetime dlq list ORIGIN."));
  }
  return all;
}

Findings CheckRecurrences(const v1::ServerInfoResponse& info,
                          const std::vector<v1::Recurrence>& stalled) {
  Findings all;
  const int64_t count =
      std::max<int64_t>(info.counts().recurrences_stalled(), static_cast<int64_t>(stalled.size()));
  if (count > 0) {
    std::string text =
        absl::StrCat(count, count == 1 ? " recurrence makes" : " recurrences make", " no messages");
    if (!stalled.empty()) {
      absl::StrAppend(&text, ": ", Printable(stalled[0].name()), ", because ",
                      Printable(stalled[0].state_reason()));
    }
    all.push_back(
        Bad("recurrences", "recurrence-stalled", text,
            "Install the package tzdata for an unknown time zone, or duetime recur update "
            "NAME; then they go on by themselves."));
  }
  if (info.counts().recurrences_made_anew() > 0) {
    all.push_back(
        Warning("recurrences", "recurrence-repeated",
                absl::StrCat(
                    "the clock was ahead and was set back: ", info.counts().recurrences_made_anew(),
                    " occurrences were made anew, and some may come twice"),
                "Synchronise the clock before the server starts; its log names the recurrences."));
  }
  if (all.empty()) all.push_back(Ok("recurrences", "none is stalled"));
  return all;
}

Findings CheckOperations(const std::vector<v1::Operation>& operations, absl::Time server_time) {
  const v1::Operation* first = nullptr;
  int count = 0;
  for (const v1::Operation& operation : operations) {
    const absl::Duration age = server_time - client::FromProto(operation.create_time());
    if (operation.state() != v1::Operation::STATE_STARTING || age < kStartMax) continue;
    if (first == nullptr) first = &operation;
    ++count;
  }
  if (first == nullptr) return {};
  const std::string name = Printable(first->name());
  const std::string where = first->missing_places().empty()
                                ? "everywhere"
                                : "in " + Printable(absl::StrJoin(first->missing_places(), ", "));
  std::string text = absl::StrCat("the bulk operation ", name, " has not started ", where);
  if (count > 1) absl::StrAppend(&text, "; ", count - 1, " more like it");
  return {Warning("operations", "operation-not-started", text,
                  absl::StrCat("Repeat the command that started it, with --name ", name,
                               ", or end it: duetime bulk stop ", name, "."))};
}

Findings CheckReaders(const std::vector<v1::Topic>& topics,
                      const std::vector<v1::Subscription>& subscriptions, absl::Time server_time) {
  std::set<std::string> paused;
  for (const v1::Topic& topic : topics) {
    if (topic.settings().paused()) paused.insert(topic.name());
  }
  std::vector<std::string> unread;
  absl::Time oldest = absl::InfiniteFuture();
  int64_t messages = 0;
  for (const v1::Subscription& subscription : subscriptions) {
    const v1::SubscriptionBacklog& backlog = subscription.backlog();
    if (subscription.counts().streams() > 0 || !backlog.has_oldest_due_time()) continue;
    if (subscription.settings().paused() || paused.contains(subscription.topic())) continue;
    const absl::Time due = client::FromProto(backlog.oldest_due_time());
    if (server_time - due < kUnreadMax) continue;
    unread.push_back(absl::StrCat(subscription.topic(), " ", subscription.name()));
    messages += backlog.messages();
    oldest = std::min(oldest, due);
  }
  if (unread.empty()) return {};
  return {Warning(
      "readers", "subscription-without-reader",
      absl::StrCat(SomeText(unread, subscriptions.size(), "subscriptions"), " have no reader for ",
                   messages, " due messages, the oldest of which has waited for ",
                   FormatAgeText(absl::Trunc(server_time - oldest, absl::Seconds(1)))),
      "Start their subscribers, or delete what nothing reads: duetime subscription "
      "delete TOPIC NAME.")};
}

Findings CheckHeldKeys(const std::vector<v1::Subscription>& subscriptions) {
  Findings all;
  for (const v1::Subscription& subscription : subscriptions) {
    const v1::HeldKey& key = subscription.counts().longest_key();
    if (!key.on_disk() && key.waiting() < kWaitingForKeyMax) continue;
    all.push_back(Warning(
        "order", "ordering-key-blocked",
        absl::StrCat("in ", subscription.topic(), " ", subscription.name(), ", ",
                     key.on_disk() ? "more than " : "", key.waiting(),
                     " messages of ordering_key \"", key.ordering_key(), "\" wait for message ",
                     key.message_id()),
        absl::StrCat("See why it is not settled: duetime explain ", key.message_id(), ".")));
  }
  return all;
}

Findings CheckFailing(const std::vector<v1::Message>& messages,
                      const std::vector<v1::Subscription>& subscriptions) {
  struct Failing {
    const v1::Message* worst;
    int count = 0;
  };
  std::map<std::string, Failing> by_topic;
  for (const v1::Message& message : messages) {
    if (message.attempts() <= kAttemptsMax) continue;
    Failing& failing = by_topic.try_emplace(message.topic(), Failing{&message}).first->second;
    ++failing.count;
    if (message.attempts() > failing.worst->attempts()) failing.worst = &message;
  }
  Findings all;
  for (const auto& [topic, failing] : by_topic) {
    const v1::Message& worst = *failing.worst;
    std::string text = absl::StrCat("message ", worst.id(), " of ", topic, " was delivered ",
                                    worst.attempts(), " times and is not settled");
    if (!worst.ordering_key().empty()) {
      const auto holds = [&](const v1::Subscription& subscription) {
        return subscription.counts().longest_key().message_id() == worst.id();
      };
      const auto held = std::find_if(subscriptions.begin(), subscriptions.end(), holds);
      absl::StrAppend(&text, "; it blocks its ordering_key \"", worst.ordering_key(), "\"");
      if (held != subscriptions.end()) {
        const v1::HeldKey& key = held->counts().longest_key();
        absl::StrAppend(&text, ", for which ", key.on_disk() ? "more than " : "", key.waiting(),
                        " messages wait");
      }
    }
    if (failing.count > 1) absl::StrAppend(&text, "; ", failing.count - 1, " more like it");
    all.push_back(Warning(
        "failing", "message-failing", text,
        absl::StrCat("See why: duetime explain ", worst.id(),
                     ". Mend its handler, or end it: duetime cancel ", worst.id(),
                     " --stop-redelivery; a max_attempts makes dead letters of such messages.")));
  }
  return all;
}

Finding CheckKernelClock(const KernelClock& clock) {
  if (clock.synchronised) {
    return Ok("time sync", absl::StrCat("this machine's clock is synchronised, to ",
                                        Milliseconds(clock.error_max)));
  }
  return Warning("time sync", "clock-not-synchronised",
                 "nothing is known to synchronise this machine's clock",
                 "Run chrony or systemd-timesyncd, here or on the host of this container.");
}

Findings CheckDisk(const DiskFacts& disk) {
  const std::string text =
      absl::StrCat(BytesText(disk.free_bytes), " of ", BytesText(disk.size_bytes), " are free");
  const bool low =
      disk.free_bytes < kFreeBytesMin ||
      static_cast<double>(disk.free_bytes) < kFreePartMin * static_cast<double>(disk.size_bytes);
  return {low ? Warning("disk", "disk-space-low", text,
                        "Free space or enlarge the volume: below disk_free_min_bytes the server "
                        "refuses new messages.")
              : Ok("disk", text),
          CheckSyncs(disk)};
}

Findings CheckProcess(const ProcessFacts& process, int64_t shards) {
  Findings all;
  const std::string files = absl::StrCat("the server may open ", process.open_files_max, " files");
  all.push_back(process.open_files_max >= kOpenFilesMin
                    ? Ok("open files", files)
                    : Warning("open files", "open-files-low", files,
                              "Raise it for many connections: LimitNOFILE=65536 in the systemd "
                              "unit."));
  const std::string memory = absl::StrCat("the server uses ", BytesText(process.resident_bytes),
                                          " of ", BytesText(process.memory_max));
  all.push_back(
      static_cast<double>(process.resident_bytes) <=
              kUseMax * static_cast<double>(process.memory_max)
          ? Ok("memory", memory)
          : Warning("memory", "memory-low", memory,
                    "Give it more memory, or lower due_max and loaded_max; RUNBOOK.md has "
                    "the formula."));
  all.push_back(CheckCores(process, shards));
  return all;
}

}  // namespace duetime::cli
