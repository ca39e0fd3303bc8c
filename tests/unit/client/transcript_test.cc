// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints. A file of texts/ is a list of
//
//   GetTopic: topic { name: 't' }               the answer of a call from here on, in text format;
//                                               it goes on in lines that begin with a blank
//   GetTopic refuses NOT_FOUND TOPIC_NOT_FOUND  the same, with a refusal
//   $ topic get t | grep paused                 a command line, then its output; with grep, only
//                                               lines of standard output that have the text:
//     text                                      a line of standard output, behind two blanks
//   ! text                                      a line of standard error
//   exit 3                                      the exit code, unless it is 0
//
// # starts a comment. SERVER is the server's address. DUETIME_REWRITE=1 writes what the tool prints
// into the files: read the diff.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "tests/support/paths.h"
#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using google::protobuf::MethodDescriptor;
using Lines = std::vector<std::string>;

std::filesystem::path Folder() {
  return std::filesystem::path(test::kSourceRoot) / "tests/unit/client/texts";
}

Lines FileNames() {
  Lines names;
  for (const auto& file : std::filesystem::directory_iterator(Folder())) {
    names.push_back(file.path().stem());
  }
  return names;
}

const MethodDescriptor* FindMethod(const std::string& name) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const MethodDescriptor* method = nullptr;
  for (const char* service : {"duetime.v1.Messages", "duetime.v1.Admin"}) {
    if (method == nullptr) method = pool->FindServiceByName(service)->FindMethodByName(name);
  }
  return method;
}

bool IsPrinted(const std::string& line) {
  return line.empty() || line[0] == ' ' || line[0] == '!' || absl::StartsWith(line, "exit ");
}

class TranscriptTest : public CommandsTest, public testing::WithParamInterface<std::string> {
 protected:
  // Sets the answer of a call, by a line of a file.
  void Script(const std::string& line) {
    const Lines words = absl::StrSplit(line, ' ');
    const bool refuses = words.size() == 4 && words[1] == "refuses";
    const MethodDescriptor* method = FindMethod(line.substr(0, line.find_first_of(": ")));
    ASSERT_NE(method, nullptr) << line;
    const std::shared_ptr<google::protobuf::Message> answer(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(method->output_type())
            ->New());
    grpc::Status status;
    if (refuses) {
      int code = 0;
      while (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) != words[2]) {
        ASSERT_LT(++code, 17) << line;
      }
      status = client::MakeServerError(static_cast<grpc::StatusCode>(code), words[3]);
    } else {
      ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(line.substr(line.find(':') + 1),
                                                                answer.get()))
          << line;
    }
    server_.OnType(method->input_type(), [answer, status](const google::protobuf::Message&,
                                                          google::protobuf::Message* response) {
      response->CopyFrom(*answer);
      return status;
    });
  }

  // What a command line prints, in the form of the files.
  Lines Print(const std::string& line) {
    const Lines parts = absl::StrSplit(line, " | grep ");
    const std::string wanted = parts.size() > 1 ? parts[1] : "";
    const Result result = Cli(parts[0]);
    Lines printed;
    const auto add = [&](const std::string& text, const std::string& before) {
      if (text.empty()) return;
      const Lines all = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
      for (const std::string& one : all) {
        if (before == "! " || absl::StrContains(one, wanted)) {
          printed.push_back(one.empty() ? "" : before + one);
        }
      }
    };
    add(absl::StrReplaceAll(result.out, {{server_.target(), "SERVER"}}), "  ");
    add(absl::StrReplaceAll(result.err, {{server_.target(), "SERVER"}}), "! ");
    if (result.code != kDone) printed.push_back(absl::StrCat("exit ", result.code));
    return printed;
  }
};

TEST_P(TranscriptTest, IsAsWritten) {
  const std::filesystem::path path = Folder() / (GetParam() + ".txt");
  Lines lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  Lines rewritten;
  int commands = 0;
  for (size_t i = 0; i < lines.size();) {
    const size_t begin = i++;
    while (i < lines.size() && IsPrinted(lines[i])) ++i;
    size_t end = i;
    while (end > begin && lines[end - 1].empty()) --end;
    const Lines section(lines.begin() + static_cast<ptrdiff_t>(begin),
                        lines.begin() + static_cast<ptrdiff_t>(end));
    Lines now = section;
    if (!section.empty() && section[0][0] == '$') {
      now = Print(section[0].substr(2));
      now.insert(now.begin(), section[0]);
      ++commands;
    } else if (!section.empty() && section[0][0] != '#') {
      Script(absl::StrJoin(section, " "));
    }
    if (std::getenv("DUETIME_REWRITE") == nullptr) {
      EXPECT_EQ(absl::StrJoin(now, "\n"), absl::StrJoin(section, "\n")) << path << ":" << begin + 1;
    }
    now.resize(now.size() + i - end);
    rewritten.insert(rewritten.end(), now.begin(), now.end());
  }
  EXPECT_GT(commands, 2);
  if (std::getenv("DUETIME_REWRITE") != nullptr) {
    std::ofstream(path) << absl::StrJoin(rewritten, "\n") << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, TranscriptTest, testing::ValuesIn(FileNames()),
                         [](const auto& file) { return file.param; });

}  // namespace
}  // namespace duetime::cli
