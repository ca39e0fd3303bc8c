// SPDX-License-Identifier: Apache-2.0
//
// The commands of each subject, and the rows and texts that they share. The functions that return
// texts are pure. Lines of text end with a line break.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/cli/command.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/subscriber.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {

Commands MessageCommands();
Command ImportCommand();
Command ExportCommand();
Command BackupCommand();
Commands CellCommands();
Commands ClockCommands();
Commands RestoreCommands();
Command DoctorCommand();
Command TopCommand();
Command BenchCommand();
Commands ReceiveCommands();
Commands OperationCommands();
Commands RecurrenceCommands();
Commands TopicCommands();
Commands SubscriptionCommands();
Commands StreamCommands();
Commands ServerCommands();
Commands AccessCommands();
Commands ContextCommands();
Commands CompletionCommands();
Command ManCommand();

// ---- Messages

// Within the server's default limits of a batch, 10,000 messages and 16 MiB.
inline constexpr int64_t kBatchMessages = 5'000;
inline constexpr int64_t kBatchBytes = 4 << 20;

// The rows that show a v1::Message: all columns, and all lines except payload and attributes.
Rows MessageRows();

// The rows of the options --late and --file, for the field `path`.
Row LatePolicyRow(const std::string& path);
Row PayloadFileRow(const std::string& path);
// The flag with which a command takes times that IsLongPast.
Row AllowPastRow(const std::string& help);

std::string GetText(const v1::GetResponse& response, const absl::TimeZone& zone);
// How a message has ended.
std::string EndedWord(v1::Message::State state);
std::string ScheduledText(const v1::ScheduleRequest& request, const v1::ScheduleResponse& response,
                          const absl::TimeZone& zone);
std::string RescheduledText(const v1::RescheduleRequest& request,
                            const v1::RescheduleResponse& response, const absl::TimeZone& zone);
// `name` is the id or key that the command line gave.
std::string CancelText(absl::string_view name, const client::CancelResult& result,
                       const absl::TimeZone& zone);
// The timeline of a message. Marks the events after `now` as future events.
std::string ExplainText(const v1::ExplainResponse& story, absl::Time now,
                        const absl::TimeZone& zone);

// ---- Bulk operations

// The options that select messages of a topic: --key-prefix, --label, --from, --to. BulkFilter and
// ListRequest have the same paths.
Rows FilterRows();

Row DryRunRow();
Row WaitRow();

// Polls the operation until it has ended. An interrupt ends the program, not the operation.
absl::StatusOr<v1::Operation> WaitForEnd(const Settings& settings, client::AdminClient* client,
                                         v1::Operation operation);

// Starts `action` by a StartBulkRequest, and waits for its end if the command line has --wait.
Action StartBulk(v1::BulkAction action);

// ---- Receiving and settling

std::string DeliveryText(const client::Delivery& delivery, absl::Time received,
                         const absl::TimeZone& zone);
std::string CountsText(const client::SubscriberCounts& counts);

// The result for one lease of a Settle: "settled", "extended", or why the server refused it.
std::string SettledText(const std::string& lease_token, const client::SettleResult& result);
// Returns true if the server refused the lease, or did not answer for it.
bool WasRefused(const std::string& lease_token, const client::SettleResult& result);

// The settlement that the options --ack, --no-ack, --nack, --dead-letter and --reason choose.
absl::StatusOr<client::Settlement> ReadSettlement(const Input& input);

Row NoCreateRow();
// Looks at the subscription before a call that would create it. Returns what a person should know,
// to be printed once the call has succeeded: that topic or subscription are new, or are paused;
// "" if there is nothing. NOT_FOUND if one does not exist and the command line has --no-create.
absl::StatusOr<std::string> LookAtSubscription(const Settings& settings, const Input& input,
                                               const v1::GetSubscriptionRequest& request);

// Receives until it has enough messages, is interrupted (SIGINT, SIGTERM), or cannot continue.
// REQUIRES: called on the main thread before another thread was started, because it blocks the
// signals for all threads.
ExitCode RunSubscribe(const Settings& settings, const Input& input);

// ---- The server

// A chart with a bar for each bucket. A run of more than three empty bars is one line.
std::string ForecastText(const v1::ForecastRequest& request, const v1::ForecastResponse& response,
                         const absl::TimeZone& zone);

// `all`: with every count and limit, by its name in the proto.
std::string ServerInfoText(const v1::ServerInfoResponse& info, bool all,
                           const absl::TimeZone& zone);
// A line for each damaged block, or that there is none.
std::string DamageText(const v1::Damage& damage, const absl::TimeZone& zone);

}  // namespace duetime::cli
