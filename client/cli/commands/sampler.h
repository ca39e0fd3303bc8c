// SPDX-License-Identifier: Apache-2.0
//
// Sampler: reads the counts of a server and of its topics.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "client/cli/commands/top_screen.h"
#include "client/cli/terminal/signals.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {

// Reads samples of the first 200 topics whose names begin with a prefix: each topic costs a few
// calls. Used by one thread. The pointers outlive the sampler.
class Sampler {
 public:
  static constexpr int kTopicsMax = 200;

  Sampler(client::Client* client, client::AdminClient* admin, std::string prefix, Signals* signals)
      : client_(client), admin_(admin), prefix_(std::move(prefix)), signals_(signals) {}

  // CANCELLED if a signal came that ends the command. Other errors are those of the calls.
  absl::StatusOr<Sample> Read();

 private:
  absl::StatusOr<TopicSample> ReadTopic(const std::string& name);

  client::Client* const client_;
  client::AdminClient* const admin_;
  const std::string prefix_;
  Signals* const signals_;
};

}  // namespace duetime::cli
