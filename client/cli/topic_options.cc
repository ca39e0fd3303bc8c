// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// How fast: --burst beside a rate.
struct RateOptions {
  // Beside the setting's own option, `rate`.
  std::optional<int64_t> burst{};

  void AddTo(CLI::App* command, CLI::Option* rate) {
    command
        ->add_option("--burst", burst,
                     "How many may go at once after a time with less to do (default: as many as in "
                     "a second)")
        ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
        ->needs(rate);
  }
  // `rate` is a number per second, or "none".
  absl::Status Read(const std::string& rate, v1::TopicSettings* settings,
                    google::protobuf::FieldMask* paths) const {
    paths->add_paths("settings.rate");
    if (rate == "none") {
      return burst.has_value() ? absl::InvalidArgumentError("--burst needs a rate")
                               : absl::OkStatus();
    }
    int64_t per_second = 0;
    if (!absl::SimpleAtoi(rate, &per_second) || per_second < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", rate, "\" is not a rate; write messages per second, or none"));
    }
    settings->mutable_rate()->set_messages_per_second(per_second);
    settings->mutable_rate()->set_burst(burst.value_or(0));
    return absl::OkStatus();
  }
};

// How many messages a minute may have.
struct MinuteLimitOptions {
  std::optional<int64_t> messages{};
  v1::MinuteLimit::Policy policy = v1::MinuteLimit::POLICY_UNSPECIFIED;
  std::string spread_max{};

  void AddTo(CLI::App* command) {
    CLI::Option* limit =
        command
            ->add_option("--minute-limit", messages,
                         "How many messages may be scheduled for one minute; 0: no limit")
            ->check(CLI::Range(int64_t{0}, INT64_MAX));
    AddChoice<v1::MinuteLimit::Policy>(command, "--minute-policy", &policy,
                                       {{"warn", v1::MinuteLimit::WARN},
                                        {"refuse", v1::MinuteLimit::REFUSE},
                                        {"spread", v1::MinuteLimit::SPREAD}},
                                       "Beyond that: accept and say so (default), refuse, or "
                                       "deliver in a later minute")
        ->needs(limit);
    command->add_option("--spread-max", spread_max, "With spread: at most this much later: 1h")
        ->needs(limit);
  }
  absl::Status Read(v1::TopicSettings* settings, google::protobuf::FieldMask* paths) const {
    if (!messages.has_value()) return absl::OkStatus();
    paths->add_paths("settings.minute_limit");
    const bool spread = policy == v1::MinuteLimit::SPREAD;
    if (spread != !spread_max.empty()) {
      return absl::InvalidArgumentError("--minute-policy spread and --spread-max go together");
    }
    if (*messages == 0) {
      return policy == v1::MinuteLimit::POLICY_UNSPECIFIED
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("--minute-policy needs a limit");
    }
    v1::MinuteLimit* limit = settings->mutable_minute_limit();
    limit->set_messages(*messages);
    limit->set_policy(policy);
    return ReadOptional(spread_max, [&] { return limit->mutable_spread_max(); });
  }
};

// The settings of a topic, before they are understood. What is empty was not given.
struct TopicOptions {
  std::string name{};
  std::optional<int64_t> max_pending{};
  std::optional<int64_t> max_payload_bytes{};
  std::string default_ttl{};
  std::string fate_retention{};
  std::string rate{};
  RateOptions rate_options{};
  MinuteLimitOptions minute_limit{};
  std::optional<std::string> dead_letter_topic{};

  void AddTo(CLI::App* command);
  // Fills in what was given, and names it in `paths`.
  absl::Status Read(v1::Topic* topic, google::protobuf::FieldMask* paths) const;
};

void TopicOptions::AddTo(CLI::App* command) {
  command->add_option("NAME", name, "The topic")->required();
  command
      ->add_option("--max-pending", max_pending,
                   "Refuse messages beyond this many pending ones; 0: no limit")
      ->check(CLI::Range(int64_t{0}, INT64_MAX));
  command
      ->add_option("--max-payload-bytes", max_payload_bytes,
                   "Refuse larger payloads; 0: the server's own limit")
      ->check(CLI::Range(int64_t{0}, INT64_MAX));
  command->add_option("--default-ttl", default_ttl,
                      "The ttl of messages that come without one: 1h; or none");
  command->add_option("--fate-retention", fate_retention,
                      "Remember for this long how messages ended: 7d; or default, the server's");
  rate_options.AddTo(command, command->add_option("--rate", rate,
                                                  "Hand out this many messages per second to each "
                                                  "subscription; or none, as fast as it can be"));
  minute_limit.AddTo(command);
  command->add_option("--dead-letter-topic", dead_letter_topic,
                      "Where dead letters go; \"\": to NAME.dlq (the default)");
}

absl::Status TopicOptions::Read(v1::Topic* topic, google::protobuf::FieldMask* paths) const {
  topic->set_name(name);
  v1::TopicSettings* settings = topic->mutable_settings();
  if (max_pending.has_value()) {
    settings->set_max_pending(*max_pending);
    paths->add_paths("settings.max_pending");
  }
  if (max_payload_bytes.has_value()) {
    settings->set_max_payload_bytes(*max_payload_bytes);
    paths->add_paths("settings.max_payload_bytes");
  }
  if (dead_letter_topic.has_value()) {
    settings->set_dead_letter_topic(*dead_letter_topic);
    paths->add_paths("settings.dead_letter_topic");
  }
  return FirstError({ReadSetting(default_ttl, "none", "settings.default_ttl", paths,
                                 [&] { return settings->mutable_default_ttl(); }),
                     ReadSetting(fate_retention, "default", "settings.fate_retention", paths,
                                 [&] { return settings->mutable_fate_retention(); }),
                     rate.empty() ? absl::OkStatus() : rate_options.Read(rate, settings, paths),
                     minute_limit.Read(settings, paths)});
}

void AddCreateAndUpdate(CLI::App* topic, Leaves* leaves) {
  const auto options = std::make_shared<TopicOptions>();
  CLI::App* create = topic->add_subcommand("create", "Make a topic with settings");
  options->AddTo(create);
  create->footer(
      "\nOften not needed: a topic is made when a message or subscriber names it for the first "
      "time.\n"
      "\nExample:\n  duetime topic create orders --max-pending 1000000 --fate-retention 7d");
  leaves->push_back({create, [options]() -> absl::StatusOr<Command> {
                       v1::CreateTopicRequest request;
                       google::protobuf::FieldMask paths;
                       const absl::Status status = options->Read(request.mutable_topic(), &paths);
                       if (!status.ok()) return status;
                       return request;
                     }});

  CLI::App* update = topic->add_subcommand("update", "Change the settings given, keep the others");
  options->AddTo(update);
  update->footer(
      "\nExamples:"
      "\n  duetime topic update orders --max-pending 0 --default-ttl none"
      "\n  duetime topic update orders --minute-limit 10000 --minute-policy spread --spread-max 1h"
      "\n  duetime topic update orders --dead-letter-topic failures");
  leaves->push_back({update, [options]() -> absl::StatusOr<Command> {
                       v1::UpdateTopicRequest request;
                       const absl::Status status =
                           options->Read(request.mutable_topic(), request.mutable_update_mask());
                       if (!status.ok()) return status;
                       if (request.update_mask().paths().empty()) {
                         return absl::InvalidArgumentError("say what to change");
                       }
                       return request;
                     }});
}

void AddList(CLI::App* topic, Leaves* leaves) {
  struct Options {
    std::string prefix{};
    PageOptions page{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* list = topic->add_subcommand("list", "List topics, by name");
  list->add_option("PREFIX", options->prefix, "Only topics whose names begin with this");
  options->page.AddTo(list);
  list->footer("\nExample:\n  duetime topic list shop/ --all");
  leaves->push_back({list, [options]() -> absl::StatusOr<Command> {
                       v1::ListTopicsRequest request;
                       request.set_name_prefix(options->prefix);
                       return options->page.Read(std::move(request));
                     }});
}

void AddDelete(CLI::App* topic, Leaves* leaves) {
  struct Options {
    std::string name{};
    bool force = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = topic->add_subcommand("delete", "Forget a topic and its settings");
  command->add_option("NAME", options->name, "The topic")->required();
  command->add_flag("--force", options->force,
                    "Also if it holds messages: end them all first, those in flight too");
  command->footer("\nExample:\n  duetime topic delete drafts");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       v1::DeleteTopicRequest request;
                       request.set_name(options->name);
                       request.set_force(options->force);
                       return request;
                     }});
}

// A command whose only argument is the name of a topic.
template <typename Request>
void AddNamed(CLI::App* topic, Leaves* leaves, const std::string& word, const std::string& help) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = topic->add_subcommand(word, help);
  command->add_option("NAME", *name, "The topic")->required();
  command->footer("\nExample:\n  duetime topic " + word + " orders");
  leaves->push_back({command, [name]() -> absl::StatusOr<Command> {
                       Request request;
                       request.set_name(*name);
                       return request;
                     }});
}

void AddDrain(CLI::App* topic, Leaves* leaves) {
  struct Options {
    std::string name{};
    bool dry_run = false;
    bool wait = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = topic->add_subcommand("drain", "Make all its messages due now");
  command->add_option("NAME", options->name, "The topic")->required();
  command->add_flag("--dry-run", options->dry_run,
                    "Count them and show some of them; change nothing");
  command->add_flag("--wait", options->wait, "Stay until it is done");
  command->footer(
      "\nSome of them only: duetime bulk release.\n"
      "\nExamples:"
      "\n  duetime topic drain orders --dry-run"
      "\n  duetime topic drain orders --wait");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       BulkArguments arguments{.request = {}, .wait = options->wait};
                       arguments.request.set_topic(options->name);
                       arguments.request.set_action(v1::BULK_RELEASE);
                       arguments.request.set_dry_run(options->dry_run);
                       return arguments;
                     }});
}

void AddRate(CLI::App* topic, Leaves* leaves) {
  struct Options {
    std::string name{};
    std::string rate{};
    RateOptions options{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      topic->add_subcommand("rate", "Say how fast each of its subscriptions is served");
  command->add_option("NAME", options->name, "The topic")->required();
  options->options.AddTo(
      command,
      command->add_option("RATE", options->rate, "Messages per second; or none")->required());
  command->footer(
      "\nExamples:"
      "\n  duetime topic rate orders 500 --burst 50"
      "\n  duetime topic rate orders none");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       v1::UpdateTopicRequest request;
                       request.mutable_topic()->set_name(options->name);
                       const absl::Status status = options->options.Read(
                           options->rate, request.mutable_topic()->mutable_settings(),
                           request.mutable_update_mask());
                       if (!status.ok()) return status;
                       return request;
                     }});
}

}  // namespace

void AddTopicCommands(CLI::App* app, Leaves* leaves) {
  CLI::App* topic = app->add_subcommand("topic", "Look after topics and their settings");
  topic->require_subcommand(1);
  topic->footer(
      "\nExamples:"
      "\n  duetime topic list"
      "\n  duetime topic get orders"
      "\nEach command has its own help: duetime topic create --help");
  AddCreateAndUpdate(topic, leaves);
  AddNamed<v1::GetTopicRequest>(topic, leaves, "get", "Show a topic's settings and what it holds");
  AddList(topic, leaves);
  AddDelete(topic, leaves);
  AddNamed<v1::PauseTopicRequest>(topic, leaves, "pause",
                                  "Hand out nothing for now; messages are accepted and wait");
  AddNamed<v1::ResumeTopicRequest>(topic, leaves, "resume", "Go on after a pause");
  AddDrain(topic, leaves);
  AddRate(topic, leaves);
}

}  // namespace duetime::cli
