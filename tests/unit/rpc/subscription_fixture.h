// SPDX-License-Identifier: Apache-2.0
//
// A server for tests that create, read, change and delete subscriptions.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {

class SubscriptionFixture : public ServerTest {
 protected:
  static v1::CreateSubscriptionRequest Wish(const std::string& topic, const std::string& name) {
    v1::CreateSubscriptionRequest request;
    request.mutable_subscription()->set_topic(topic);
    request.mutable_subscription()->set_name(name);
    return request;
  }
  grpc::Status Create(const v1::CreateSubscriptionRequest& request,
                      v1::Subscription* made = nullptr) {
    v1::CreateSubscriptionResponse response;
    const grpc::Status status = admin_->CreateSubscription(NewContext().get(), request, &response);
    if (made != nullptr) *made = response.subscription();
    return status;
  }
  grpc::Status Create(const std::string& topic, const std::string& name) {
    return Create(Wish(topic, name));
  }
  grpc::Status Get(const std::string& topic, const std::string& name, v1::Subscription* found) {
    v1::GetSubscriptionRequest request;
    request.set_topic(topic);
    request.set_name(name);
    v1::GetSubscriptionResponse response;
    const grpc::Status status = admin_->GetSubscription(NewContext().get(), request, &response);
    *found = response.subscription();
    return status;
  }
  // Updates the named paths, which are relative to `settings`.
  grpc::Status Update(const std::string& topic, const std::string& name,
                      const v1::SubscriptionSettings& settings,
                      std::initializer_list<const char*> paths, v1::Subscription* after = nullptr) {
    v1::UpdateSubscriptionRequest request;
    request.mutable_subscription()->set_topic(topic);
    request.mutable_subscription()->set_name(name);
    *request.mutable_subscription()->mutable_settings() = settings;
    for (const char* path : paths) {
      request.mutable_update_mask()->add_paths(std::string("settings.") + path);
    }
    v1::UpdateSubscriptionResponse response;
    const grpc::Status status = admin_->UpdateSubscription(NewContext().get(), request, &response);
    if (after != nullptr) *after = response.subscription();
    return status;
  }
  grpc::Status Delete(const std::string& topic, const std::string& name) {
    v1::DeleteSubscriptionRequest request;
    request.set_topic(topic);
    request.set_name(name);
    v1::DeleteSubscriptionResponse response;
    return admin_->DeleteSubscription(NewContext().get(), request, &response);
  }
  grpc::Status DeleteTopic(const std::string& name) {
    v1::DeleteTopicRequest request;
    request.set_name(name);
    v1::DeleteTopicResponse response;
    return admin_->DeleteTopic(NewContext().get(), request, &response);
  }
  grpc::Status CreateTopic(const std::string& name, const v1::TopicSettings& settings = {}) {
    v1::CreateTopicRequest request;
    request.mutable_topic()->set_name(name);
    *request.mutable_topic()->mutable_settings() = settings;
    v1::CreateTopicResponse response;
    return admin_->CreateTopic(NewContext().get(), request, &response);
  }
  std::vector<std::string> List(const std::string& topic, int page_size = 0) {
    v1::ListSubscriptionsRequest request;
    request.set_topic(topic);
    request.set_page_size(page_size);
    std::vector<std::string> names;
    v1::ListSubscriptionsResponse response;
    do {
      const grpc::Status status = admin_->ListSubscriptions(NewContext().get(), request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const auto& subscription : response.subscriptions()) {
        names.push_back(subscription.name());
      }
      request.set_page_token(response.next_page_token());
    } while (!response.next_page_token().empty() && !HasFailure());
    return names;
  }
  // Gets a message with its state in each subscription.
  v1::GetResponse MustGetMessage(const std::string& id) {
    v1::GetRequest request;
    request.set_message_id(id);
    v1::GetResponse response;
    const grpc::Status status = messages_->Get(NewContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  // Stops the server and starts another one from the same disk.
  void Restart() {
    StopAll();
    node_.reset();
    server_.reset();
    store_ = std::make_unique<storage::MemoryStore>(disk_.get());
    api::ServerOptions fresh = DefaultOptions();
    fresh.listen = {"unix:" + directory_.Join("again")};
    Listen(fresh);
    Serve();
  }
};

}  // namespace duetime::rpc
