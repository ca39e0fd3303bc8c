// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/kafka_settings.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace duetime::kafka {

namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kEntryBytesLimit = 900 * kMebibyte;
constexpr uint64_t kCallTimeoutMinMs = 300;
constexpr uint64_t kCallTimeoutMaxMs = 300'000;
// Kafka's limit for the name of a topic.
constexpr size_t kTopicBytesMax = 249;
// How long a broker holds a fetch without an entry. A read at another place waits for it.
constexpr uint64_t kFetchWaitMs = 100;
// librdkafka wants a request to have a second more than a fetch waits.
constexpr uint64_t kRequestMinMs = kFetchWaitMs + 1'100;

constexpr std::array kAllowed = {"security.", "sasl.", "ssl.", "enable.ssl.", "client.", "socket."};

bool IsTopicChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

Settings CommonSettings(const KafkaOptions& options) {
  // A request to a broker that hangs must end before the call does, so that the client asks
  // another.
  const uint64_t request_ms = std::max(kRequestMinMs, options.call_timeout_ms / 2);
  return {
      {"bootstrap.servers", options.brokers},
      {"client.id", "duetimed"},
      {"message.max.bytes",
       absl::StrCat(std::max<uint64_t>(options.entry_bytes_max + kFrameBytes, 1'000))},
      {"allow.auto.create.topics", "false"},
      // Finds the next leader of the partition. Each second also without an error: a broker that
      // hangs gives none.
      {"topic.metadata.refresh.fast.interval.ms", "50"},
      {"topic.metadata.refresh.interval.ms", "1000"},
      {"metadata.max.age.ms", "30000"},
      {"reconnect.backoff.ms", "50"},
      {"reconnect.backoff.max.ms", "500"},
      {"socket.timeout.ms", absl::StrCat(std::min<uint64_t>(request_ms, kCallTimeoutMaxMs))},
      {"socket.connection.setup.timeout.ms", "2000"},
      {"socket.nagle.disable", "true"},
      // A lost connection shows as the error that follows. Brokers close idle ones all the time.
      {"log.connection.close", "false"},
      {"log.thread.name", "false"},
  };
}

}  // namespace

absl::Status CheckOptions(const KafkaOptions& options) {
  if (options.brokers.empty()) return absl::InvalidArgumentError("no Kafka broker is given");
  if (options.topic.empty() || options.topic.size() > kTopicBytesMax || options.topic == "." ||
      options.topic == ".." ||
      !std::all_of(options.topic.begin(), options.topic.end(), IsTopicChar)) {
    return absl::InvalidArgumentError(absl::StrCat("Kafka topic \"", options.topic,
                                                   "\": must have 1 to ", kTopicBytesMax,
                                                   " of the characters a-z A-Z 0-9 . _ -"));
  }
  if (options.replicas == 0)
    return absl::InvalidArgumentError("Kafka replicas: must be at least 1");
  if (options.entry_bytes_max == 0 || options.entry_bytes_max > kEntryBytesLimit) {
    return absl::InvalidArgumentError(absl::StrCat("the longest entry has ",
                                                   options.entry_bytes_max,
                                                   " bytes; Kafka takes 1 to ", kEntryBytesLimit));
  }
  if (options.call_timeout_ms < kCallTimeoutMinMs || options.call_timeout_ms > kCallTimeoutMaxMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("Kafka call timeout of ", options.call_timeout_ms, " ms: must be ",
                     kCallTimeoutMinMs, " to ", kCallTimeoutMaxMs, " ms"));
  }
  return absl::OkStatus();
}

Settings WriterSettings(const KafkaOptions& options) {
  Settings settings = CommonSettings(options);
  const Settings own = {
      {"acks", "all"},
      // The journal repeats an entry itself. librdkafka's idempotence would not help: after a
      // timeout it writes whole batches twice (its issue 4953).
      {"enable.idempotence", "false"},
      {"message.send.max.retries", "0"},
      {"linger.ms", "0"},
      {"message.timeout.ms", absl::StrCat(options.call_timeout_ms)},
      // A broker whose followers are slow answers before the client gives it up.
      {"request.timeout.ms", absl::StrCat(options.call_timeout_ms * 3 / 4)},
      {"compression.codec", "lz4"},
      {"queue.buffering.max.kbytes", absl::StrCat(options.entry_bytes_max / 1'024 * 2 + 1'024)},
  };
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

Settings ReaderSettings(const KafkaOptions& options) {
  Settings settings = CommonSettings(options);
  // Bounds the memory: the entries that are read ahead, and one response.
  const uint64_t ahead = std::max(16 * kMebibyte, options.entry_bytes_max + kFrameBytes);
  const Settings own = {
      {"enable.auto.commit", "false"},
      {"auto.offset.reset", "error"},
      {"check.crcs", "true"},
      // An open transaction of some other program holds nothing up.
      {"isolation.level", "read_uncommitted"},
      {"fetch.wait.max.ms", absl::StrCat(kFetchWaitMs)},
      {"fetch.min.bytes", "1"},
      {"fetch.error.backoff.ms", "20"},
      {"fetch.message.max.bytes", absl::StrCat(4 * kMebibyte)},
      {"fetch.max.bytes", absl::StrCat(ahead)},
      {"queued.max.messages.kbytes", absl::StrCat(ahead / 1'024)},
      {"receive.message.max.bytes", absl::StrCat(ahead + kMebibyte)},
  };
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

absl::StatusOr<Settings> ParseProperties(absl::string_view path, absl::string_view text) {
  Settings settings;
  size_t number = 0;
  for (const absl::string_view untrimmed : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(untrimmed);
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": not KEY=VALUE"));
    }
    const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
    const bool allowed = std::any_of(kAllowed.begin(), kAllowed.end(), [&](const char* prefix) {
      return absl::StartsWith(key, prefix);
    });
    if (!allowed) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": key \"", key,
                       "\": must begin with security. sasl. ssl. enable.ssl. client. or socket."));
    }
    settings.emplace_back(key, absl::StripAsciiWhitespace(line.substr(equals + 1)));
  }
  return settings;
}

absl::StatusOr<Settings> ReadProperties(const std::string& path) {
  if (path.empty()) return Settings();
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file || file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  return ParseProperties(path, text);
}

}  // namespace duetime::kafka
