// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the reader of the configuration file.
#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "server/base/check.h"
#include "server/config/config.h"
#include "server/config/load.h"
#include "tests/fuzz/target.h"

namespace config = duetime::config;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  config::Config read;
  const absl::Status status = config::ApplyToml(input, "file", &read);
  if (!status.ok()) {
    DT_CHECK(absl::IsInvalidArgument(status));
    DT_CHECK(!status.message().empty());
    return 0;
  }
  if (!config::Validate(read).ok()) return 0;
  // What --check-config prints reads back as the same.
  const std::string printed = config::ToToml(read);
  config::Config again;
  DT_CHECK(config::ApplyToml(printed, "printed", &again).ok());
  DT_CHECK(config::ToToml(again) == printed);
  return 0;
}
