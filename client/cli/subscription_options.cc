// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// Which subscription: TOPIC [NAME].
struct NameOptions {
  std::string topic{};
  std::string name{};

  void AddTo(CLI::App* command) {
    command->add_option("TOPIC", topic, "The topic that it reads")->required();
    command->add_option("NAME", name, "Its name (default: \"default\")");
  }
  // `Request` has a topic and a name.
  template <typename Request>
  Request Read() const {
    Request request;
    request.set_topic(topic);
    request.set_name(name);
    return request;
  }
};

// The settings of a subscription, before they are understood. What is empty was not given.
struct SubscriptionOptions {
  NameOptions which{};
  std::string lease{};
  std::string min_backoff{};
  std::string max_backoff{};
  std::optional<double> multiplier{};
  std::optional<double> jitter{};
  std::optional<int32_t> max_attempts{};
  std::optional<std::string> dead_letter_topic{};
  std::string retention{};
  std::optional<int64_t> retention_max_messages{};
  v1::RetentionPolicy retention_policy = v1::RETENTION_POLICY_UNSPECIFIED;

  void AddTo(CLI::App* command);
  // Fills in what was given, and names it in `paths`.
  absl::Status Read(v1::Subscription* subscription, google::protobuf::FieldMask* paths) const;
};

void SubscriptionOptions::AddTo(CLI::App* command) {
  which.AddTo(command);
  command->add_option("--lease", lease,
                      "How long a message is kept for a subscriber that asks for nothing else: 1m; "
                      "or default, 30s");
  command->add_option("--min-backoff", min_backoff,
                      "A message that failed comes again after this long: 5s; or none, at once "
                      "(the default)");
  command->add_option("--max-backoff", max_backoff,
                      "The longest such wait, however often it failed: 1h; or default, 10m");
  command
      ->add_option("--multiplier", multiplier,
                   "What each wait is of the one before: 1.5 (default: 2)")
      ->check(CLI::Range(1.0, 100.0));
  command
      ->add_option("--jitter", jitter,
                   "Make each wait longer by up to this part of it, at random: 0.2 (default: 0)")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--max-attempts", max_attempts,
                   "Deliveries that fail before it becomes a dead letter; 0: never (the default)")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--dead-letter-topic", dead_letter_topic,
                      "Where its dead letters go; \"\": where the topic says (the default)");
  command->add_option("--retention", retention,
                      "Hand out nothing that is later than this: 2d; or none, for ever (the "
                      "default)");
  command
      ->add_option("--retention-max", retention_max_messages,
                   "Let so many messages wait, and give up the oldest of more; 0: any number (the "
                   "default)")
      ->check(CLI::NonNegativeNumber);
  AddChoice<v1::RetentionPolicy>(
      command, "--retention-policy", &retention_policy,
      {{"drop", v1::RETENTION_DROP}, {"dead-letter", v1::RETENTION_DEAD_LETTER}},
      "What becomes of those: give them up (default), or make them dead letters");
}

absl::Status SubscriptionOptions::Read(v1::Subscription* subscription,
                                       google::protobuf::FieldMask* paths) const {
  subscription->set_topic(which.topic);
  subscription->set_name(which.name);
  v1::SubscriptionSettings* settings = subscription->mutable_settings();
  v1::RetryPolicy* retry = settings->mutable_retry();
  if (multiplier.has_value()) {
    retry->set_multiplier(*multiplier);
    paths->add_paths("settings.retry.multiplier");
  }
  if (jitter.has_value()) {
    retry->set_jitter(*jitter);
    paths->add_paths("settings.retry.jitter");
  }
  if (max_attempts.has_value()) {
    retry->set_max_attempts(*max_attempts);
    paths->add_paths("settings.retry.max_attempts");
  }
  if (dead_letter_topic.has_value()) {
    settings->set_dead_letter_topic(*dead_letter_topic);
    paths->add_paths("settings.dead_letter_topic");
  }
  if (retention_max_messages.has_value()) {
    settings->set_retention_max_messages(*retention_max_messages);
    paths->add_paths("settings.retention_max_messages");
  }
  if (retention_policy != v1::RETENTION_POLICY_UNSPECIFIED) {
    settings->set_retention_policy(retention_policy);
    paths->add_paths("settings.retention_policy");
  }
  return FirstError({ReadSetting(lease, "default", "settings.lease_duration", paths,
                                 [&] { return settings->mutable_lease_duration(); }),
                     ReadSetting(min_backoff, "none", "settings.retry.min_backoff", paths,
                                 [&] { return retry->mutable_min_backoff(); }),
                     ReadSetting(max_backoff, "default", "settings.retry.max_backoff", paths,
                                 [&] { return retry->mutable_max_backoff(); }),
                     ReadSetting(retention, "none", "settings.retention", paths,
                                 [&] { return settings->mutable_retention(); })});
}

void AddCreate(CLI::App* subscription, Leaves* leaves) {
  struct Options {
    SubscriptionOptions settings{};
    v1::CreateSubscriptionRequest::Start start = v1::CreateSubscriptionRequest::START_UNSPECIFIED;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* create = subscription->add_subcommand("create", "Make a subscription with settings");
  options->settings.AddTo(create);
  AddChoice<v1::CreateSubscriptionRequest::Start>(
      create, "--start", &options->start,
      {{"new", v1::CreateSubscriptionRequest::NEW}, {"all", v1::CreateSubscriptionRequest::ALL}},
      "Which messages it gets: those accepted from now on (default), or also all that are pending. "
      "The first one of a topic gets all in any case");
  create->footer(
      "\nOften not needed: a subscription is made when a subscriber names it for the first time.\n"
      "\nExamples:"
      "\n  duetime subscription create orders billing --min-backoff 5s --max-backoff 10m "
      "--max-attempts 8"
      "\n  duetime subscription create orders audit --start all --retention 2d");
  leaves->push_back({create, [options]() -> absl::StatusOr<Command> {
                       v1::CreateSubscriptionRequest request;
                       request.set_start(options->start);
                       google::protobuf::FieldMask paths;
                       const absl::Status status =
                           options->settings.Read(request.mutable_subscription(), &paths);
                       if (!status.ok()) return status;
                       return request;
                     }});
}

void AddUpdate(CLI::App* subscription, Leaves* leaves) {
  const auto options = std::make_shared<SubscriptionOptions>();
  CLI::App* update =
      subscription->add_subcommand("update", "Change the settings given, keep the others");
  options->AddTo(update);
  update->footer(
      "\nExamples:"
      "\n  duetime subscription update orders billing --max-attempts 0"
      "\n  duetime subscription update orders billing --min-backoff 5s --jitter 0.2"
      "\n  duetime subscription update orders audit --retention-max 1000000");
  leaves->push_back({update, [options]() -> absl::StatusOr<Command> {
                       v1::UpdateSubscriptionRequest request;
                       const absl::Status status = options->Read(request.mutable_subscription(),
                                                                 request.mutable_update_mask());
                       if (!status.ok()) return status;
                       if (request.update_mask().paths().empty()) {
                         return absl::InvalidArgumentError("say what to change");
                       }
                       return request;
                     }});
}

// A command whose only argument is which subscription.
template <typename Request>
void AddNamed(CLI::App* subscription, Leaves* leaves, const std::string& word,
              const std::string& help) {
  const auto which = std::make_shared<NameOptions>();
  CLI::App* command = subscription->add_subcommand(word, help);
  which->AddTo(command);
  command->footer("\nExample:\n  duetime subscription " + word + " orders billing");
  leaves->push_back(
      {command, [which]() -> absl::StatusOr<Command> { return which->Read<Request>(); }});
}

void AddPause(CLI::App* subscription, Leaves* leaves, const std::string& word, bool paused,
              const std::string& help) {
  const auto which = std::make_shared<NameOptions>();
  CLI::App* command = subscription->add_subcommand(word, help);
  which->AddTo(command);
  command->footer("\nExample:\n  duetime subscription " + word + " orders billing");
  leaves->push_back({command, [which, paused]() -> absl::StatusOr<Command> {
                       v1::UpdateSubscriptionRequest request;
                       *request.mutable_subscription() = which->Read<v1::Subscription>();
                       request.mutable_subscription()->mutable_settings()->set_paused(paused);
                       request.mutable_update_mask()->add_paths("settings.paused");
                       return request;
                     }});
}

void AddList(CLI::App* subscription, Leaves* leaves) {
  struct Options {
    std::string topic{};
    PageOptions page{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* list = subscription->add_subcommand("list", "List a topic's subscriptions, by name");
  list->add_option("TOPIC", options->topic, "The topic")->required();
  options->page.AddTo(list);
  list->footer("\nExample:\n  duetime subscription list orders");
  leaves->push_back({list, [options]() -> absl::StatusOr<Command> {
                       v1::ListSubscriptionsRequest request;
                       request.set_topic(options->topic);
                       return options->page.Read(std::move(request));
                     }});
}

}  // namespace

void AddSubscriptionCommands(CLI::App* app, Leaves* leaves) {
  CLI::App* subscription =
      app->add_subcommand("subscription", "Look after the subscriptions of a topic");
  subscription->require_subcommand(1);
  subscription->footer(
      "\nEach subscription of a topic gets every message, at its own pace and with its own "
      "retries.\n"
      "\nExamples:"
      "\n  duetime subscription list orders"
      "\n  duetime subscription get orders billing"
      "\nEach command has its own help: duetime subscription create --help");
  AddCreate(subscription, leaves);
  AddNamed<v1::GetSubscriptionRequest>(subscription, leaves, "get",
                                       "Show a subscription's settings and how it is doing");
  AddList(subscription, leaves);
  AddUpdate(subscription, leaves);
  AddNamed<v1::DeleteSubscriptionRequest>(
      subscription, leaves, "delete",
      "Forget a subscription; what only it was to get ends as dropped, unless it is the last one "
      "of its topic");
  AddPause(subscription, leaves, "pause", true,
           "Hand out nothing to it for now; its messages wait");
  AddPause(subscription, leaves, "resume", false, "Go on after a pause");
}

}  // namespace duetime::cli
