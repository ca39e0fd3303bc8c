// SPDX-License-Identifier: Apache-2.0
//
// The command line, understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/field_mask.pb.h"

#include "client/channel.h"
#include "client/new_message.h"
#include "client/subscriber.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {

// How the program ends. Listed in --help.
enum ExitCode : int {
  kDone = 0,
  // The server refused the request, or failed.
  kRefused = 1,
  kBadUsage = 2,
  // What was named is not there, or was not in a state for it: see --help.
  kNotAsWished = 3,
  // No server, or no answer in time: what was asked for may have happened.
  kNoAnswer = 4,
};

// What every command takes.
struct Settings {
  client::ServerAddress server;
  bool json = false;
  absl::Duration deadline = absl::Seconds(10);
  // In which people read times.
  absl::TimeZone zone;
};

// ---- Messages

struct ScheduleArguments {
  client::NewMessage message;
  int64_t count = 1;
};

struct RescheduleArguments {
  client::Target target = client::Target::Id("");
  client::When when;
  std::string etag;
};

struct CancelArguments {
  std::vector<client::Target> targets;
  bool stop_redelivery = false;
};

struct GetArguments {
  client::Target target = client::Target::Id("");
  bool full = false;
};

struct ExplainArguments {
  client::Target target = client::Target::Id("");
};

// Any list: the request for its first page, and whether to go on with the others.
template <typename Request>
struct ListArguments {
  Request request;
  bool all = false;
};

struct SubscribeArguments {
  std::string topic;
  // Empty: the default one.
  std::string subscription;
  client::Settlement settlement;
  // Absent: without end.
  std::optional<int64_t> messages_max;
  std::optional<absl::Duration> time_max;
  // Zero: the server's default.
  int credit = 0;
  absl::Duration lease;
  absl::Duration extend_max = absl::Hours(1);
  int workers = 1;
  bool quiet = false;
};

struct PullArguments {
  v1::PullRequest request;
  // Settle what came once it is printed.
  bool ack = false;
};

struct SettleArguments {
  v1::SettleRequest request;
  // In the order in which they were given.
  std::vector<uint64_t> tokens;
};

// ---- What operators do. Where nothing is missing, the request itself is the arguments.

struct InfoArguments {};

struct BulkArguments {
  v1::StartBulkRequest request;
  // Stay until the operation has ended.
  bool wait = false;
};

// Which topic holds the dead letters meant: `dead_letter_topic`, else what the settings of the
// subscription or of the topic say, else the topic's name with ".dlq" behind it.
struct DeadLettersOf {
  std::string topic;
  std::string subscription;
  std::string dead_letter_topic;
};

// The topic of the request is open.
struct DeadLetterListArguments {
  DeadLettersOf where;
  ListArguments<v1::ListRequest> list;
};
struct DeadLetterBulkArguments {
  DeadLettersOf where;
  BulkArguments bulk;
};

// Which fields of a recurrence to change, and to what: paths as fine as the options are.
struct RecurrenceUpdateArguments {
  v1::Recurrence changes;
  google::protobuf::FieldMask paths;
};

using Command = std::variant<
    InfoArguments, ScheduleArguments, RescheduleArguments, CancelArguments, GetArguments,
    ExplainArguments, ListArguments<v1::ListRequest>, SubscribeArguments, v1::ForecastRequest,
    BulkArguments, v1::GetOperationRequest, ListArguments<v1::ListOperationsRequest>,
    v1::CancelOperationRequest, v1::CreateRecurrenceRequest, v1::GetRecurrenceRequest,
    ListArguments<v1::ListRecurrencesRequest>, RecurrenceUpdateArguments,
    v1::PauseRecurrenceRequest, v1::ResumeRecurrenceRequest, v1::DeleteRecurrenceRequest,
    v1::PreviewRecurrenceRequest, v1::CreateTopicRequest, v1::GetTopicRequest,
    ListArguments<v1::ListTopicsRequest>, v1::UpdateTopicRequest, v1::DeleteTopicRequest,
    v1::PauseTopicRequest, v1::ResumeTopicRequest, PullArguments, SettleArguments,
    v1::CreateSubscriptionRequest, v1::GetSubscriptionRequest,
    ListArguments<v1::ListSubscriptionsRequest>, v1::UpdateSubscriptionRequest,
    v1::DeleteSubscriptionRequest, DeadLetterListArguments, DeadLetterBulkArguments>;

struct Arguments {
  Settings settings;
  Command command;
};

// Reads the command line and DUETIME_SERVER; for a payload, its file or standard input too. If
// there is nothing to run, help or one line of complaint is printed and the exit code returned
// instead.
std::variant<Arguments, ExitCode> ParseArguments(int argc, const char* const* argv);

}  // namespace duetime::cli
