// SPDX-License-Identifier: Apache-2.0
//
// A server for tests that create, read, change and delete subscriptions.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {

class SubscriptionFixture : public ServerTest {
 protected:
  // The settings are in text format.
  static std::string Named(const std::string& topic, const std::string& name,
                           const std::string& settings = "") {
    return absl::StrCat("subscription { topic: '", topic, "' name: '", name, "' settings { ",
                        settings, " } }");
  }
  grpc::Status Create(const std::string& topic, const std::string& name,
                      const std::string& settings = "") {
    return Call(&Admin::CreateSubscription, Named(topic, name, settings));
  }
  v1::Subscription Get(const std::string& topic, const std::string& name) {
    return Must(&Admin::GetSubscription, absl::StrCat("topic: '", topic, "' name: '", name, "'"))
        .subscription();
  }
  grpc::Status Delete(const std::string& topic, const std::string& name) {
    return Call(&Admin::DeleteSubscription,
                absl::StrCat("topic: '", topic, "' name: '", name, "'"));
  }
  grpc::Status CreateTopic(const std::string& name, const std::string& settings = "") {
    return Call(&Admin::CreateTopic,
                absl::StrCat("topic { name: '", name, "' settings { ", settings, " } }"));
  }
  grpc::Status DeleteTopic(const std::string& name) {
    return Call(&Admin::DeleteTopic, absl::StrCat("name: '", name, "'"));
  }
  std::vector<std::string> List(const std::string& topic, int page_size = 0) {
    std::vector<std::string> names;
    std::string token;
    do {
      const auto page = Must(&Admin::ListSubscriptions,
                             absl::StrCat("topic: '", topic, "' page_size: ", page_size,
                                          " page_token: '", token, "'"));
      for (const auto& subscription : page.subscriptions()) names.push_back(subscription.name());
      token = page.next_page_token();
    } while (!token.empty() && !HasFailure());
    return names;
  }
  // A message with its state in each subscription.
  v1::GetResponse MustGetMessage(const std::string& id) {
    return Must(&Messages::Get, absl::StrCat("message_id: '", id, "'"));
  }
};

}  // namespace duetime::rpc
