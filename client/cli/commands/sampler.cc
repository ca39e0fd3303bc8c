// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/sampler.h"

namespace duetime::cli {

absl::StatusOr<Sample> Sampler::Read() {
  Sample sample;
  absl::StatusOr<v1::ServerInfoResponse> info = client_->ServerInfo();
  if (!info.ok()) return info.status();
  sample.info = *std::move(info);
  v1::ListTopicsRequest request;
  request.set_name_prefix(prefix_);
  request.set_page_size(kTopicsMax);
  const absl::StatusOr<v1::ListTopicsResponse> topics = admin_->ListTopics(request);
  if (!topics.ok()) return topics.status();
  for (const v1::Topic& topic : topics->topics()) {
    if (signals_->Interrupted()) return absl::CancelledError("interrupted");
    absl::StatusOr<TopicSample> one = ReadTopic(topic.name());
    // The topic or its subscription was deleted meanwhile.
    if (absl::IsNotFound(one.status())) continue;
    if (!one.ok()) return one.status();
    sample.topics.push_back(*std::move(one));
  }
  return sample;
}

absl::StatusOr<TopicSample> Sampler::ReadTopic(const std::string& name) {
  v1::GetTopicRequest of_topic;
  of_topic.set_name(name);
  const absl::StatusOr<v1::Topic> topic = admin_->GetTopic(of_topic);
  if (!topic.ok()) return topic.status();
  TopicSample sample = {.topic = *topic};
  v1::ListSubscriptionsRequest of_list;
  of_list.set_topic(name);
  const auto list = admin_->ListSubscriptions(of_list);
  if (!list.ok()) return list.status();
  for (const v1::Subscription& subscription : list->subscriptions()) {
    v1::GetSubscriptionRequest request;
    request.set_topic(name);
    request.set_name(subscription.name());
    const absl::StatusOr<v1::Subscription> counted = admin_->GetSubscription(request);
    if (!counted.ok()) return counted.status();
    sample.subscriptions.push_back(*counted);
  }
  return sample;
}

}  // namespace duetime::cli
