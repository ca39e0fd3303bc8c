// SPDX-License-Identifier: Apache-2.0
//
// Recorder: fills the history of a console.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"

#include "client/cli/command.h"
#include "client/cli/commands/sampler.h"
#include "client/cli/console/console_address.h"
#include "client/cli/console/history.h"
#include "client/cli/console/metrics.h"

namespace duetime::cli {

// Reads the server from time to time. A console with a login has no rights of its own, so it reads
// the server's metrics only: its history has no topics, and without --metrics there is none. Used
// by one thread.
class Recorder {
 public:
  // What to read. Without `client`, the counts are those of the metrics.
  struct Sources {
    std::unique_ptr<client::Client> client;
    std::unique_ptr<client::AdminClient> admin;
    std::optional<ConsoleAddress> metrics;
  };

  // The sources of a console. Errors are those of the clients.
  static absl::StatusOr<Sources> SourcesOf(const Settings& settings, bool login,
                                           const std::optional<ConsoleAddress>& metrics);

  // The pointers outlive the recorder.
  Recorder(Sources sources, Signals* signals, History* history);

  // Reads once, for at most a few seconds; returns earlier if a signal comes.
  void Record();

 private:
  absl::StatusOr<Sample> Read(const std::string& metrics);

  const Sources sources_;
  std::optional<Sampler> sampler_;
  History* const history_;
  // The last round; absent after one that failed.
  std::optional<Sample> before_;
  Buckets late_before_;
};

}  // namespace duetime::cli
