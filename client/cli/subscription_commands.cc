// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_cat.h"

#include "client/admin_client.h"
#include "client/cli/commands.h"
#include "client/cli/show.h"
#include "client/cli/subscription_output.h"
#include "client/delay_client.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;

ExitCode ShowSubscription(const Settings& settings,
                          const absl::StatusOr<v1::Subscription>& subscription) {
  return Show(settings, subscription, [&](const v1::Subscription& answer) {
    return SubscriptionText(answer, settings.zone);
  });
}

struct DeadLetterTopic {
  std::string name;
  // The topic that they come from exists: if this one does not, there never were any.
  bool origin_exists = false;
};

absl::StatusOr<DeadLetterTopic> FindDeadLetters(AdminClient* client, const DeadLettersOf& where) {
  if (!where.dead_letter_topic.empty()) return DeadLetterTopic{.name = where.dead_letter_topic};
  if (!where.subscription.empty()) {
    v1::GetSubscriptionRequest request;
    request.set_topic(where.topic);
    request.set_name(where.subscription);
    const absl::StatusOr<v1::Subscription> subscription = client->GetSubscription(request);
    if (!subscription.ok()) return subscription.status();
    const std::string& own = subscription->settings().dead_letter_topic();
    if (!own.empty()) return DeadLetterTopic{.name = own, .origin_exists = true};
  }
  v1::GetTopicRequest request;
  request.set_name(where.topic);
  const absl::StatusOr<v1::Topic> topic = client->GetTopic(request);
  // Dead letters outlive the topic that they come from.
  if (!topic.ok() && !absl::IsNotFound(topic.status())) return topic.status();
  if (topic.ok() && !topic->settings().dead_letter_topic().empty()) {
    return DeadLetterTopic{.name = topic->settings().dead_letter_topic(), .origin_exists = true};
  }
  return DeadLetterTopic{.name = where.topic + ".dlq", .origin_exists = topic.ok()};
}

}  // namespace

ExitCode Run(const Settings& settings, const v1::CreateSubscriptionRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowSubscription(settings, (*client)->CreateSubscription(request));
}

ExitCode Run(const Settings& settings, const v1::GetSubscriptionRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowSubscription(settings, (*client)->GetSubscription(request));
}

ExitCode Run(const Settings& settings,
             const ListArguments<v1::ListSubscriptionsRequest>& arguments) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowPages<v1::ListSubscriptionsResponse>(
      settings, arguments,
      [&](const v1::ListSubscriptionsRequest& request) {
        return (*client)->ListSubscriptions(request);
      },
      [](const v1::ListSubscriptionsResponse& page) -> const auto& { return page.subscriptions(); },
      SubscriptionTable);
}

ExitCode Run(const Settings& settings, const v1::UpdateSubscriptionRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowSubscription(settings, (*client)->UpdateSubscription(request));
}

ExitCode Run(const Settings& settings, const v1::DeleteSubscriptionRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(
      settings, (*client)->DeleteSubscription(request), [&](const v1::DeleteSubscriptionResponse&) {
        return absl::StrCat("subscription ", request.name().empty() ? "default" : request.name(),
                            " of topic ", request.topic(), " is deleted\n");
      });
}

ExitCode Run(const Settings& settings, const DeadLetterListArguments& arguments) {
  const auto admin = Connect<AdminClient>(settings);
  const auto client = Connect<Client>(settings);
  if (!admin.ok()) return Fail(settings, admin.status());
  if (!client.ok()) return Fail(settings, client.status());
  const auto topic = FindDeadLetters(admin->get(), arguments.where);
  if (!topic.ok()) return Fail(settings, topic.status());
  ListArguments<v1::ListRequest> list = arguments.list;
  list.request.set_topic(topic->name);
  return ShowPages<v1::ListResponse>(
      settings, list,
      [&](const v1::ListRequest& request) -> absl::StatusOr<v1::ListResponse> {
        absl::StatusOr<v1::ListResponse> page = (*client)->List(request);
        if (absl::IsNotFound(page.status()) && topic->origin_exists) return v1::ListResponse();
        return page;
      },
      [](const v1::ListResponse& page) -> const auto& { return page.messages(); },
      [&](const auto& messages) { return DeadLetterTable(messages, settings.zone); });
}

ExitCode Run(const Settings& settings, const DeadLetterBulkArguments& arguments) {
  const auto admin = Connect<AdminClient>(settings);
  if (!admin.ok()) return Fail(settings, admin.status());
  const auto topic = FindDeadLetters(admin->get(), arguments.where);
  if (!topic.ok()) return Fail(settings, topic.status());
  BulkArguments bulk = arguments.bulk;
  bulk.request.set_topic(topic->name);
  return Run(settings, bulk);
}

}  // namespace duetime::cli
