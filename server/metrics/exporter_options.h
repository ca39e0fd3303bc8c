// SPDX-License-Identifier: Apache-2.0
//
// ExporterOptions: the knobs of the metrics.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace duetime::metrics {

struct ExporterOptions {
  // host:port. A name stands for all its addresses; port 0 lets the system choose. Empty: no
  // metrics.
  std::string listen = "127.0.0.1:7789";
  // Allows an address that other machines can reach.
  bool insecure_nonloopback = false;
  // See PageServer.
  size_t connections_max = 64;
  // See PairOptions.
  size_t pairs_max = 500;
  std::vector<std::string> topics = {};
  // Names of topics and subscriptions are shown even if other machines can read them.
  bool names_nonloopback = false;
};

}  // namespace duetime::metrics
