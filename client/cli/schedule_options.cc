// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// The words after `schedule`, before they are understood.
struct ScheduleOptions {
  ScheduleArguments arguments{};
  PayloadOptions payload{};
  WhenOptions when{};
  std::vector<std::string> attributes{};
  std::vector<std::string> labels{};
  std::string max_wait{};
  std::string ttl{};
  std::string expire_at{};
  std::string spread{};
};

void AddName(CLI::App* command, ScheduleOptions* options) {
  client::NewMessage* message = &options->arguments.message;
  CLI::Option* key = command->add_option(
      "--key", message->key,
      "Your name for the message, unique in its topic: find, move or cancel it by this");
  AddChoice<v1::ScheduleRequest::OnConflict>(
      command, "--on-conflict", &message->on_conflict,
      {{"fail", v1::ScheduleRequest::FAIL},
       {"replace", v1::ScheduleRequest::REPLACE},
       {"keep-time", v1::ScheduleRequest::KEEP_TIME},
       {"push-back", v1::ScheduleRequest::PUSH_BACK}},
      "If the key has a pending message: fail, unless it is the same (default); replace it; "
      "replace "
      "all but its time; replace it and only ever move it later")
      ->needs(key);
  command
      ->add_option("--max-wait", options->max_wait,
                   "With push-back: not later than this after the first time it was scheduled")
      ->needs(key);
  command
      ->add_flag("--only-if-exists", message->only_if_exists,
                 "Replace a pending message, but do not make a new one")
      ->needs(key);
  command->add_option("--request-id", message->request_id,
                      "Makes running the same command again safe for an hour: it is one message");
}

void AddProperties(CLI::App* command, ScheduleOptions* options) {
  client::NewMessage* message = &options->arguments.message;
  AddPairs(command, "--attr", &options->attributes,
           "An attribute, delivered with the payload; may be repeated");
  AddPairs(command, "--label", &options->labels, "A label, to list and select by; may be repeated");
  CLI::Option* ttl =
      command->add_option("--ttl", options->ttl, "Worth delivering for this long after its time");
  command
      ->add_option("--expire-at", options->expire_at,
                   "Worth delivering until this moment: \"2026-12-24 18:00\" or +2h")
      ->excludes(ttl);
  AddLatePolicy(command, &message->late_policy);
  command->add_option("--spread", options->spread,
                      "Deliver at some point within this after its time, so that not everything "
                      "comes at once");
  command->add_option("--ordering-key", message->ordering_key,
                      "Messages with the same one are delivered in order, one at a time");
}

absl::StatusOr<Command> ReadSchedule(const ScheduleOptions& options) {
  ScheduleArguments arguments = options.arguments;
  client::NewMessage& message = arguments.message;
  absl::StatusOr<std::string> payload = options.payload.Read();
  if (!payload.ok()) return payload.status();
  message.payload = *std::move(payload);
  absl::StatusOr<client::When> when = options.when.Read();
  if (!when.ok()) return when.status();
  message.when = *std::move(when);
  absl::StatusOr<Pairs> attributes = ReadPairs("--attr", options.attributes);
  if (!attributes.ok()) return attributes.status();
  message.attributes = *std::move(attributes);
  absl::StatusOr<Pairs> labels = ReadPairs("--label", options.labels);
  if (!labels.ok()) return labels.status();
  message.labels = *std::move(labels);
  std::optional<absl::Duration> max_wait;
  std::optional<absl::Duration> ttl;
  std::optional<absl::Duration> spread;
  const absl::Status status =
      FirstError({ReadOptional(options.max_wait, &max_wait), ReadOptional(options.ttl, &ttl),
                  ReadOptional(options.spread, &spread)});
  if (!status.ok()) return status;
  message.max_wait = max_wait.value_or(absl::ZeroDuration());
  message.spread = spread.value_or(absl::ZeroDuration());
  if (ttl.has_value()) message.lifetime = *ttl;
  if (!options.expire_at.empty()) {
    const absl::StatusOr<absl::Time> expire_time = ReadMoment(options.expire_at);
    if (!expire_time.ok()) return expire_time.status();
    message.lifetime = *expire_time;
  }
  if (arguments.count > 1 && (!message.key.empty() || !message.request_id.empty())) {
    return absl::InvalidArgumentError("with --key or --request-id, --count would be one message");
  }
  return arguments;
}

void AddSchedule(CLI::App* app, Leaves* leaves) {
  const auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command = app->add_subcommand("schedule", "Schedule a message for a time");
  command->add_option("TOPIC", options->arguments.message.topic, "Where subscribers find it")
      ->required();
  options->payload.AddTo(command);
  options->when.AddTo(command);
  AddName(command, options.get());
  AddProperties(command, options.get());
  command->add_flag("--dry-run", options->arguments.message.validate_only,
                    "Check everything and say what would happen; change nothing");
  command
      ->add_option("--count", options->arguments.count,
                   "Schedule the same message this often (to try out load)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}))
      ->capture_default_str();
  command->footer(
      "\nPrints the id by which the message can be found, moved and cancelled. A time in the past "
      "is "
      "due at once.\nIf the answer is lost on the way it is asked for again; that makes no second "
      "message.\n"
      "\nExamples:"
      "\n  duetime schedule orders '{\"order\": 17}' --in 30m --attr kind=reminder"
      "\n  duetime schedule greetings \"good evening\" --at \"2026-12-24 18:00\" --tz Asia/Shanghai"
      "\n  duetime schedule reports --file report.pdf --local \"2027-03-28 02:30\" --tz "
      "Europe/Berlin"
      "\n\nA reminder with a name: schedule it, replace it, and one that waits for silence of 10 "
      "minutes,\nbut for no longer than an hour:"
      "\n  duetime schedule orders pay --key order-17 --in 3d --label customer=42"
      "\n  duetime schedule orders 'pay now' --key order-17 --in 1d --on-conflict replace"
      "\n  duetime schedule drafts save --key draft-9 --in 10m --on-conflict push-back --max-wait "
      "1h"
      "\n\nNot worth delivering when it is more than 5 minutes late, and spread over a quarter of "
      "an "
      "hour:"
      "\n  duetime schedule sales open --at \"2026-11-27 00:00\" --spread 15m --ttl 5m --late "
      "drop");
  leaves->push_back({command, [options] { return ReadSchedule(*options); }});
}

void AddReschedule(CLI::App* app, Leaves* leaves) {
  struct Options {
    TargetOptions target{};
    WhenOptions when{};
    std::string etag{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand("reschedule", "Move a pending message to another time");
  options->target.AddTo(command, /*several=*/false);
  options->when.AddTo(command);
  command->add_option("--etag", options->etag,
                      "Only if the message is still as it was when get printed this");
  command->footer(
      "\nEarlier or later; id, key and content stay. Exit code 3: it was not to be moved any more; "
      "what became of it is printed.\n"
      "\nExamples:"
      "\n  duetime reschedule 0g1yay0000000000g9r8cwx3v4 --in 2h"
      "\n  duetime reschedule --topic orders --key order-17 --at \"2026-12-24 18:00\"");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       const auto targets = options->target.Read();
                       if (!targets.ok()) return targets.status();
                       absl::StatusOr<client::When> when = options->when.Read();
                       if (!when.ok()) return when.status();
                       return RescheduleArguments{.target = targets->front(),
                                                  .when = *std::move(when),
                                                  .etag = options->etag};
                     }});
}

}  // namespace

void AddScheduleCommands(CLI::App* app, Leaves* leaves) {
  AddSchedule(app, leaves);
  AddReschedule(app, leaves);
}

}  // namespace duetime::cli
