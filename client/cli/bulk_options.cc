// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"
#include "client/cli/time_text.h"
#include "client/convert.h"

namespace duetime::cli {
namespace {

void AddAction(CLI::App* bulk, Leaves* leaves, const std::string& word, v1::BulkAction action,
               const std::string& help, const std::string& example) {
  struct Options {
    std::string topic{};
    BulkOptions bulk{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = bulk->add_subcommand(word, help);
  command->add_option("TOPIC", options->topic, "The topic")->required();
  options->bulk.AddTo(command, "All messages of the topic: instead of a filter");
  if (action == v1::BULK_SHIFT) {
    command->add_option("--by", options->bulk.by, "How much later: 1h30m; or earlier: -15m")
        ->required()
        ->check(NotEmpty());
  }
  command->footer("\nExamples:" + example);
  leaves->push_back({command, [options, action]() -> absl::StatusOr<Command> {
                       absl::StatusOr<BulkArguments> arguments = options->bulk.Read(action);
                       if (!arguments.ok()) return arguments.status();
                       arguments->request.set_topic(options->topic);
                       return *std::move(arguments);
                     }});
}

void AddOperations(CLI::App* bulk, Leaves* leaves) {
  struct Options {
    std::string topic{};
    PageOptions page{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* list = bulk->add_subcommand("list",
                                        "List operations: those that run, and those that "
                                        "ended within a day");
  list->add_option("TOPIC", options->topic, "Only those of this topic");
  options->page.AddTo(list);
  list->footer("\nExample:\n  duetime bulk list orders");
  leaves->push_back({list, [options]() -> absl::StatusOr<Command> {
                       v1::ListOperationsRequest request;
                       request.set_topic(options->topic);
                       return options->page.Read(std::move(request));
                     }});

  const auto name = std::make_shared<std::string>();
  CLI::App* get = bulk->add_subcommand("get", "Show how far an operation is");
  get->add_option("NAME", *name, "The name that starting it printed")->required();
  get->footer("\nExample:\n  duetime bulk get cleanup-7");
  leaves->push_back({get, [name]() -> absl::StatusOr<Command> {
                       v1::GetOperationRequest request;
                       request.set_name(*name);
                       return request;
                     }});

  CLI::App* stop = bulk->add_subcommand("stop", "Stop an operation; what it did stays done");
  stop->add_option("NAME", *name, "The name that starting it printed")->required();
  stop->footer("\nExample:\n  duetime bulk stop cleanup-7");
  leaves->push_back({stop, [name]() -> absl::StatusOr<Command> {
                       v1::CancelOperationRequest request;
                       request.set_name(*name);
                       return request;
                     }});
}

}  // namespace

void BulkOptions::AddTo(CLI::App* command, const std::string& all_help) {
  filter.AddTo(command);
  command->add_flag("--all", all, all_help);
  command->add_flag("--dry-run", dry_run, "Count what matches and show some of it; change nothing");
  command->add_flag("--wait", wait, "Stay until it is done");
  command->add_option("--name", name,
                      "A name for the operation, which makes running the same command again safe "
                      "(default: one is made up)");
}

absl::StatusOr<BulkArguments> BulkOptions::Read(v1::BulkAction action) const {
  // One forgotten option must not be the end of a topic.
  if (!filter.Given() && !all && !dry_run) {
    return absl::InvalidArgumentError(
        "say which messages (--key-prefix, --label, --from, --to), or --all for the whole topic");
  }
  if (filter.Given() && all) {
    return absl::InvalidArgumentError("--all and a filter contradict each other");
  }
  BulkArguments arguments{.request = {}, .wait = wait};
  v1::StartBulkRequest& request = arguments.request;
  request.set_action(action);
  request.set_dry_run(dry_run);
  request.set_name(name);
  const absl::Status status = filter.Read(request.mutable_filter());
  if (!status.ok()) return status;
  if (action == v1::BULK_SHIFT) {
    const bool earlier = by[0] == '-';
    const bool is_signed = earlier || by[0] == '+';
    const absl::StatusOr<absl::Duration> shift = ParseDurationText(by.substr(is_signed));
    if (!shift.ok()) return shift.status();
    *request.mutable_shift_by() = client::ToProto(earlier ? -*shift : *shift);
  }
  return arguments;
}

void AddBulkCommands(CLI::App* app, Leaves* leaves) {
  CLI::App* bulk =
      app->add_subcommand("bulk", "Do something to all messages of a topic that match a filter");
  bulk->require_subcommand(1);
  bulk->footer(
      "\nThe server works on it in the background and goes on after a restart. Look first what it "
      "would do:"
      "\n  duetime bulk cancel orders --label customer=42 --dry-run"
      "\n  duetime bulk cancel orders --label customer=42 --wait"
      "\nEach command has its own help: duetime bulk cancel --help");
  AddAction(bulk, leaves, "cancel", v1::BULK_CANCEL, "Cancel them; those in flight are left alone",
            "\n  duetime bulk cancel orders --label customer=42 --dry-run"
            "\n  duetime bulk cancel orders --key-prefix order-17/ --wait");
  AddAction(bulk, leaves, "shift", v1::BULK_SHIFT, "Move them all by the same length of time",
            "\n  duetime bulk shift orders --by 1h --from now --to +1d"
            "\n  duetime bulk shift orders --by -15m --all");
  AddAction(bulk, leaves, "release", v1::BULK_RELEASE, "Make them due now",
            "\n  duetime bulk release orders --label campaign=spring");
  AddAction(bulk, leaves, "purge", v1::BULK_PURGE, "End them all, those in flight too",
            "\n  duetime bulk purge orders --all --dry-run"
            "\n  duetime bulk purge orders --all --wait");
  AddAction(bulk, leaves, "redrive", v1::BULK_REDRIVE,
            "Of a topic of dead letters: send them back to where they came from (see duetime dlq)",
            "\n  duetime bulk redrive orders.dlq --all --wait");
  AddOperations(bulk, leaves);
}

}  // namespace duetime::cli
