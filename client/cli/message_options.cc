// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

void AddCancel(CLI::App* app, Leaves* leaves) {
  struct Options {
    TargetOptions target{};
    bool stop_redelivery = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand("cancel", "Cancel messages, and say what became of each");
  options->target.AddTo(command, /*several=*/true);
  command->add_flag("--stop-redelivery", options->stop_redelivery,
                    "If it was delivered already and not settled: end it all the same");
  command->footer(
      "\nExit code 0 means: none of them was ever delivered and none will be. Anything else that "
      "was "
      "found is\nprinted, with exit code 3. All messages that match a filter: duetime bulk "
      "cancel.\n"
      "\nExamples:"
      "\n  duetime cancel 0g1yay0000000000g9r8cwx3v4"
      "\n  duetime cancel --topic orders --key order-17 --key order-18");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       auto targets = options->target.Read();
                       if (!targets.ok()) return targets.status();
                       return CancelArguments{.targets = *std::move(targets),
                                              .stop_redelivery = options->stop_redelivery};
                     }});
}

void AddGet(CLI::App* app, Leaves* leaves) {
  struct Options {
    TargetOptions target{};
    bool full = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("get", "Show a message, or what is remembered of one that has ended");
  options->target.AddTo(command, /*several=*/false);
  command->add_flag("--full", options->full, "Show payload and attributes too");
  command->footer(
      "\nExamples:"
      "\n  duetime get 0g1yay0000000000g9r8cwx3v4 --full"
      "\n  duetime get --topic orders --key order-17");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       const auto targets = options->target.Read();
                       if (!targets.ok()) return targets.status();
                       return GetArguments{.target = targets->front(), .full = options->full};
                     }});
}

void AddExplain(CLI::App* app, Leaves* leaves) {
  const auto target = std::make_shared<TargetOptions>();
  CLI::App* command = app->add_subcommand(
      "explain", "Tell the story of one message: what happened when, and why it is late");
  target->AddTo(command, /*several=*/false);
  command->footer(
      "\nExamples:"
      "\n  duetime explain 0g1yay0000000000g9r8cwx3v4"
      "\n  duetime explain --topic orders --key order-17");
  leaves->push_back({command, [target]() -> absl::StatusOr<Command> {
                       const auto targets = target->Read();
                       if (!targets.ok()) return targets.status();
                       return ExplainArguments{.target = targets->front()};
                     }});
}

void AddList(CLI::App* app, Leaves* leaves) {
  struct Options {
    std::string topic{};
    FilterOptions filter{};
    std::vector<std::string> states{};
    PageOptions page{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("list", "List a topic's pending messages, the next one due first");
  command->add_option("TOPIC", options->topic, "The topic")->required();
  options->filter.AddTo(command);
  command
      ->add_option("--state", options->states,
                   "Only messages in this state; may be repeated or listed by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"scheduled", "due", "in-flight"}));
  options->page.AddTo(command);
  command->footer(
      "\nWith --key-prefix they come in the order of their keys. With --json each message is a "
      "line, "
      "and a last line\nwith next_page_token says that there are more.\n"
      "\nExamples:"
      "\n  duetime list orders"
      "\n  duetime list orders --from now --to +1h --label customer=42"
      "\n  duetime list orders --key-prefix order- --state scheduled,due --all --json");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       v1::ListRequest request;
                       request.set_topic(options->topic);
                       const absl::Status status = options->filter.Read(&request);
                       if (!status.ok()) return status;
                       for (const std::string& state : options->states) {
                         request.add_states(state == "scheduled" ? v1::Message::SCHEDULED
                                            : state == "due"     ? v1::Message::DUE
                                                                 : v1::Message::IN_FLIGHT);
                       }
                       return options->page.Read(std::move(request));
                     }});
}

}  // namespace

void AddMessageCommands(CLI::App* app, Leaves* leaves) {
  AddCancel(app, leaves);
  AddGet(app, leaves);
  AddExplain(app, leaves);
  AddList(app, leaves);
}

void AddForecastCommand(CLI::App* app, Leaves* leaves) {
  struct Options {
    std::string topic{};
    v1::ForecastRequest::Bucket bucket = v1::ForecastRequest::HOUR;
    int buckets = 0;
    std::string from{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("forecast", "Show how many messages become due when, as a chart");
  command->add_option("TOPIC", options->topic, "The topic; default: all topics together");
  AddChoice<v1::ForecastRequest::Bucket>(command, "--bucket", &options->bucket,
                                         {{"second", v1::ForecastRequest::SECOND},
                                          {"minute", v1::ForecastRequest::MINUTE},
                                          {"hour", v1::ForecastRequest::HOUR},
                                          {"day", v1::ForecastRequest::DAY}},
                                         "How much time one bar stands for (default: hour)");
  command
      ->add_option("--buckets", options->buckets,
                   "How many bars (default: 60 seconds, 60 minutes, 24 hours or 30 days)")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--from", options->from,
                      "The moment in the first bar (default: now): \"2026-12-24 18:00\" or +2d");
  command->footer(
      "\nBars are minutes, hours and days of UTC; their times are shown in this machine's zone.\n"
      "\nExamples:"
      "\n  duetime forecast"
      "\n  duetime forecast orders --bucket minute --buckets 90"
      "\n  duetime forecast orders --bucket day --from \"2026-12-01 00:00\" --json");
  leaves->push_back({command, [options]() -> absl::StatusOr<Command> {
                       v1::ForecastRequest request;
                       request.set_topic(options->topic);
                       request.set_bucket(options->bucket);
                       request.set_buckets(options->buckets);
                       const absl::Status status = ReadOptional(
                           options->from, [&] { return request.mutable_start_time(); });
                       if (!status.ok()) return status;
                       return request;
                     }});
}

}  // namespace duetime::cli
