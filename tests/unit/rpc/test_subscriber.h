// SPDX-License-Identifier: Apache-2.0
//
// A subscriber on a stream, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "duetime/v1/messages.grpc.pb.h"
#include "tests/support/settlements.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {

// One subscriber. Reads block until the server sends something.
class TestSubscriber {
 public:
  explicit TestSubscriber(v1::Messages::Stub* stub)
      : context_(NewContext()), stream_(stub->Subscribe(context_.get())) {}
  ~TestSubscriber() {
    if (!finished_) {
      context_->TryCancel();
      Finish();
    }
  }
  TestSubscriber(const TestSubscriber&) = delete;
  TestSubscriber& operator=(const TestSubscriber&) = delete;

  bool Send(const v1::SubscribeRequest& request) { return stream_->Write(request); }

  // Opens the stream and waits for the start response.
  void Start(const std::string& topic, int max_messages = 0, const std::string& name = "",
             int max_deliveries = 0) {
    v1::SubscribeRequest request;
    request.mutable_start()->set_topic(topic);
    request.mutable_start()->set_subscription(name);
    request.mutable_start()->set_max_deliveries(max_deliveries);
    request.mutable_start()->set_max_outstanding_messages(max_messages);
    ASSERT_TRUE(Send(request));
    ASSERT_TRUE(ReadOne());
    ASSERT_TRUE(last_.has_started());
  }

  // Reads one response and sorts it into the lists below. Returns false at the end of the stream.
  bool ReadOne() {
    if (!stream_->Read(&last_)) return false;
    for (const v1::Delivery& delivery : last_.deliveries()) deliveries.push_back(delivery);
    for (const std::string& token : last_.settled()) settled.insert(token);
    for (const std::string& token : last_.extended()) extended.insert(token);
    for (const v1::SettleRefusal& refusal : last_.refused()) {
      refused[refusal.lease_token()] = refusal.reason();
    }
    return true;
  }

  // Reads until there are `count` deliveries in all.
  void ReadDeliveries(size_t count) {
    while (deliveries.size() < count) ASSERT_TRUE(ReadOne());
  }
  void ReadSettled(size_t count) {
    while (settled.size() < count) ASSERT_TRUE(ReadOne());
  }
  void ReadExtended(size_t count) {
    while (extended.size() < count) ASSERT_TRUE(ReadOne());
  }
  void ReadRefused(size_t count) {
    while (refused.size() < count) ASSERT_TRUE(ReadOne());
  }

  void Ack(const std::string& token) {
    v1::SubscribeRequest request;
    request.add_settlements()->set_lease_token(token);
    ASSERT_TRUE(Send(request));
  }

  void Nack(const std::string& token, const std::string& reason = "") {
    v1::SubscribeRequest request;
    test::AddSettlement(token, &request)->mutable_nack()->set_reason(reason);
    ASSERT_TRUE(Send(request));
  }
  void DeadLetter(const std::string& token, const std::string& reason) {
    v1::SubscribeRequest request;
    test::AddSettlement(token, &request)->mutable_dead_letter()->set_reason(reason);
    ASSERT_TRUE(Send(request));
  }
  // The payloads delivered so far.
  std::multiset<std::string> payloads() const {
    std::multiset<std::string> all;
    for (const v1::Delivery& delivery : deliveries) all.insert(delivery.payload());
    return all;
  }

  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_->TryCancel(); }

  // Reads to the end and returns the stream's status.
  grpc::Status Finish() {
    while (ReadOne()) {
    }
    finished_ = true;
    return stream_->Finish();
  }

  const v1::SubscribeResponse& last() const { return last_; }

  std::vector<v1::Delivery> deliveries;
  std::set<std::string> settled;
  std::set<std::string> extended;
  std::map<std::string, v1::SettleRefusal::Reason> refused;

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubscribeRequest, v1::SubscribeResponse>> stream_;
  v1::SubscribeResponse last_;
  bool finished_ = false;
};

}  // namespace duetime::rpc
