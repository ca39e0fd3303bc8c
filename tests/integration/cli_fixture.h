// SPDX-License-Identifier: Apache-2.0
//
// A daemon, and the command line tool as a person and as a script would run it.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"

namespace duetime::test {

using Json = nlohmann::json;

class CliTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon(); }

  RunResult Cli(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), kTool);
    return RunProgram(words, input, Millis(60'000),
                      {{"DUETIME_SERVER", server_->target()},
                       {"DUETIME_CONTEXT", "none"},
                       {"TZ", "Asia/Shanghai"}});
  }

  // Runs the tool with JSON output and parses each line.
  std::vector<Json> CliJson(std::vector<std::string> words) {
    words.push_back("--json");
    const RunResult result = Cli(words);
    EXPECT_EQ(result.exit.code, 0) << result.err;
    std::vector<Json> lines;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) {
      lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
      EXPECT_FALSE(lines.back().is_discarded()) << line;
    }
    return lines;
  }

  std::string ScheduleId(std::vector<std::string> words) {
    words.insert(words.begin(), "schedule");
    const std::vector<Json> lines = CliJson(words);
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? "" : lines[0]["message"].value("id", "");
  }
};

}  // namespace duetime::test
