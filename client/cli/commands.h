// SPDX-License-Identifier: Apache-2.0
//
// The commands: each does one thing with the server, prints the result, and returns the exit code.
// Results go to stdout, errors to stderr.
#pragma once

#include "absl/status/status.h"

#include "client/cli/arguments.h"

namespace duetime::cli {

// ---- commands.cc: messages and the server
ExitCode Run(const Settings& settings, const InfoArguments& arguments);
ExitCode Run(const Settings& settings, const ScheduleArguments& arguments);
ExitCode Run(const Settings& settings, const RescheduleArguments& arguments);
ExitCode Run(const Settings& settings, const CancelArguments& arguments);
ExitCode Run(const Settings& settings, const GetArguments& arguments);
ExitCode Run(const Settings& settings, const ExplainArguments& arguments);
ExitCode Run(const Settings& settings, const ListArguments<v1::ListRequest>& arguments);

// ---- subscribe_command.cc
// Until it has enough, is interrupted (SIGINT, SIGTERM), or cannot go on. REQUIRES: called on the
// main thread, before any other thread was started, since the signals are blocked for all.
ExitCode Run(const Settings& settings, const SubscribeArguments& arguments);

// ---- receive_commands.cc
ExitCode Run(const Settings& settings, const PullArguments& arguments);
ExitCode Run(const Settings& settings, const SettleArguments& arguments);

// ---- admin_commands.cc: forecasts, operations, topics
ExitCode Run(const Settings& settings, const v1::ForecastRequest& request);
ExitCode Run(const Settings& settings, const BulkArguments& arguments);
ExitCode Run(const Settings& settings, const v1::GetOperationRequest& request);
ExitCode Run(const Settings& settings, const ListArguments<v1::ListOperationsRequest>& arguments);
ExitCode Run(const Settings& settings, const v1::CancelOperationRequest& request);
ExitCode Run(const Settings& settings, const v1::CreateTopicRequest& request);
ExitCode Run(const Settings& settings, const v1::GetTopicRequest& request);
ExitCode Run(const Settings& settings, const ListArguments<v1::ListTopicsRequest>& arguments);
ExitCode Run(const Settings& settings, const v1::UpdateTopicRequest& request);
ExitCode Run(const Settings& settings, const v1::DeleteTopicRequest& request);
ExitCode Run(const Settings& settings, const v1::PauseTopicRequest& request);
ExitCode Run(const Settings& settings, const v1::ResumeTopicRequest& request);

// ---- subscription_commands.cc: subscriptions and dead letters
ExitCode Run(const Settings& settings, const v1::CreateSubscriptionRequest& request);
ExitCode Run(const Settings& settings, const v1::GetSubscriptionRequest& request);
ExitCode Run(const Settings& settings,
             const ListArguments<v1::ListSubscriptionsRequest>& arguments);
ExitCode Run(const Settings& settings, const v1::UpdateSubscriptionRequest& request);
ExitCode Run(const Settings& settings, const v1::DeleteSubscriptionRequest& request);
ExitCode Run(const Settings& settings, const DeadLetterListArguments& arguments);
ExitCode Run(const Settings& settings, const DeadLetterBulkArguments& arguments);

// ---- recurrence_commands.cc
ExitCode Run(const Settings& settings, const v1::CreateRecurrenceRequest& request);
ExitCode Run(const Settings& settings, const v1::GetRecurrenceRequest& request);
ExitCode Run(const Settings& settings, const ListArguments<v1::ListRecurrencesRequest>& arguments);
ExitCode Run(const Settings& settings, const RecurrenceUpdateArguments& arguments);
ExitCode Run(const Settings& settings, const v1::PauseRecurrenceRequest& request);
ExitCode Run(const Settings& settings, const v1::ResumeRecurrenceRequest& request);
ExitCode Run(const Settings& settings, const v1::DeleteRecurrenceRequest& request);
ExitCode Run(const Settings& settings, const v1::PreviewRecurrenceRequest& request);

// Prints the error and returns the exit code for it.
ExitCode Fail(const Settings& settings, const absl::Status& error);

}  // namespace duetime::cli
