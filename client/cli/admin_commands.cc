// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <signal.h>
#include <string>
#include <time.h>

#include "absl/strings/str_cat.h"

#include "client/admin_client.h"
#include "client/cli/admin_output.h"
#include "client/cli/commands.h"
#include "client/cli/show.h"

namespace duetime::cli {
namespace {

using client::AdminClient;

// How soon the end of an operation is noticed.
constexpr timespec kGlance = {.tv_sec = 0, .tv_nsec = 200'000'000};

// Asks until the operation has ended. An interrupt ends the program, not the operation.
absl::StatusOr<v1::Operation> WaitForEnd(AdminClient* client, v1::Operation operation) {
  v1::GetOperationRequest request;
  request.set_name(operation.name());
  sigset_t none;
  sigemptyset(&none);
  while (operation.state() == v1::Operation::RUNNING) {
    sigtimedwait(&none, nullptr, &kGlance);
    absl::StatusOr<v1::Operation> now = client->GetOperation(request);
    if (!now.ok()) return now.status();
    operation = *std::move(now);
  }
  return operation;
}

ExitCode ShowOperation(const Settings& settings, const absl::StatusOr<v1::Operation>& operation) {
  return Show(settings, operation,
              [&](const v1::Operation& answer) { return OperationText(answer, settings.zone); });
}

}  // namespace

ExitCode Run(const Settings& settings, const v1::ForecastRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->Forecast(request), [&](const v1::ForecastResponse& response) {
    return ForecastText(request, response, settings.zone);
  });
}

ExitCode Run(const Settings& settings, const BulkArguments& arguments) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  absl::StatusOr<v1::Operation> operation = (*client)->StartBulk(arguments.request);
  if (operation.ok() && arguments.wait) {
    operation = WaitForEnd(client->get(), *std::move(operation));
  }
  const ExitCode shown = ShowOperation(settings, operation);
  if (shown != kDone) return shown;
  const bool failed =
      operation->state() == v1::Operation::FAILED || operation->state() == v1::Operation::STOPPED;
  if (operation->state() == v1::Operation::RUNNING && !settings.json) {
    Print(absl::StrCat("\nit goes on in the background; how far it is: duetime bulk get ",
                       operation->name(), "\n"));
  }
  return failed ? kNotAsWished : kDone;
}

ExitCode Run(const Settings& settings, const v1::GetOperationRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowOperation(settings, (*client)->GetOperation(request));
}

ExitCode Run(const Settings& settings, const ListArguments<v1::ListOperationsRequest>& arguments) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowPages<v1::ListOperationsResponse>(
      settings, arguments,
      [&](const v1::ListOperationsRequest& request) { return (*client)->ListOperations(request); },
      [](const v1::ListOperationsResponse& page) -> const auto& { return page.operations(); },
      [&](const auto& operations) { return OperationTable(operations, settings.zone); });
}

ExitCode Run(const Settings& settings, const v1::CancelOperationRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowOperation(settings, (*client)->CancelOperation(request));
}

ExitCode Run(const Settings& settings, const v1::CreateTopicRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->CreateTopic(request.topic()), TopicText);
}

ExitCode Run(const Settings& settings, const v1::GetTopicRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->GetTopic(request), TopicText);
}

ExitCode Run(const Settings& settings, const ListArguments<v1::ListTopicsRequest>& arguments) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowPages<v1::ListTopicsResponse>(
      settings, arguments,
      [&](const v1::ListTopicsRequest& request) { return (*client)->ListTopics(request); },
      [](const v1::ListTopicsResponse& page) -> const auto& { return page.topics(); }, TopicTable);
}

ExitCode Run(const Settings& settings, const v1::UpdateTopicRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->UpdateTopic(request), TopicText);
}

ExitCode Run(const Settings& settings, const v1::PauseTopicRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->PauseTopic(request), TopicText);
}

ExitCode Run(const Settings& settings, const v1::ResumeTopicRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->ResumeTopic(request), TopicText);
}

ExitCode Run(const Settings& settings, const v1::DeleteTopicRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->DeleteTopic(request),
              [&](const v1::DeleteTopicResponse& response) {
                if (response.operation().empty()) {
                  return absl::StrCat("topic ", request.name(), " is deleted\n");
                }
                return absl::StrCat("topic ", request.name(),
                                    " is being purged and then deleted; how far it is: duetime "
                                    "bulk get ",
                                    response.operation(), "\n");
              });
}

}  // namespace duetime::cli
