// SPDX-License-Identifier: Apache-2.0
//
// CommandsTest: the tool against a server that answers as the test says.
#pragma once

#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <variant>
#include <vector>

#include "client/cli/commands.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::cli {

class CommandsTest : public testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out;
    std::string err;
  };

  // The words of a command line, as the program would run them.
  Result Cli(std::vector<std::string> words) {
    words.insert(words.begin(), {"duetime", "--server", server_.target()});
    std::vector<const char*> pointers;
    for (const std::string& word : words) pointers.push_back(word.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Result result;
    const auto parsed = ParseArguments(static_cast<int>(pointers.size()), pointers.data());
    if (const auto* arguments = std::get_if<Arguments>(&parsed)) {
      Settings settings = arguments->settings;
      settings.zone = absl::UTCTimeZone();
      result.code =
          std::visit([&](const auto& command) { return int{cli::Run(settings, command)}; },
                     arguments->command);
    } else {
      result.code = std::get<ExitCode>(parsed);
    }
    std::fflush(nullptr);
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }

  template <typename Request, typename Response>
  void Refuse(grpc::StatusCode code, const std::string& reason) {
    server_.On<Request, Response>(
        [=](const Request&, Response*) { return client::MakeServerError(code, reason); });
  }

  client::FakeServer server_;
};

}  // namespace duetime::cli
