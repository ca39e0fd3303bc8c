// SPDX-License-Identifier: Apache-2.0
//
// How a command finds its server, contexts, and what the tool says about lines with mistyped words.
#include "client/cli/connection/connection.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/connection/connection_error.h"
#include "client/cli/help/suggest.h"
#include "tests/support/temp_directory.h"
#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Variables = std::map<std::string, std::string>;

// Sets environment variables until its end.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const Variables variables_;
};

// Server, certificates, certificate, key, token and timeout, between blanks.
std::string ConnectionOf(const std::string& line) {
  const auto parsed = Parse(line);
  const auto* const invocation = std::get_if<Invocation>(&parsed);
  if (invocation == nullptr) return "refused";
  const Settings& s = invocation->settings;
  return s.server.target + " " + s.server.tls_ca_file + " " + s.server.tls_cert_file + " " +
         s.server.tls_key_file + " " + s.server.token_file + " " + absl::FormatDuration(s.deadline);
}

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

Result TypeLine(const std::string& line) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result result;
  const auto parsed = Parse(line);
  const auto* const invocation = std::get_if<Invocation>(&parsed);
  result.code = invocation == nullptr ? std::get<ExitCode>(parsed) : invocation->Run();
  std::fflush(nullptr);
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

TEST(ConnectionTest, ServersAsPeopleWriteThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"localhost", "localhost:7788"},
      {"10.0.0.7:99", "10.0.0.7:99"},
      {"http://localhost/", "localhost:7788"},
      {"::1", "[::1]:7788"},
      {"[::1]", "[::1]:7788"},
      {"[::1]:99", "[::1]:99"},
      {"unix:/run/duetime.sock", "unix:/run/duetime.sock"},
      {"ipv4:10.0.0.7:99", "ipv4:10.0.0.7:99"},
      {"dns:///duetime:99", "dns:///duetime:99"},
  };
  for (const auto& [text, target] : cases) {
    const auto parsed = Parse(std::string("info --server ") + text);
    const auto* const invocation = std::get_if<Invocation>(&parsed);
    ASSERT_NE(invocation, nullptr) << text;
    EXPECT_EQ(invocation->settings.server.target, target);
  }
  for (const char* const text : {"https://localhost", "http://localhost:99/path"}) {
    EXPECT_EQ(std::get<ExitCode>(Parse(std::string("info --server ") + text)), kBadUsage) << text;
  }
}

TEST(ConnectionTest, AnOptionWinsOverTheEnvironmentWhichWinsOverTheContext) {
  const test::TempDirectory directory;
  const ScopedEnvironment home({{"XDG_CONFIG_HOME", directory.path()}});
  ASSERT_EQ(TypeLine("context add c --server c --tls-ca /c/ca --tls-cert /c/cert --tls-key /c/key "
                     "--token-file /c/token --timeout 3s")
                .code,
            kDone);
  struct Case {
    Variables environment;
    const char* line;
    const char* connection;
  };
  const std::vector<Case> cases = {
      {{}, "info", "c:7788 /c/ca /c/cert /c/key /c/token 3s"},
      {{{"DUETIME_SERVER", "e"}}, "info", "e:7788 /c/ca /c/cert /c/key /c/token 3s"},
      {{{"DUETIME_SERVER", "e"}}, "info --server o", "o:7788 /c/ca /c/cert /c/key /c/token 3s"},
      {{{"DUETIME_TLS_CA", "/e/ca"},
        {"DUETIME_TLS_CERT", "/e/cert"},
        {"DUETIME_TLS_KEY", "/e/key"},
        {"DUETIME_TOKEN_FILE", "/e/token"},
        {"DUETIME_TIMEOUT", "2s"}},
       "info",
       "c:7788 /e/ca /e/cert /e/key /e/token 2s"},
      {{{"DUETIME_TLS_CA", "/e/ca"}, {"DUETIME_TIMEOUT", "2s"}},
       "info --tls-ca /o/ca --tls-cert /o/cert --tls-key /o/key --token-file /o/token --timeout 1s",
       "c:7788 /o/ca /o/cert /o/key /o/token 1s"},
      {{}, "info --context none", "127.0.0.1:7788     10s"},
      {{{"DUETIME_CONTEXT", "none"}}, "info", "127.0.0.1:7788     10s"},
      {{{"DUETIME_CONTEXT", "none"}},
       "info --context c",
       "c:7788 /c/ca /c/cert /c/key /c/token 3s"},
      // A context that the line names is whole: it must not lead to the environment's server.
      {{{"DUETIME_SERVER", "e"}, {"DUETIME_TLS_CA", "/e/ca"}, {"DUETIME_TIMEOUT", "2s"}},
       "info --context c",
       "c:7788 /c/ca /c/cert /c/key /c/token 3s"},
      {{{"DUETIME_SERVER", "e"}},
       "info --context=c --server o",
       "o:7788 /c/ca /c/cert /c/key /c/token 3s"},
      {{{"DUETIME_SERVER", "e"}}, "info --context none", "e:7788     10s"},
      // An empty variable is no value.
      {{{"DUETIME_SERVER", ""}}, "info", "c:7788 /c/ca /c/cert /c/key /c/token 3s"},
      {{}, "info --context d", "refused"},
      {{}, "info --server ''", "refused"},
      {{{"DUETIME_TIMEOUT", "soon"}}, "info", "refused"},
  };
  for (const Case& c : cases) {
    Variables variables = c.environment;
    variables.emplace("DUETIME_CONTEXT", "c");
    const ScopedEnvironment environment(variables);
    EXPECT_EQ(ConnectionOf(c.line), c.connection) << c.line;
  }
}

TEST(ContextTest, TheLifeOfAContext) {
  const test::TempDirectory directory;
  const ScopedEnvironment home({{"XDG_CONFIG_HOME", directory.path()}});
  const std::string path = directory.Join("duetime/contexts.json");
  struct Step {
    const char* line;
    ExitCode code;
    const char* out;
    const char* err = "";
  };
  const std::vector<Step> steps = {
      {"context list", kDone, "", "nothing\n"},
      {"context show", kNotAsWished, "", "no context is used"},
      {"context add prod --server h --tls-key key.pem", kDone, "context prod is added"},
      {"context add prod --server i", kRefused, "", "--replace replaces it"},
      {"context add home", kDone, "context home is added"},
      {"context use prod", kDone, "context prod is used from now on"},
      {"context list", kDone, "\n*  prod  h"},
      {"context list", kDone, "\n   home  -"},
      {"context show", kDone, "server        h\n"},
      {"context add prod --server i --replace", kDone, "context prod is replaced"},
      {"context show", kDone, "server        i\n"},
      {"context show home --json", kDone, "{\"name\":\"home\",\"current\":false,"},
      {"context remove prod", kDone, "context prod is removed"},
      {"context show", kNotAsWished, ""},
      {"context remove prod", kNotAsWished, "", "there is no context \"prod\""},
      {"context use prod", kNotAsWished, "", "there is no context \"prod\""},
      {"context use home", kDone, ""},
      {"context use none", kDone, "no context is used"},
      {"context show", kNotAsWished, ""},
  };
  for (const Step& step : steps) {
    const Result result = TypeLine(step.line);
    EXPECT_EQ(result.code, step.code) << step.line << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr(step.out)) << step.line;
    EXPECT_THAT(result.err, HasSubstr(step.err)) << step.line;
  }
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}), 1);
}

TEST(ContextTest, NamesOfFilesAreAbsolute) {
  const test::TempDirectory directory;
  const ScopedEnvironment home({{"XDG_CONFIG_HOME", directory.path()}});
  ASSERT_EQ(TypeLine("context add c --tls-ca ca.pem --tls-key ../key.pem --token-file t").code,
            kDone);
  const absl::StatusOr<ContextFile> file = ReadContexts();
  ASSERT_TRUE(file.ok());
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(file->contexts(0).tls_ca(), here / "ca.pem");
  EXPECT_EQ(file->contexts(0).tls_key(), here.parent_path() / "key.pem");
  EXPECT_EQ(file->contexts(0).tls_cert(), "");
  EXPECT_EQ(file->contexts(0).token_file(), here / "t");
}

TEST(ContextTest, ADamagedFileIsNamed) {
  const test::TempDirectory directory;
  const ScopedEnvironment home({{"XDG_CONFIG_HOME", directory.path()}});
  std::filesystem::create_directories(directory.Join("duetime"));
  std::ofstream(directory.Join("duetime/contexts.json")) << "{\"contexts\": 7}";
  for (const auto& [line, code] :
       {std::pair{"context list", kRefused}, std::pair{"info --context c", kBadUsage}}) {
    const Result result = TypeLine(line);
    EXPECT_EQ(result.code, code) << line;
    EXPECT_THAT(result.err, HasSubstr("duetime/contexts.json is not a file of contexts")) << line;
  }
  // These need no context.
  EXPECT_EQ(ConnectionOf("info --context none"), "127.0.0.1:7788     10s");
}

TEST(SuggestTest, NamesTheWordAndWhatItResembles) {
  const std::pair<const char*, const char*> cases[] = {
      {"schedul t", "there is no command \"schedul\"; did you mean schedule? (see duetime --help)"},
      {"sbuscribe t", "did you mean subscribe?"},
      {"topic crate t",
       "there is no command \"crate\"; did you mean create? (see duetime topic --help)"},
      {"nothingLikeIt", "there is no command \"nothingLikeIt\" (see duetime --help)"},
      // As in other tools.
      {"server", "there is no command \"server\"; did you mean info? (see duetime --help)"},
      {"server info", "\"server\" is one word too many; did you mean duetime info?"},
      {"recurrence list", "\"recurrence\" is one word too many; did you mean duetime recur?"},
      {"topic ls", "there is no command \"ls\" (see duetime topic --help)"},
      // An option of other commands.
      {"list --topic t",
       "there is no option --topic: write TOPIC without it (see duetime list --help)"},
      {"topic", "say which command: create, get, list, update, "},
      {"schedule t p --inn 5s",
       "there is no option --inn; did you mean --in? (see duetime schedule --help)"},
      {"schedule t p --in 5s --lable a=1", "there is no option --lable; did you mean --label?"},
      {"list t --page_size=4", "there is no option --page_size; did you mean --page-size?"},
      // In the middle of a word.
      {"list t --limit 5",
       "there is no option --limit; did you mean --page-size? (see duetime list --help)"},
      {"schedule t p --delay=5s", "there is no option --delay; did you mean --in?"},
      {"cancel x --limit 5", "there is no option --limit (see duetime cancel --help)"},
      {"dlq list t --dead", "there is no option --dead; did you mean --dead-letter-topic?"},
      // An option of every command.
      {"info --jsn", "there is no option --jsn; did you mean --json?"},
      {"--tls-caa x info", "there is no option --tls-caa; did you mean --tls-ca?"},
      {"info --nothing-like-it", "there is no option --nothing-like-it (see duetime info --help)"},
      {"info -x", "there is no option -x (see"},
      {"schedule t p --in 5s more", "\"more\" is one word too many (see duetime schedule --help)"},
      {"schedule t p --in 5s --late bury", "--late: bury not in {deliver,drop,dead-letter} (see"},
  };
  for (const auto& [line, text] : cases) {
    const Result result = TypeLine(line);
    EXPECT_EQ(result.code, kBadUsage) << line;
    EXPECT_THAT(result.err, StartsWith("duetime: ")) << line;
    EXPECT_THAT(result.err, HasSubstr(text)) << line;
    EXPECT_THAT(result.err, Not(HasSubstr("expected"))) << line;
  }
}

TEST(SuggestTest, TheClosestWordWins) {
  const std::vector<std::string> words = {"list", "get", "delete", "--label", "--late"};
  const std::pair<const char*, const char*> cases[] = {
      {"lsit", "list"},   {"lists", "list"},    {"gte", "get"},      {"xyz", ""}, {"", ""},
      {"dele", "delete"}, {"--lab", "--label"}, {"--lat", "--late"}, {"--", ""},  {"-l", ""},
  };
  for (const auto& [word, closest] : cases) EXPECT_EQ(Closest(word, words), closest) << word;
}

TEST(ConnectionErrorTest, OnlyWhatGrpcDoesNotSayGetsOtherWords) {
  const client::ServerAddress plain = {.target = "127.0.0.1:1"};
  const client::ServerAddress tls = {.target = "127.0.0.1:1", .tls_ca_file = "ca.pem"};
  const absl::Status refused = absl::UnavailableError(
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to "
      "connect to remote host: Connection refused");
  const absl::Time begin = absl::Now();
  EXPECT_EQ(NamedConnectionError(plain, refused), refused);
  EXPECT_EQ(NamedConnectionError(tls, refused), refused);
  const absl::Status unknown = absl::UnavailableError("DNS resolution failed for h:1");
  EXPECT_EQ(NamedConnectionError(plain, unknown), unknown);
  const absl::Status late = absl::DeadlineExceededError("Deadline Exceeded");
  EXPECT_EQ(NamedConnectionError(plain, late), late);
  EXPECT_EQ(NamedConnectionError({.target = "unix:/s"}, absl::UnavailableError("Socket closed")),
            absl::UnavailableError("Socket closed"));
  EXPECT_LT(absl::Now() - begin, absl::Milliseconds(900)) << "nobody was asked";
  EXPECT_THAT(std::string(NamedConnectionError(
                              tls, absl::UnavailableError("Ssl handshake failed: SSL_ERROR_SSL: "
                                                          "SSL routines::wrong version number"))
                              .message()),
              StartsWith("it does not speak TLS"));
  EXPECT_THAT(std::string(NamedConnectionError(plain, absl::ResourceExhaustedError(
                                                          "received initial metadata size exceeds "
                                                          "limit"))
                              .message()),
              HasSubstr("headers of the call are larger"));
}

}  // namespace
}  // namespace duetime::cli
