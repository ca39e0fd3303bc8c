// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// Whose dead letters: TOPIC, and where else they may be.
void AddWhere(CLI::App* command, DeadLettersOf* where) {
  command->add_option("TOPIC", where->topic, "The topic that the messages were scheduled to")
      ->required();
  CLI::Option* subscription =
      command->add_option("-s,--subscription", where->subscription,
                          "Look where this subscription's dead letters go, if it has a topic of "
                          "its own for them");
  command
      ->add_option("--dead-letter-topic", where->dead_letter_topic,
                   "Look in this topic (default: the one that TOPIC's settings name, else "
                   "TOPIC.dlq)")
      ->excludes(subscription);
}

void AddList(CLI::App* dlq, Leaves* leaves) {
  struct Options {
    DeadLettersOf where{};
    FilterOptions filter{};
    PageOptions page{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* list = dlq->add_subcommand("list", "List dead letters: what they were, and why");
  AddWhere(list, &options->where);
  options->filter.AddTo(list);
  options->page.AddTo(list);
  list->footer(
      "\nAll about one of them: duetime get ID --full\n"
      "\nExamples:"
      "\n  duetime dlq list orders"
      "\n  duetime dlq list orders --label customer=42 --from -1h --all --json");
  leaves->push_back({list, [options]() -> absl::StatusOr<Command> {
                       v1::ListRequest request;
                       const absl::Status status = options->filter.Read(&request);
                       if (!status.ok()) return status;
                       return DeadLetterListArguments{
                           .where = options->where, .list = options->page.Read(std::move(request))};
                     }});
}

void AddAction(CLI::App* dlq, Leaves* leaves, const std::string& word, v1::BulkAction action,
               const std::string& help) {
  struct Options {
    DeadLettersOf where{};
    BulkOptions bulk{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = dlq->add_subcommand(word, help);
  AddWhere(command, &options->where);
  options->bulk.AddTo(command, "All dead letters: instead of a filter");
  command->footer("\nExamples:\n  duetime dlq " + word +
                  " orders --label customer=42 --dry-run\n  duetime dlq " + word +
                  " orders --all --wait");
  leaves->push_back({command, [options, action]() -> absl::StatusOr<Command> {
                       absl::StatusOr<BulkArguments> bulk = options->bulk.Read(action);
                       if (!bulk.ok()) return bulk.status();
                       return DeadLetterBulkArguments{.where = options->where,
                                                      .bulk = *std::move(bulk)};
                     }});
}

}  // namespace

void AddDeadLetterCommands(CLI::App* app, Leaves* leaves) {
  CLI::App* dlq = app->add_subcommand(
      "dlq", "Look through dead letters: messages that failed too often or were given up");
  dlq->require_subcommand(1);
  dlq->footer(
      "\nDead letters are messages of a topic of their own, so everything that can be done with "
      "messages can be\ndone with them. Look at them, mend what was wrong, and send them back:"
      "\n  duetime dlq list orders"
      "\n  duetime dlq redrive orders --all --wait"
      "\nEach command has its own help: duetime dlq redrive --help");
  AddList(dlq, leaves);
  AddAction(dlq, leaves, "redrive", v1::BULK_REDRIVE,
            "Send them back: each becomes a new message of the topic that it came from, due now");
  AddAction(dlq, leaves, "purge", v1::BULK_PURGE, "End them all, those in flight too");
}

}  // namespace duetime::cli
