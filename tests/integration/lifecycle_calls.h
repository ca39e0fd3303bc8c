// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/daemon_fixture.h"

namespace duetime::test {

using v1::ScheduleRequest;

inline constexpr Millis kHour(3'600'000);

// A daemon with two shards, and the calls of tests about the whole life of messages.
class LifecycleCallsTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon({"--shards=2"}); }

  // Makes one call on either service, with a deadline.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(const std::unique_ptr<Stub>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    response->Clear();
    return (stub.get()->*method)(&context, request, response);
  }
  template <typename Stub, typename Request, typename Response>
  void MustCall(const std::unique_ptr<Stub>& stub,
                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Request& request, Response* response) {
    const grpc::Status status = Call(stub, method, request, response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  static ScheduleRequest Keyed(
      const std::string& key, Millis delay, const std::string& payload,
      ScheduleRequest::OnConflict mode = ScheduleRequest::ON_CONFLICT_FAIL) {
    ScheduleRequest request = Request("t", delay, payload);
    request.set_key(key);
    request.set_on_conflict(mode);
    return request;
  }

  v1::ScheduleResponse Put(const ScheduleRequest& request) {
    v1::ScheduleResponse response;
    MustCall(messages_, &v1::Messages::Stub::Schedule, request, &response);
    return response;
  }
  grpc::Status Refused(const ScheduleRequest& request) {
    v1::ScheduleResponse response;
    return Call(messages_, &v1::Messages::Stub::Schedule, request, &response);
  }

  template <typename Request>
  static void SetKey(const std::string& key, Request* request) {
    request->mutable_key()->set_topic("t");
    request->mutable_key()->set_key(key);
  }

  v1::Message GetKey(const std::string& key, const std::string& topic = "t") {
    v1::GetRequest request;
    SetKey(key, &request);
    request.mutable_key()->set_topic(topic);
    request.set_view(v1::MESSAGE_VIEW_FULL);
    v1::GetResponse response;
    MustCall(messages_, &v1::Messages::Stub::Get, request, &response);
    return response.message();
  }

  void Restart() {
    server_->Kill();
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
  }

  // Receives and acks deliveries until none has come for `quiet`. Returns their payloads.
  std::multiset<std::string> ReceiveAll(const std::string& topic, Millis quiet = Millis(500)) {
    Subscription subscription(channel_, Subscription::Start{.topic = topic});
    EXPECT_TRUE(subscription.WaitStarted());
    std::multiset<std::string> payloads;
    while (const auto received = subscription.Next(quiet)) {
      payloads.insert(received->delivery.payload());
      EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
    }
    return payloads;
  }

  v1::Operation MustStart(const v1::StartBulkRequest& request) {
    v1::StartBulkResponse response;
    MustCall(admin_, &v1::Admin::Stub::StartBulk, request, &response);
    return response.operation();
  }
  v1::Operation WaitOperation(const std::string& name) {
    v1::GetOperationRequest request;
    request.set_name(name);
    v1::GetOperationResponse response;
    const auto deadline = Clock::now() + Millis(20'000);
    do {
      MustCall(admin_, &v1::Admin::Stub::GetOperation, request, &response);
      if (HasFatalFailure()) break;
    } while (response.operation().state() == v1::Operation::STATE_RUNNING &&
             Clock::now() < deadline);
    return response.operation();
  }

  // Lists the topic's keys page by page.
  std::vector<std::string> ListKeys(v1::ListRequest request, int* pages) {
    std::vector<std::string> keys;
    v1::ListResponse response;
    *pages = 0;
    do {
      MustCall(messages_, &v1::Messages::Stub::List, request, &response);
      if (HasFatalFailure()) return keys;
      for (const v1::Message& message : response.messages()) keys.push_back(message.key());
      request.set_page_token(response.next_page_token());
      ++*pages;
    } while (!response.next_page_token().empty());
    return keys;
  }

  // Schedules ten messages key/0 ... key/9, due in an hour and some minutes. Each second one has a
  // label.
  void PutTen() {
    for (int i = 0; i < 10; ++i) {
      ScheduleRequest request =
          Keyed(absl::StrCat("key/", i), kHour + Millis(60'000 * i), absl::StrCat("p", i));
      (*request.mutable_labels())["parity"] = i % 2 == 0 ? "even" : "odd";
      Put(request);
    }
  }
};

}  // namespace duetime::test
