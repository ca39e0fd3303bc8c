// SPDX-License-Identifier: Apache-2.0
//
// GatewayOptions: the knobs of a gateway.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duetime::gateway {

struct GatewayOptions {
  // One text for each cell, see CellMap. Empty: this daemon is no gateway.
  std::vector<std::string> gateway_cells;
  // How long a call without a deadline, or with a longer one, waits for a cell.
  uint64_t gateway_wait_ms = 10'000;
  // The bytes of requests whose answers are not known yet. Beyond them, calls are refused.
  uint64_t gateway_open_bytes_max = 256 << 20;
};

}  // namespace duetime::gateway
