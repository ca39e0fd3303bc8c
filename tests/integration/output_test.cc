// SPDX-License-Identifier: Apache-2.0
//
// Standard output that cannot be written: every command of the tool, and what the daemon prints,
// say so and fail. What a command confirms by printing it has then not happened.
#include <fstream>
#include <future>
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <map>
#include <set>
#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "client/cli/command.h"
#include "tests/integration/daemon_fixture.h"

namespace duetime::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::HasSubstr;
using testing::Not;

// How a shell starts a program whose output has no place to go.
struct BrokenOutput {
  const char* name;
  const char* before;
  const char* redirect;
};
constexpr BrokenOutput kBroken[] = {
    {"full", "", ">/dev/full"},
    {"closed", "", ">&-"},
    {"pipe", "trap '' PIPE; rm -f p; mkfifo p; exec 3<>p 4>p 3<&-;", ">&4 4>&-"}};

// Runs a command line in `directory`, with this output.
RunResult RunInto(const BrokenOutput& broken, const std::string& directory, const std::string& line,
                  const std::string& server) {
  return RunProgram(
      {"/bin/sh", "-c",
       absl::StrCat("cd ", directory, "; ", broken.before, " exec ", line, " ", broken.redirect)},
      "", Millis(10'000),
      {{"DUETIME_SERVER", server}, {"DUETIME_CONTEXT", "none"}, {"XDG_CONFIG_HOME", directory}});
}

// Fills every field, so that each answer has something to print.
void Fill(Message* message, int depth = 0, bool after = false) {
  constexpr int64_t kLater = 2'000'000'000;
  const auto* type = message->GetDescriptor();
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < type->field_count() && depth < 6; ++i) {
    const FieldDescriptor* field = type->field(i);
    const auto* oneof = field->real_containing_oneof();
    if (oneof != nullptr && oneof->field(0) != field) continue;
    if (field->name() == "next_page_token") continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Fill(field->is_repeated() ? reflection->AddMessage(message, field)
                                : reflection->MutableMessage(message, field),
           depth + 1, field->name() == "server_time");
    } else if (field->is_repeated()) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        reflection->AddString(message, field, "orders");
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      reflection->SetString(message, field, "orders");
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const auto* done = field->enum_type()->FindValueByName("STATE_DONE");
      reflection->SetEnum(message, field, done != nullptr ? done : field->enum_type()->value(1));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      reflection->SetBool(message, field, true);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection->SetInt32(message, field, 6);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      // The size of the payload; and the server's own time is after all others.
      reflection->SetInt64(message, field, after ? kLater : 6);
    }
  }
}

// A server that knows every unary call of the API and answers it with a filled response.
class AnyServer : private grpc::CallbackGenericService {
 public:
  AnyServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(target(), grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  std::string target() const { return "unix:" + directory_.Join("s"); }

 private:
  class Call : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(std::string method) : method_(std::move(method)) { StartRead(&request_); }
    void OnReadDone(bool) override {
      const auto* pool = google::protobuf::DescriptorPool::generated_pool();
      const auto* method = pool->FindMethodByName(
          absl::StrReplaceAll(absl::string_view(method_).substr(1), {{"/", "."}}));
      if (method == nullptr) return Finish({grpc::StatusCode::UNIMPLEMENTED, method_});
      std::unique_ptr<Message> answer(google::protobuf::MessageFactory::generated_factory()
                                          ->GetPrototype(method->output_type())
                                          ->New());
      Fill(answer.get());
      bool own = false;
      grpc::GenericSerialize<grpc::ProtoBufferWriter, Message>(*answer, &response_, &own);
      StartWriteAndFinish(&response_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    const std::string method_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(context->method());
  }

  TempDirectory directory_;
  std::unique_ptr<grpc::Server> server_;
};

// The commands that need more than a single call, and so the real server: WhatIsNotWritten* and
// LongCommands.
const std::set<std::string>& Elsewhere() {
  static const std::set<std::string> words = {"subscribe", "bench", "backup"};
  return words;
}

// The command line of a command: its first example without what follows in a pipe or a file, on
// the files of FillDirectory.
std::string LineOf(const cli::Command& command) {
  static const std::map<std::string, std::string> more = {
      {"console", " --listen 127.0.0.1:0 --assets ."},
      {"context add", " --replace"},
      {"dev", " --listen 127.0.0.1:0 --console 127.0.0.1:0"},
      {"top", " --interval 100ms"}};
  const std::string& example = command.examples.at(0);
  const auto found = more.find(command.words);
  return absl::StrCat(
      command.words, " ",
      absl::StrReplaceAll(example.substr(0, example.find_first_of("|>")), {{"/etc/duetime/", ""}}),
      found == more.end() ? "" : found->second);
}

void FillDirectory(const std::string& path) {
  std::ofstream(path + "/orders.ndjson") << "{\"topic\": \"orders\", \"delay\": \"60s\"}\n";
  std::ofstream(path + "/index.html") << "<p>the page</p>";
  std::ofstream(path + "/tokens.toml") << "[[token]]\nid = \"3f2a90c1\"\nname = \"n\"\nsha256 = \""
                                       << std::string(64, 'a') << "\"\ngroups = []\n";
  mkdir((path + "/duetime").c_str(), 0700);
  std::ofstream(path + "/duetime/contexts.json")
      << "{\"contexts\": [{\"name\": \"prod\", \"current\": true}]}";
}

void ExpectNotWritten(const RunResult& result, const std::string& what) {
  EXPECT_EQ(result.exit.code, cli::kNotWritten) << what << ": " << result.err;
  EXPECT_THAT(result.err, HasSubstr("duetime: cannot write to standard output: ")) << what;
}

TEST(OutputTest, EveryCommandFailsIfItsOutputIsNotWritten) {
  const AnyServer server;
  std::vector<std::string> lines = {"--help", "--version", "help schedule"};
  for (const cli::Command& command : cli::AllCommands()) {
    if (!command.action.run || Elsewhere().contains(command.words)) continue;
    lines.push_back(LineOf(command));
  }
  ASSERT_GT(lines.size(), 60u);
  for (const BrokenOutput& broken : kBroken) {
    // A few at once, because some wait.
    std::vector<std::future<void>> running;
    for (size_t i = 0; i < 4; ++i) {
      running.push_back(std::async(std::launch::async, [&, i] {
        for (size_t j = i; j < lines.size(); j += 4) {
          const TempDirectory directory;
          FillDirectory(directory.path());
          ExpectNotWritten(RunInto(broken, directory.path(), absl::StrCat(kTool, " ", lines[j]),
                                   server.target()),
                           absl::StrCat(broken.name, ": ", lines[j]));
        }
      }));
    }
  }
}

TEST(OutputTest, APipeWithoutAReaderEndsTheToolInSilence) {
  const TempDirectory directory;
  const RunResult result = RunInto({"pipe", "mkfifo p; exec 3<>p 4>p 3<&-;", ">&4 4>&-"},
                                   directory.path(), absl::StrCat(kTool, " man"), "");
  EXPECT_EQ(result.exit.signal, SIGPIPE);
  EXPECT_EQ(result.err, "");
}

TEST(OutputTest, ErrorsAreJsonWithJson) {
  const AnyServer server;
  const TempDirectory directory;
  EXPECT_THAT(
      RunInto(kBroken[0], directory.path(), absl::StrCat(kTool, " info --json"), server.target())
          .err,
      testing::StartsWith("{\"error\":"));
}

class OutputOfServerTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon(); }

  RunResult Cli(const std::string& words) {
    return RunProgram({"/bin/sh", "-c", absl::StrCat("exec ", kTool, " ", words)}, "",
                      Millis(10'000),
                      {{"DUETIME_SERVER", server_->target()}, {"DUETIME_CONTEXT", "none"}});
  }
  RunResult CliInto(const BrokenOutput& broken, const std::string& words) {
    return RunInto(broken, directory_.path(), absl::StrCat(kTool, " ", words), server_->target());
  }

  const TempDirectory directory_;
};

TEST_F(OutputOfServerTest, WhatIsNotWrittenIsNotAcked) {
  ASSERT_EQ(Cli("schedule t p --in 0s --count 3").exit.code, 0);
  for (const BrokenOutput& broken : kBroken) {
    const RunResult subscribed = CliInto(broken, "subscribe t --max 3 --for 5s");
    ExpectNotWritten(subscribed, broken.name);
    EXPECT_THAT(subscribed.err, HasSubstr("acked 0")) << broken.name;
    ExpectNotWritten(CliInto(broken, "pull t --max 3 --wait 5s --ack"), broken.name);
    ExpectNotWritten(CliInto(broken, "pull t --max 3 --wait 5s"), broken.name);
  }
  // At once, because the messages were given back.
  const RunResult received = Cli("subscribe t --max 3 --for 5s");
  EXPECT_EQ(received.exit.code, 0);
  EXPECT_THAT(received.err, HasSubstr("acked 3"));
}

TEST_F(OutputOfServerTest, WhatIsNotWrittenIsNeitherKeptNorCounted) {
  ASSERT_EQ(Cli("schedule t p --in 1h --count 3").exit.code, 0);
  for (const BrokenOutput& broken : kBroken) {
    const RunResult exported = CliInto(broken, "export t");
    ExpectNotWritten(exported, broken.name);
    EXPECT_THAT(exported.err, Not(HasSubstr("exported"))) << broken.name;
    ExpectNotWritten(CliInto(broken, "token create n --file tokens.toml"), broken.name);
    EXPECT_EQ(ReadWholeFile(directory_.Join("tokens.toml")), "") << broken.name;
  }
  // A file on a full disk: what was not written is not counted there, either.
  const std::string file = directory_.Join("out");
  ASSERT_EQ(symlink("/dev/full", file.c_str()), 0);
  EXPECT_EQ(Cli("export t --output " + file).exit.code, cli::kRefused);
}

TEST_F(OutputOfServerTest, LongCommands) {
  for (const BrokenOutput& broken : kBroken) {
    for (const char* line : {"backup -", "backup here", "bench --count 10 --for 100ms",
                             "subscribe nothing --quiet --for 100ms"}) {
      ExpectNotWritten(CliInto(broken, line), absl::StrCat(broken.name, ": ", line));
    }
  }
}

TEST_F(OutputOfServerTest, TheDaemonFailsIfItsOutputIsNotWritten) {
  MustSchedule("t", Millis(3'600'000));
  server_->Stop();
  const std::string data = server_->data_dir();
  int copy = 0;
  for (const BrokenOutput& broken : kBroken) {
    for (const std::string& line :
         {std::string("--help"), std::string("--version"),
          absl::StrCat("--check-config --data-dir ", data), absl::StrCat("--verify ", data),
          absl::StrCat("--repair ", data, " --into ", directory_.Join("copy"), ++copy)}) {
      const RunResult result =
          RunInto(broken, directory_.path(), absl::StrCat(kDaemon, " ", line), "");
      EXPECT_EQ(result.exit.code, 74) << broken.name << " " << line;
      EXPECT_THAT(result.err, HasSubstr("duetimed: cannot write to standard output: "))
          << broken.name << " " << line;
    }
  }
}

TEST_F(OutputOfServerTest, AClosedStreamIsNoFileOfTheDaemon) {
  server_->Stop();
  std::string line = "exec";
  for (const std::string& word : server_->CommandLine()) absl::StrAppend(&line, " '", word, "'");
  Subprocess daemon({"/bin/sh", "-c", line + " <&- >&- 2>&-"}, directory_.Join("log"));
  Connect();
  while (daemon.running() && !server_->IsServing(channel_.get())) daemon.Wait(Millis(20));
  MustSchedule("t", Millis(3'600'000));
  for (const char* stream : {"/0", "/1", "/2"}) {
    EXPECT_EQ(std::filesystem::read_symlink(absl::StrCat("/proc/", daemon.pid(), "/fd", stream)),
              "/dev/null");
  }
}

}  // namespace
}  // namespace duetime::test
