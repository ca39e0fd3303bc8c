// SPDX-License-Identifier: Apache-2.0
//
// The checks of `duetime doctor`. Pure functions: each looks at facts and says what they mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/cpp/channel.h"
#include "duetime/v1/access.pb.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/message.pb.h"
#include "duetime/v1/recurrence.pb.h"

namespace duetime::cli {

// The result of one check.
struct Finding {
  enum class Level { kOk, kWarning, kBad };

  Level level = Level::kOk;
  // The name of the check: "clock".
  std::string check{};
  // What the check found, as words that never change: "clock-ahead". RUNBOOK.md lists the ids.
  // Empty if all is well.
  std::string id{};
  // The finding with its numbers and names, for people.
  std::string text{};
  // What to do, as one sentence. Empty if all is well.
  std::string advice{};
};
using Findings = std::vector<Finding>;

Finding Warning(std::string check, std::string id, std::string text, std::string advice);
Finding Bad(std::string check, std::string id, std::string text, std::string advice);

std::string LevelText(Finding::Level level);

// ---- Facts that the server tells.

Finding CheckAddress(const client::ServerAddress& address);
// `client_version` is the version of this program.
Findings CheckServerInfo(const v1::ServerInfoResponse& info, absl::string_view client_version);
// Whether all cells of a gateway answer. OK for one server.
Finding CheckGateway(const v1::ServerInfoResponse& info);
// The server's time minus this machine's time, known up to `precision`.
Finding CheckOffset(absl::Duration offset, absl::Duration precision);

// The end of the server's TLS certificate.
Finding CheckCertificate(absl::Time end, absl::Time now);
// Whether the server accepts the client's credentials, and as which client: its answer to whether
// the client may operate it.
Finding CheckIdentity(const absl::StatusOr<v1::CheckAccessResponse>& answer);

// The topics and their subscriptions.
Findings CheckTopics(const std::vector<v1::Topic>& topics,
                     const std::vector<v1::Subscription>& subscriptions);

// The recurrences that are stalled, of as many as there are in `info`, and those that a wrong clock
// had made.
Findings CheckRecurrences(const v1::ServerInfoResponse& info,
                          const std::vector<v1::Recurrence>& stalled);

// The bulk operations that began more than a minute before `server_time` and have not started
// everywhere. At most one finding.
Findings CheckOperations(const std::vector<v1::Operation>& operations, absl::Time server_time);

// The subscriptions, with their counts, whose messages have been due for more than a minute at
// `server_time` while nothing reads them. A paused subscription is no finding. At most one finding.
Findings CheckReaders(const std::vector<v1::Topic>& topics,
                      const std::vector<v1::Subscription>& subscriptions, absl::Time server_time);

// The subscriptions, with their counts. A key of a few messages is work as usual, and no finding.
Findings CheckHeldKeys(const std::vector<v1::Subscription>& subscriptions);

// Messages that are due, of these subscriptions: those that were delivered often and are not
// settled. At most one finding for each topic.
Findings CheckFailing(const std::vector<v1::Message>& messages,
                      const std::vector<v1::Subscription>& subscriptions);

// ---- Facts of this machine.

// The state of the kernel's clock, as adjtimex() tells.
struct KernelClock {
  bool synchronised = false;
  absl::Duration error_max{};
};
Finding CheckKernelClock(const KernelClock& clock);

// The disk of the data directory.
struct DiskFacts {
  int64_t free_bytes = 0;
  int64_t size_bytes = 0;
  // The directory is in memory, so that its files end with the machine.
  bool in_memory = false;
  // How long some synced writes took. Empty if no file could be written.
  std::vector<absl::Duration> syncs{};
};
Findings CheckDisk(const DiskFacts& disk);

// The process that uses the data directory.
struct ProcessFacts {
  int64_t open_files_max = 0;
  int64_t resident_bytes = 0;
  // The least of the machine's memory and the limits of the process's control groups.
  int64_t memory_max = 0;
  int64_t threads = 0;
  // The cores that the process may use.
  int64_t cores = 0;
};
// `shards` are those of the server, or 0 if it does not tell.
Findings CheckProcess(const ProcessFacts& process, int64_t shards);

}  // namespace duetime::cli
