// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// The words that describe a recurrence, before they are understood. What is empty was not given.
struct RecurrenceOptions {
  std::string name{};
  std::string topic{};
  PayloadOptions payload{};
  std::vector<std::string> attributes{};
  std::vector<std::string> labels{};
  std::string ordering_key{};
  std::string ttl{};
  v1::Message::LatePolicy late_policy = v1::Message::LATE_POLICY_UNSPECIFIED;
  std::string cron{};
  std::string every{};
  std::string zone{};
  std::string start{};
  std::string end{};
  std::optional<int64_t> max_count{};
  std::string jitter{};
  v1::Recurrence::Overlap overlap = v1::Recurrence::OVERLAP_UNSPECIFIED;
  v1::Recurrence::Misfire misfire = v1::Recurrence::MISFIRE_UNSPECIFIED;
  bool dry_run = false;

  void AddScheduleTo(CLI::App* command);
  void AddRestTo(CLI::App* command);
  absl::Status ReadTemplate(v1::MessageTemplate* message, google::protobuf::FieldMask* paths) const;
  absl::Status ReadSchedule(v1::RecurrenceSchedule* schedule,
                            google::protobuf::FieldMask* paths) const;
  // Whether they say when, and say it once.
  absl::Status CheckRule() const;
  // Fills in what was given, and names it in `paths`.
  absl::Status Read(v1::Recurrence* recurrence, google::protobuf::FieldMask* paths) const;
};

void RecurrenceOptions::AddScheduleTo(CLI::App* command) {
  CLI::Option* rule = command->add_option(
      "--cron", cron,
      "When: minute hour day month weekday, as in \"0 9 * * MON-FRI\"; also L, LW, 5L, 5#3, "
      "@daily, and seconds as a sixth field in front");
  command->add_option("--every", every, "When: every so often, whatever clocks do: 90s, 1h30m")
      ->excludes(rule);
  command->add_option("--tz", zone,
                      "The time zone of --cron, such as Europe/Berlin (default: UTC)");
  command->add_option("--start", start,
                      "Not before this moment, from which --every counts (default: now)");
  command->add_option("--end", end, "Not at or after this moment");
  command->add_option("--max-count", max_count, "How many in all; 0: no limit")
      ->check(CLI::Range(int64_t{0}, INT64_MAX));
  command->add_option("--jitter", jitter, "Deliver each at some point within this after its time");
}

void RecurrenceOptions::AddRestTo(CLI::App* command) {
  payload.AddTo(command);
  AddScheduleTo(command);
  AddPairs(command, "--attr", &attributes, "An attribute of each message; may be repeated");
  AddPairs(command, "--label", &labels, "A label of each message; may be repeated");
  command->add_option("--ordering-key", ordering_key, "The ordering key of each message");
  command->add_option("--ttl", ttl, "Each is worth delivering for this long after its time");
  AddLatePolicy(command, &late_policy);
  AddChoice<v1::Recurrence::Overlap>(
      command, "--overlap", &overlap,
      {{"allow", v1::Recurrence::ALLOW}, {"skip", v1::Recurrence::SKIP}},
      "When one is due while the one before it has not ended: deliver it (default), or skip it");
  AddChoice<v1::Recurrence::Misfire>(
      command, "--misfire", &misfire,
      {{"once", v1::Recurrence::FIRE_ONCE},
       {"all", v1::Recurrence::FIRE_ALL},
       {"skip", v1::Recurrence::SKIP_MISSED}},
      "Of those missed while no server ran or it was paused: make the last one (default), all, or "
      "none");
}

// Runs `read` for an option that was given, unless it is the word "none", and names its path.
template <typename Read>
absl::Status Given(const std::string& text, const std::string& path,
                   google::protobuf::FieldMask* paths, const Read& read) {
  if (text.empty()) return absl::OkStatus();
  paths->add_paths(path);
  return text == "none" ? absl::OkStatus() : read();
}

absl::Status RecurrenceOptions::ReadTemplate(v1::MessageTemplate* message,
                                             google::protobuf::FieldMask* paths) const {
  if (payload.Given()) {
    absl::StatusOr<std::string> bytes = payload.Read();
    if (!bytes.ok()) return bytes.status();
    message->set_payload(*std::move(bytes));
    paths->add_paths("template.payload");
  }
  const absl::StatusOr<Pairs> attribute_pairs = ReadPairs("--attr", attributes);
  if (!attribute_pairs.ok()) return attribute_pairs.status();
  message->mutable_attributes()->insert(attribute_pairs->begin(), attribute_pairs->end());
  if (!attributes.empty()) paths->add_paths("template.attributes");
  const absl::StatusOr<Pairs> label_pairs = ReadPairs("--label", labels);
  if (!label_pairs.ok()) return label_pairs.status();
  message->mutable_labels()->insert(label_pairs->begin(), label_pairs->end());
  if (!labels.empty()) paths->add_paths("template.labels");
  message->set_ordering_key(ordering_key);
  if (!ordering_key.empty()) paths->add_paths("template.ordering_key");
  message->set_late_policy(late_policy);
  if (late_policy != v1::Message::LATE_POLICY_UNSPECIFIED) {
    paths->add_paths("template.late_policy");
  }
  return Given(ttl, "template.ttl", paths,
               [&] { return ReadOptional(ttl, [&] { return message->mutable_ttl(); }); });
}

absl::Status RecurrenceOptions::ReadSchedule(v1::RecurrenceSchedule* schedule,
                                             google::protobuf::FieldMask* paths) const {
  if (!cron.empty()) {
    schedule->set_cron(cron);
    paths->add_paths("schedule.cron");
  }
  if (!zone.empty()) {
    schedule->set_time_zone(zone);
    paths->add_paths("schedule.time_zone");
  }
  if (max_count.has_value()) {
    schedule->set_max_count(*max_count);
    paths->add_paths("schedule.max_count");
  }
  return FirstError(
      {Given(every, "schedule.interval", paths,
             [&] { return ReadOptional(every, [&] { return schedule->mutable_interval(); }); }),
       Given(start, "schedule.start_time", paths,
             [&] { return ReadOptional(start, [&] { return schedule->mutable_start_time(); }); }),
       Given(end, "schedule.end_time", paths,
             [&] { return ReadOptional(end, [&] { return schedule->mutable_end_time(); }); }),
       Given(jitter, "schedule.jitter", paths,
             [&] { return ReadOptional(jitter, [&] { return schedule->mutable_jitter(); }); })});
}

absl::Status RecurrenceOptions::CheckRule() const {
  if (cron.empty() && every.empty()) {
    return absl::InvalidArgumentError("say when: --cron or --every");
  }
  if (cron.empty() && !zone.empty()) return absl::InvalidArgumentError("--tz goes with --cron");
  return absl::OkStatus();
}

absl::Status RecurrenceOptions::Read(v1::Recurrence* recurrence,
                                     google::protobuf::FieldMask* paths) const {
  recurrence->set_name(name);
  recurrence->set_topic(topic);
  recurrence->set_overlap(overlap);
  if (overlap != v1::Recurrence::OVERLAP_UNSPECIFIED) paths->add_paths("overlap");
  recurrence->set_misfire(misfire);
  if (misfire != v1::Recurrence::MISFIRE_UNSPECIFIED) paths->add_paths("misfire");
  return FirstError({ReadTemplate(recurrence->mutable_template_(), paths),
                     ReadSchedule(recurrence->mutable_schedule(), paths)});
}

void AddCreateAndUpdate(CLI::App* recur, Leaves* leaves) {
  const auto options = std::make_shared<RecurrenceOptions>();
  CLI::App* create = recur->add_subcommand("create", "Schedule a message again and again");
  create->add_option("NAME", options->name, "Your name for it, unique on the server")->required();
  create->add_option("TOPIC", options->topic, "Where subscribers find its messages")->required();
  options->AddRestTo(create);
  create->add_flag("--dry-run", options->dry_run, "Check everything; create nothing");
  create->footer(
      "\nExamples:"
      "\n  duetime recur create standup chat 'time to talk' --cron \"30 9 * * MON-FRI\" --tz "
      "Europe/Berlin"
      "\n  duetime recur create month-end reports run --cron \"0 18 LW * *\" --tz America/New_York"
      "\n  duetime recur create heartbeat probes ping --every 30s --overlap skip --misfire skip"
      "\nWhen that would be: duetime recur preview --cron \"0 18 LW * *\" --tz America/New_York");
  leaves->push_back({create, [options]() -> absl::StatusOr<Command> {
                       v1::CreateRecurrenceRequest request;
                       google::protobuf::FieldMask paths;
                       absl::Status status = options->CheckRule();
                       status.Update(options->Read(request.mutable_recurrence(), &paths));
                       if (!status.ok()) return status;
                       request.set_validate_only(options->dry_run);
                       return request;
                     }});

  CLI::App* update = recur->add_subcommand("update", "Change what is given, keep the rest");
  update->add_option("NAME", options->name, "Which one")->required();
  options->AddRestTo(update);
  update->footer(
      "\n--attr and --label replace all attributes or labels. The word none takes --start, --end, "
      "--jitter or --ttl away.\n"
      "\nExamples:"
      "\n  duetime recur update standup --cron \"0 10 * * MON-FRI\""
      "\n  duetime recur update standup 'talk now' --end none");
  leaves->push_back({update, [options]() -> absl::StatusOr<Command> {
                       RecurrenceUpdateArguments arguments;
                       const absl::Status status =
                           options->Read(&arguments.changes, &arguments.paths);
                       if (!status.ok()) return status;
                       if (arguments.paths.paths().empty()) {
                         return absl::InvalidArgumentError("say what to change");
                       }
                       return arguments;
                     }});
}

void AddPreview(CLI::App* recur, Leaves* leaves) {
  struct Options {
    RecurrenceOptions recurrence{};
    std::string after{};
    int count = 0;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = recur->add_subcommand(
      "preview", "Show when messages would come, of a schedule to try or of one that exists");
  CLI::Option* name = command->add_option("NAME", options->recurrence.name, "One that exists");
  options->recurrence.AddScheduleTo(command);
  for (const char* option : {"--cron", "--every"}) command->get_option(option)->excludes(name);
  command->add_option("--after", options->after, "Those after this moment (default: now)");
  command->add_option("--count", options->count, "How many (default: 10)")
      ->check(CLI::Range(1, 1'000));
  command->footer(
      "\nExamples:"
      "\n  duetime recur preview --cron \"30 2 * * *\" --tz Europe/Berlin --after \"2027-03-27 "
      "00:00\" --count 3"
      "\n  duetime recur preview standup");
  leaves->push_back(
      {command, [options]() -> absl::StatusOr<Command> {
         const RecurrenceOptions& recurrence = options->recurrence;
         v1::PreviewRecurrenceRequest request;
         google::protobuf::FieldMask paths;
         absl::Status status;
         if (!recurrence.name.empty()) {
           request.set_name(recurrence.name);
         } else {
           status = recurrence.CheckRule();
           status.Update(recurrence.ReadSchedule(request.mutable_schedule(), &paths));
         }
         request.set_count(options->count);
         status.Update(ReadOptional(options->after, [&] { return request.mutable_after_time(); }));
         if (!status.ok()) return status;
         return request;
       }});
}

// A command whose only argument is the name of a recurrence.
template <typename Request>
void AddNamed(CLI::App* recur, Leaves* leaves, const std::string& word, const std::string& help) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = recur->add_subcommand(word, help);
  command->add_option("NAME", *name, "Which one")->required();
  command->footer("\nExample:\n  duetime recur " + word + " standup");
  leaves->push_back({command, [name]() -> absl::StatusOr<Command> {
                       Request request;
                       request.set_name(*name);
                       return request;
                     }});
}

void AddRecurrenceList(CLI::App* recur, Leaves* leaves) {
  struct Options {
    std::string topic{};
    PageOptions page{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = recur->add_subcommand("list", "List recurrences, by name");
  command->add_option("TOPIC", options->topic, "Only those of this topic");
  options->page.AddTo(command);
  command->footer("\nExample:\n  duetime recur list chat");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       v1::ListRecurrencesRequest request;
                       request.set_topic(options->topic);
                       return options->page.Read(std::move(request));
                     }});
}

}  // namespace

void AddRecurrenceCommands(CLI::App* app, Leaves* leaves) {
  CLI::App* recur = app->add_subcommand("recur", "Messages that come again and again");
  recur->require_subcommand(1);
  recur->footer(
      "\nEach time is an ordinary message of its topic. The first steps:"
      "\n  duetime recur preview --cron \"30 9 * * MON-FRI\" --tz Europe/Berlin"
      "\n  duetime recur create standup chat 'time to talk' --cron \"30 9 * * MON-FRI\" --tz "
      "Europe/Berlin"
      "\n  duetime recur get standup"
      "\nEach command has its own help: duetime recur create --help");
  AddCreateAndUpdate(recur, leaves);
  AddPreview(recur, leaves);
  AddNamed<v1::GetRecurrenceRequest>(recur, leaves, "get", "Show one, and when it comes next");
  AddRecurrenceList(recur, leaves);
  AddNamed<v1::PauseRecurrenceRequest>(recur, leaves, "pause",
                                       "Make no more messages until it is resumed");
  AddNamed<v1::ResumeRecurrenceRequest>(recur, leaves, "resume", "Go on after a pause");
  AddNamed<v1::DeleteRecurrenceRequest>(recur, leaves, "delete",
                                        "Forget it, and cancel the message that is pending");
}

}  // namespace duetime::cli
