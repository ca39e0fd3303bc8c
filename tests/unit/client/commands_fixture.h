// SPDX-License-Identifier: Apache-2.0
//
// CommandsTest: the tool against a server whose answers the test scripts.
#pragma once

#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <variant>

#include "client/cli/commands/commands.h"
#include "tests/support/proto_text.h"
#include "tests/unit/client/command_line.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::cli {

class CommandsTest : public testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out;
    std::string err;
  };

  void SetUp() override { server_.Start(); }

  // Runs a command line as the program does, with times in UTC.
  Result Cli(const std::string& line) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Result result;
    auto parsed = Parse("--server " + server_.target() + " " + line);
    if (auto* invocation = std::get_if<Invocation>(&parsed)) {
      invocation->settings.zone = absl::UTCTimeZone();
      result.code = invocation->Run();
    } else {
      result.code = std::get<ExitCode>(parsed);
    }
    std::fflush(nullptr);
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }

  // The output of a line that must succeed.
  std::string Out(const std::string& line) {
    const Result result = Cli(line);
    EXPECT_EQ(result.code, kDone) << line << ": " << result.err;
    return result.out;
  }

  // Answers each request of this type with `response`, in text format.
  template <typename Request, typename Response>
  void Answer(const std::string& response) {
    server_.Answer<Request>(ParseProto<Response>(response));
  }
  template <typename Request>
  void Refuse(grpc::StatusCode code, const std::string& reason) {
    server_.On<Request, google::protobuf::Message>([=](const Request&, google::protobuf::Message*) {
      return client::MakeServerError(code, reason);
    });
  }

  client::FakeServer server_;
};

}  // namespace duetime::cli
