// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// The settings of a topic, before they are understood. What is empty was not given.
struct TopicOptions {
  std::string name{};
  std::optional<int64_t> max_pending{};
  std::optional<int64_t> max_payload_bytes{};
  std::string default_ttl{};
  std::string fate_retention{};

  void AddTo(CLI::App* command) {
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
  }

  // Fills in what was given, and names it in `paths`.
  absl::Status Read(v1::Topic* topic, google::protobuf::FieldMask* paths) const {
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
    if (!default_ttl.empty()) paths->add_paths("settings.default_ttl");
    if (!fate_retention.empty()) paths->add_paths("settings.fate_retention");
    return FirstError(
        {default_ttl == "none"
             ? absl::OkStatus()
             : ReadOptional(default_ttl, [&] { return settings->mutable_default_ttl(); }),
         fate_retention == "default" ? absl::OkStatus() : ReadOptional(fate_retention, [&] {
           return settings->mutable_fate_retention();
         })});
  }
};

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
  update->footer("\nExample:\n  duetime topic update orders --max-pending 0 --default-ttl none");
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

void AddGetAndList(CLI::App* topic, Leaves* leaves) {
  const auto name = std::make_shared<std::string>();
  CLI::App* get = topic->add_subcommand("get", "Show a topic's settings and what it holds");
  get->add_option("NAME", *name, "The topic")->required();
  get->footer("\nExample:\n  duetime topic get orders");
  leaves->push_back({get, [name]() -> absl::StatusOr<Command> {
                       v1::GetTopicRequest request;
                       request.set_name(*name);
                       return request;
                     }});

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
  AddGetAndList(topic, leaves);
  AddDelete(topic, leaves);
}

}  // namespace duetime::cli
