// SPDX-License-Identifier: Apache-2.0
//
// The settings of librdkafka that follow from KafkaOptions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/kafka/kafka_options.h"

namespace duetime::kafka {

// Room for Kafka's frame around an entry: 61 bytes for the batch, and up to 30 for the record.
// Compression adds nothing: librdkafka sends bytes that it cannot compress as they are.
inline constexpr uint64_t kFrameBytes = 1'024;

using Settings = std::vector<std::pair<std::string, std::string>>;

// INVALID_ARGUMENT names the option and its limits.
absl::Status CheckOptions(const KafkaOptions& options);

// REQUIRES: CheckOptions has accepted the options.
Settings WriterSettings(const KafkaOptions& options);
Settings ReaderSettings(const KafkaOptions& options);

// Reads the lines of a properties file. INVALID_ARGUMENT names the line and the key, and no value,
// because values are secrets.
absl::StatusOr<Settings> ParseProperties(absl::string_view path, absl::string_view text);
// INVALID_ARGUMENT also if the file cannot be read. An empty path gives no settings.
absl::StatusOr<Settings> ReadProperties(const std::string& path);

}  // namespace duetime::kafka
