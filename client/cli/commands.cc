// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "client/cli/message_output.h"
#include "client/cli/output.h"
#include "client/cli/show.h"
#include "client/delay_client.h"
#include "client/error.h"

namespace duetime::cli {
namespace {

using client::Client;

// Well within the server's default limits of a batch, 10,000 messages and 16 MiB.
constexpr int64_t kBatchMessages = 5'000;
constexpr int64_t kBatchBytes = 4 << 20;

ExitCode ScheduleMany(const Settings& settings, Client* client, const client::NewMessage& message,
                      int64_t count) {
  const auto bytes = static_cast<int64_t>(client::ToProto(message).ByteSizeLong()) + 8;
  const int64_t batch_max = std::clamp(kBatchBytes / bytes, int64_t{1}, kBatchMessages);
  const std::vector<client::NewMessage> batch(static_cast<size_t>(std::min(batch_max, count)),
                                              message);
  v1::ScheduleResponse last;
  for (int64_t done = 0; done < count;) {
    const auto size = static_cast<size_t>(std::min(count - done, batch_max));
    // Without request ids: who tries out load wants to see what messages cost, not their names.
    const auto results =
        client->ScheduleBatch(absl::MakeConstSpan(batch).subspan(0, size), client::Repeat::kNever);
    if (!results.ok()) return Fail(settings, results.status());
    for (const absl::StatusOr<v1::ScheduleResponse>& result : *results) {
      if (!result.ok()) return Fail(settings, result.status());
      if (settings.json) Print(ScheduledJson(*result));
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

// One result of a cancel: what it means for the exit code.
ExitCode ShowCancel(const Settings& settings, const client::Target& target,
                    const absl::StatusOr<client::CancelResult>& result) {
  if (!result.ok()) return Fail(settings, result.status());
  Print(settings.json ? CancelJson(target.name(), *result)
                      : CancelText(target.name(), *result, settings.zone));
  return result->answer.outcome() == v1::CancelResponse::CANCELLED ? kDone : kNotAsWished;
}

}  // namespace

ExitCode Fail(const Settings& settings, const absl::Status& error) {
  const std::string text =
      settings.json ? ErrorJson(error) : ErrorText(error, settings.server.target);
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) return kNoAnswer;
  // Only the server knows what is there; a TLS file that is missing is another matter.
  const bool not_there = absl::IsNotFound(error) && !client::GetErrorInfo(error).reason.empty();
  return not_there ? kNotAsWished : kRefused;
}

ExitCode Run(const Settings& settings, const InfoArguments&) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->ServerInfo(), [&](const v1::ServerInfoResponse& info) {
    return ServerInfoText(info, settings.zone);
  });
}

ExitCode Run(const Settings& settings, const ScheduleArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const client::NewMessage& message = arguments.message;
  if (arguments.count > 1) {
    return ScheduleMany(settings, client->get(), message, arguments.count);
  }
  const absl::StatusOr<v1::ScheduleResponse> response = (*client)->Schedule(message);
  if (!response.ok()) return Fail(settings, response.status());
  if (settings.json) {
    Print(ScheduledJson(*response));
  } else {
    Print((message.validate_only ? "dry run, nothing is changed: " : "") +
          ScheduledText(*response, settings.zone));
  }
  return kDone;
}

ExitCode Run(const Settings& settings, const RescheduleArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const auto response = (*client)->Reschedule(arguments.target, arguments.when, arguments.etag);
  const ExitCode shown = Show(settings, response, [&](const v1::RescheduleResponse& answer) {
    return RescheduledText(arguments.target.name(), answer, settings.zone);
  });
  if (shown != kDone) return shown;
  return response->outcome() == v1::RescheduleResponse::RESCHEDULED ? kDone : kNotAsWished;
}

ExitCode Run(const Settings& settings, const CancelArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  if (arguments.targets.size() == 1) {
    return ShowCancel(settings, arguments.targets[0],
                      (*client)->Cancel(arguments.targets[0], arguments.stop_redelivery));
  }
  const auto results = (*client)->CancelBatch(arguments.targets, arguments.stop_redelivery);
  if (!results.ok()) return Fail(settings, results.status());
  ExitCode worst = kDone;
  for (size_t i = 0; i < results->size(); ++i) {
    const ExitCode code = ShowCancel(settings, arguments.targets[i], (*results)[i]);
    // A refusal weighs more than an outcome that was not wished for.
    if (worst == kDone || code == kRefused) worst = code;
  }
  return worst;
}

ExitCode Run(const Settings& settings, const GetArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const auto view = arguments.full ? client::View::kFull : client::View::kBasic;
  const absl::StatusOr<v1::GetResponse> response = (*client)->Get(arguments.target, view);
  if (!response.ok()) return Fail(settings, response.status());
  Print(settings.json ? GetJson(*response) : GetText(*response, settings.zone));
  return kDone;
}

ExitCode Run(const Settings& settings, const ExplainArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->Explain(arguments.target),
              [&](const v1::ExplainResponse& story) {
                return ExplainText(story, absl::Now(), settings.zone);
              });
}

ExitCode Run(const Settings& settings, const ListArguments<v1::ListRequest>& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowPages<v1::ListResponse>(
      settings, arguments, [&](const v1::ListRequest& request) { return (*client)->List(request); },
      [](const v1::ListResponse& page) -> const auto& { return page.messages(); },
      [&](const auto& messages) { return MessageTable(messages, settings.zone); });
}

}  // namespace duetime::cli
