// SPDX-License-Identifier: Apache-2.0
//
// ClientTest: a Client or an AdminClient against a server whose answers the test scripts.
#pragma once

#include <atomic>
#include <gtest/gtest.h>
#include <memory>

#include "client/cpp/client_options.h"
#include "tests/support/proto_text.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::client {

template <typename AnyClient>
class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.Start();
    client_ = MakeClient(absl::Seconds(10));
  }

  std::unique_ptr<AnyClient> MakeClient(absl::Duration deadline) {
    return MakeClient(deadline, server_.target());
  }
  std::unique_ptr<AnyClient> MakeClient(absl::Duration deadline, const std::string& target) {
    ClientOptions options;
    options.server.target = target;
    options.deadline = deadline;
    // So that a server that always fails does not take a test's time.
    options.attempts_max = 4;
    options.backoff = {
        .initial = absl::Milliseconds(1), .max = absl::Milliseconds(4), .multiplier = 2.0};
    auto client = AnyClient::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // Counts a call. Fails it with UNAVAILABLE if it is one of the first `failures` calls.
  grpc::Status FailFirst(int failures) {
    if (++calls_ > failures) return grpc::Status::OK;
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STARTING");
  }

  // Answers requests of this type with `response`, in text format, after `failures` failed calls.
  template <typename Request, typename Response>
  void Answer(const std::string& response, int failures = 0) {
    calls_ = 0;
    server_.On<Request, Response>([=, this](const Request&, Response* out) {
      *out = ParseProto<Response>(response);
      return FailFirst(failures);
    });
  }

  FakeServer server_;
  std::unique_ptr<AnyClient> client_;
  std::atomic<int> calls_{0};
};

}  // namespace duetime::client
