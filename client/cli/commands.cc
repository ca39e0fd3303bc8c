// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "client/cli/output.h"
#include "client/delay_client.h"

namespace duetime::cli {
namespace {

// Well within the server's default limits of a batch, 10,000 messages and 16 MiB.
constexpr int64_t kBatchMessages = 5'000;
constexpr int64_t kBatchBytes = 4 << 20;

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

absl::StatusOr<std::unique_ptr<client::Client>> Connect(const Settings& settings) {
  client::ClientOptions options;
  options.server = settings.server;
  options.deadline = settings.deadline;
  return client::Client::Create(options);
}

ExitCode ScheduleMany(const Settings& settings, client::Client* client,
                      const client::NewMessage& message, int64_t count) {
  int64_t bytes = 64 + static_cast<int64_t>(message.topic.size() + message.payload.size());
  for (const auto& [key, value] : message.attributes) {
    bytes += static_cast<int64_t>(key.size() + value.size()) + 8;
  }
  const int64_t batch_max = std::clamp(kBatchBytes / bytes, int64_t{1}, kBatchMessages);
  const std::vector<client::NewMessage> batch(static_cast<size_t>(std::min(batch_max, count)),
                                              message);
  client::Message last;
  for (int64_t done = 0; done < count;) {
    const auto size = static_cast<size_t>(std::min(count - done, batch_max));
    const auto results = client->ScheduleBatch(absl::MakeConstSpan(batch).subspan(0, size));
    if (!results.ok()) return Fail(settings, results.status());
    for (const absl::StatusOr<client::Message>& result : *results) {
      if (!result.ok()) return Fail(settings, result.status());
      if (settings.json) Print(MessageJson(*result));
      last = *result;
    }
    done += static_cast<int64_t>(size);
  }
  if (!settings.json) {
    std::printf("scheduled %lld messages; the last one:\n", static_cast<long long>(count));
    Print(ScheduledText(last, settings.zone));
  }
  return kDone;
}

}  // namespace

ExitCode Fail(const Settings& settings, const absl::Status& error) {
  const std::string text =
      settings.json ? ErrorJson(error) : ErrorText(error, settings.server.target);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) ? kNoAnswer : kRefused;
}

ExitCode Run(const Settings& settings, const ScheduleArguments& arguments) {
  const auto client = Connect(settings);
  if (!client.ok()) return Fail(settings, client.status());
  client::NewMessage message;
  message.topic = arguments.topic;
  message.payload = arguments.payload;
  message.attributes = arguments.attributes;
  message.when = arguments.when;
  if (arguments.count > 1) {
    return ScheduleMany(settings, client->get(), message, arguments.count);
  }
  const absl::StatusOr<client::Message> accepted = (*client)->Schedule(message);
  if (!accepted.ok()) return Fail(settings, accepted.status());
  Print(settings.json ? MessageJson(*accepted) : ScheduledText(*accepted, settings.zone));
  return kDone;
}

ExitCode Run(const Settings& settings, const CancelArguments& arguments) {
  const auto client = Connect(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const auto result = (*client)->Cancel(arguments.id, arguments.stop_redelivery);
  if (!result.ok()) return Fail(settings, result.status());
  Print(settings.json ? CancelJson(arguments.id, *result) : CancelText(arguments.id, *result));
  return result->outcome == v1::CancelResponse::CANCELLED ? kDone : kNotAsWished;
}

ExitCode Run(const Settings& settings, const GetArguments& arguments) {
  const auto client = Connect(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const auto message =
      (*client)->Get(arguments.id, arguments.full ? client::View::kFull : client::View::kBasic);
  if (!message.ok()) {
    const ExitCode code = Fail(settings, message.status());
    return absl::IsNotFound(message.status()) ? kNotAsWished : code;
  }
  Print(settings.json ? MessageJson(*message) : MessageText(*message, settings.zone));
  return kDone;
}

ExitCode Run(const Settings& settings, const InfoArguments&) {
  const auto client = Connect(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const auto info = (*client)->ServerInfo();
  if (!info.ok()) return Fail(settings, info.status());
  Print(settings.json ? ServerInfoJson(*info) : ServerInfoText(*info, settings.zone));
  return kDone;
}

}  // namespace duetime::cli
