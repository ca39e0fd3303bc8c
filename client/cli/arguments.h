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
  client::Settlement settlement;
  // Absent: without end.
  std::optional<int64_t> messages_max;
  std::optional<absl::Duration> time_max;
  // Zero: the server's default.
  int credit = 0;
  absl::Duration lease;
  bool quiet = false;
};

// ---- What operators do. Where nothing is missing, the request itself is the arguments.

struct InfoArguments {};

struct BulkArguments {
  v1::StartBulkRequest request;
  // Stay until the operation has ended.
  bool wait = false;
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
    ListArguments<v1::ListTopicsRequest>, v1::UpdateTopicRequest, v1::DeleteTopicRequest>;

struct Arguments {
  Settings settings;
  Command command;
};

// Reads the command line and DUETIME_SERVER; for a payload, its file or standard input too. If
// there is nothing to run, help or one line of complaint is printed and the exit code returned
// instead.
std::variant<Arguments, ExitCode> ParseArguments(int argc, const char* const* argv);

}  // namespace duetime::cli
