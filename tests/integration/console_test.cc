// SPDX-License-Identifier: Apache-2.0
//
// Runs the console of the command line tool against the built daemon, and speaks to it as browsers
// and attackers would. The page itself is tested in client/console.
#include <arpa/inet.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "duetime/v1/call.pb.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"

namespace duetime::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  // All bytes that came, also those of further answers.
  std::string text;

  std::string reason() const {
    const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    return json.is_object() && json.contains("error") ? json["error"].value("reason", "") : "";
  }
};

// Sends bytes to a loopback port and reads until the end of the connection.
Answer Exchange(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience = {.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Answer answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    char buffer[65'536];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
      answer.text.append(buffer, static_cast<size_t>(n));
    }
  }
  close(fd);
  const size_t end = answer.text.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = answer.text.substr(0, end);
  answer.body = answer.text.substr(end + 4);
  answer.status = std::atoi(answer.head.substr(9, 3).c_str());
  return answer;
}

const std::vector<std::pair<std::string, std::string>> kEnvironment = {{"DUETIME_CONTEXT", "none"}};

class ConsoleTest : public DaemonTest {
 protected:
  void SetUp() override {
    StartDaemon();
    std::filesystem::create_directory(assets());
    std::ofstream(assets() + "/index.html") << "<p>the page</p>";
    std::ofstream(assets() + "/main.js") << "the script";
    std::ofstream(directory_.Join("secret.js")) << "a secret";
    std::filesystem::create_symlink(directory_.Join("secret.js"), assets() + "/link.js");
    const std::string output = directory_.Join("output");
    std::vector<std::string> words = {kTool,      "console", "--listen", "127.0.0.1:0",
                                      "--assets", assets(),  "--server", server_->target()};
    const std::vector<std::string> more = options();
    words.insert(words.end(), more.begin(), more.end());
    console_ = std::make_unique<Subprocess>(words, output, kEnvironment);
    const auto deadline = Clock::now() + Millis(20'000);
    for (size_t at = std::string::npos; at == std::string::npos;) {
      ASSERT_LT(Clock::now(), deadline) << ReadWholeFile(output);
      ASSERT_FALSE(console_->Wait(Millis(10)).has_value()) << ReadWholeFile(output);
      const std::string text = ReadWholeFile(output);
      at = text.find("/\n");
      if (at != std::string::npos) port_ = std::stoi(text.substr(text.rfind(':', at) + 1));
    }
  }

  virtual std::vector<std::string> options() const { return {}; }
  std::string assets() const { return directory_.Join("assets"); }
  std::string host() const { return absl::StrCat("127.0.0.1:", port_); }

  Answer Get(const std::string& path) const {
    return Exchange(port_, absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host(), "\r\n\r\n"));
  }

  // The request of a call as the page sends it.
  std::string Post(const std::string& method, const std::string& body) const {
    return absl::StrCat("POST /api/duetime.v1.", method, " HTTP/1.1\r\nHost: ", host(),
                        "\r\nContent-Type: application/json\r\nX-Duetime-Console: 1\r\n"
                        "Content-Length: ",
                        body.size(), "\r\n\r\n", body);
  }
  Answer Call(const std::string& method, const std::string& body) const {
    return Exchange(port_, Post(method, body));
  }

  RunResult RunConsole(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {kTool, "console"};
    words.insert(words.end(), options.begin(), options.end());
    return RunProgram(words, "", Millis(30'000), kEnvironment);
  }

  TempDirectory directory_;
  std::unique_ptr<Subprocess> console_;
  int port_ = 0;
};

TEST_F(ConsoleTest, CallsInJson) {
  const Answer scheduled =
      Call("Messages/Schedule",
           R"({"topic": "t", "delay": "3600s", "payload": "aGVsbG8=", "key": "\u00e9"})");
  ASSERT_EQ(scheduled.status, 200) << scheduled.text;
  const std::string id = Json::parse(scheduled.body)["message"]["id"];
  const Answer got =
      Call("Messages/Get", R"({"message_id": ")" + id + R"(", "view": "MESSAGE_VIEW_FULL"})");
  Json message = Json::parse(got.body)["message"];
  EXPECT_EQ(message["payload"], "aGVsbG8=");
  EXPECT_EQ(message["key"], "é");
  EXPECT_EQ(message["payload_bytes"], "5") << "numbers of 64 bits are texts";

  const Answer none = Call("Admin/GetTopic", R"({"name": "none"})");
  EXPECT_EQ(none.status, 404);
  Json error = Json::parse(none.body)["error"];
  EXPECT_EQ(error["code"], "NOT_FOUND");
  EXPECT_EQ(error["reason"], "TOPIC_NOT_FOUND");
  EXPECT_EQ(error["metadata"]["topic"], "none");
  EXPECT_NE(error["message"], "");

  server_->Kill();
  EXPECT_EQ(Call("Admin/ServerInfo", "{}").status, 503);
}

TEST_F(ConsoleTest, EveryUnaryCallIsThereAndNoStreamIs) {
  int calls = 0;
  int streams = 0;
  for (const char* service : {"Messages", "Admin"}) {
    const auto* methods = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        absl::StrCat("duetime.v1.", service));
    ASSERT_NE(methods, nullptr);
    for (int i = 0; i < methods->method_count(); ++i) {
      const auto& method = *methods->method(i);
      const Answer answer = Call(absl::StrCat(service, "/", method.name()), "{}");
      const bool is_stream = method.client_streaming() || method.server_streaming();
      ++(is_stream ? streams : calls);
      EXPECT_EQ(answer.status == 501, is_stream) << method.full_name() << answer.text;
      EXPECT_EQ(answer.reason() == "METHOD_STREAMS", is_stream) << method.full_name();
    }
  }
  EXPECT_GT(calls, 30);
  EXPECT_EQ(streams, 3);
}

TEST_F(ConsoleTest, KeepsAHistory) {
  // The first sample is taken when the console begins to listen.
  Json server;
  const auto deadline = Clock::now() + Millis(20'000);
  do {
    ASSERT_LT(Clock::now(), deadline);
    server = Json::parse(Get("/history.json").body);
  } while (server["times"].empty());
  EXPECT_EQ(server["values"]["accepted"].size(), server["times"].size());
  EXPECT_EQ(Get("/history.json?topic=none").status, 200);
  const std::string foreign =
      absl::StrCat("GET /history.json HTTP/1.1\r\nHost: attacker.example:", port_, "\r\n\r\n");
  EXPECT_EQ(Exchange(port_, foreign).status, 403);
}

class ReadOnlyConsoleTest : public ConsoleTest {
 protected:
  std::vector<std::string> options() const override { return {"--read-only"}; }
};

TEST_F(ReadOnlyConsoleTest, RefusesEveryCallThatDoesMoreThanRead) {
  int refused = 0;
  for (const char* service : {"Messages", "Admin"}) {
    const auto* methods = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        absl::StrCat("duetime.v1.", service));
    ASSERT_NE(methods, nullptr);
    for (int i = 0; i < methods->method_count(); ++i) {
      const auto& method = *methods->method(i);
      if (method.client_streaming() || method.server_streaming()) continue;
      const bool reads = method.options().GetExtension(v1::call).repeat() == v1::CALL_REPEAT_READ;
      const Answer answer = Call(absl::StrCat(service, "/", method.name()), "{}");
      EXPECT_EQ(answer.reason() == "CONSOLE_READ_ONLY", !reads) << method.full_name();
      if (reads) continue;
      ++refused;
      EXPECT_EQ(answer.status, 403) << method.full_name();
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_EQ(Json::parse(Get("/console.json").body)["read_only"], true);
}

TEST_F(ConsoleTest, RefusesWhatThePageDoesNotSend) {
  const std::string good = Post("Admin/ServerInfo", "{}");
  ASSERT_EQ(Exchange(port_, good).status, 200);
  const auto with = [&good](const std::string& from, const std::string& to) {
    EXPECT_THAT(good, HasSubstr(from));
    return absl::StrReplaceAll(good, {{from, to}});
  };
  const std::string here = "Host: " + host();
  struct Case {
    std::string name;
    std::string request;
    int status;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {"a foreign host", with(here, "Host: attacker.example"), 403, "FOREIGN_HOST"},
      {"a foreign host, our port", with(here, absl::StrCat("Host: attacker.example:", port_)), 403,
       "FOREIGN_HOST"},
      {"our host, no port", with(here, "Host: 127.0.0.1"), 403, "FOREIGN_HOST"},
      {"no host", with(here + "\r\n", ""), 403, "FOREIGN_HOST"},
      {"two hosts", with(here, here + "\r\nHost: attacker.example"), 403, "FOREIGN_HOST"},
      {"a foreign origin", with(here, here + "\r\nOrigin: http://attacker.example"), 403,
       "FOREIGN_ORIGIN"},
      {"an origin without a name", with(here, here + "\r\nOrigin: null"), 403, "FOREIGN_ORIGIN"},
      {"another port", with(here, here + "\r\nOrigin: http://127.0.0.1:1"), 403, "FOREIGN_ORIGIN"},
      {"another scheme", with(here, here + "\r\nOrigin: https://" + host()), 403, "FOREIGN_ORIGIN"},
      {"text", with("application/json", "text/plain"), 415, "NOT_JSON"},
      {"a form", with("application/json", "multipart/form-data; boundary=x"), 415, "NOT_JSON"},
      {"no type", with("Content-Type: application/json\r\n", ""), 415, "NOT_JSON"},
      {"without the header", with("X-Duetime-Console: 1\r\n", ""), 403, "HEADER_MISSING"},
      {"a long body", with("Content-Length: 2", "Content-Length: 2097153"), 413, "BODY_TOO_LARGE"},
      {"no length", with("Content-Length: 2\r\n", ""), 411, "LENGTH_MISSING"},
      {"chunks", with("Content-Length: 2", "Transfer-Encoding: chunked"), 415, "ENCODING_UNKNOWN"},
      {"compressed", with("Content-Length: 2", "Content-Length: 2\r\nContent-Encoding: gzip"), 415,
       "ENCODING_UNKNOWN"},
      // The library cuts the error to the range.
      {"ranges", with(here, here + "\r\nRange: bytes=0-1"), 400, ""},
      {"PUT", with("POST ", "PUT "), 405, "METHOD_NOT_ALLOWED"},
      {"OPTIONS", with("POST ", "OPTIONS "), 405, "METHOD_NOT_ALLOWED"},
      {"GET of a call", with("POST ", "GET "), 404, "PATH_UNKNOWN"},
      {"a path outside", with("/api/", "/other/"), 404, "PATH_UNKNOWN"},
      {"a long path", with("ServerInfo", std::string(2'000, 'x')), 414, "PATH_TOO_LONG"},
      {"an unknown call", with("ServerInfo", "NoSuchCall"), 501, "METHOD_UNKNOWN"},
      {"another package", with("duetime.v1.Admin/ServerInfo", "grpc.health.v1.Health/Check"), 501,
       "METHOD_UNKNOWN"},
      {"not JSON", with("\r\n\r\n{}", "\r\n\r\n{x"), 400, "MALFORMED_REQUEST"},
  };
  for (const Case& one : cases) {
    const Answer answer = Exchange(port_, one.request);
    EXPECT_EQ(answer.status, one.status) << one.name << answer.text;
    EXPECT_EQ(answer.reason(), one.reason) << one.name;
    EXPECT_THAT(answer.head, HasSubstr("frame-ancestors 'none'")) << one.name;
  }
  const std::string local = absl::StrCat("Host: localhost:", port_);
  EXPECT_EQ(Exchange(port_, with(here, local + "\r\nOrigin: http://" + host())).status, 200);
}

// A browser sends the body of a text without asking. Were it left on the connection, it would be
// read as a request.
TEST_F(ConsoleTest, TheBodyOfARefusedRequestIsNoRequest) {
  MustSchedule("victim", Millis(3'600'000));
  const std::string hidden = Post("Admin/PauseTopic", R"({"name": "victim"})");
  const Answer answer = Exchange(
      port_, absl::StrCat("POST /api/duetime.v1.Admin/PauseTopic HTTP/1.1\r\nHost: ", host(),
                          "\r\nContent-Type: text/plain\r\nContent-Length: ", hidden.size(),
                          "\r\n\r\n", hidden));
  EXPECT_EQ(answer.status, 415);
  EXPECT_EQ(answer.text.find("HTTP/1.1", 1), std::string::npos) << answer.text;
  Json topic = Json::parse(Call("Admin/GetTopic", R"({"name": "victim"})").body)["topic"];
  EXPECT_EQ(topic["settings"]["paused"], false);
}

TEST_F(ConsoleTest, ServesTheFilesOfItsDirectoryOnly) {
  const Answer page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "<p>the page</p>");
  for (const char* header :
       {"Content-Type: text/html", "Content-Security-Policy: default-src 'none'; script-src 'self'",
        "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
        "X-Frame-Options: DENY"}) {
    EXPECT_THAT(page.head, HasSubstr(header));
  }
  EXPECT_THAT(page.head, testing::Not(HasSubstr("unsafe-inline")));
  EXPECT_EQ(Get("/main.js?x=1").body, "the script");
  for (const char* path :
       {"/../secret.js", "/%2e%2e/secret.js", "/..%2fsecret.js", "/x/../../secret.js", "/link.js",
        "//etc/passwd", "/.%00/secret.js", "/%5c..%5csecret.js", "/index.html/", "/none.js"}) {
    const Answer answer = Get(path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_THAT(answer.text, testing::Not(HasSubstr("a secret"))) << path;
  }
  const Json about = Json::parse(Get("/console.json").body, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(about.is_object());
  EXPECT_EQ(about["options"][0], "--server");
  EXPECT_EQ(about["options"][1], server_->target());
}

TEST_F(ConsoleTest, ListensOnTheLoopbackOnly) {
  for (const char* address :
       {"0.0.0.0:0", "192.0.2.1:0", "[::]:0", "[2001:db8::1]:0", "example.com:0", "7790",
        "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:-1", ":7790", "[::1:0", ""}) {
    const RunResult result = RunConsole({"--listen", address, "--assets", assets()});
    EXPECT_EQ(result.exit.code, 2) << address;
    EXPECT_THAT(result.err, HasSubstr("--listen")) << address;
  }
  EXPECT_THAT(RunConsole({"--listen", "0.0.0.0:0"}).err,
              HasSubstr("without --login and a certificate"));
}

TEST_F(ConsoleTest, SaysWhyItDoesNotStart) {
  const RunResult missing = RunConsole({"--assets", directory_.Join("none")});
  EXPECT_EQ(missing.exit.code, 1);
  EXPECT_THAT(missing.err, HasSubstr(directory_.Join("none")));
  EXPECT_THAT(missing.err, HasSubstr("npm run build"));
  const RunResult twice = RunConsole({"--listen", host(), "--assets", assets()});
  EXPECT_EQ(twice.exit.code, 1);
  EXPECT_THAT(twice.err, HasSubstr("cannot listen on " + host()));
  EXPECT_EQ(RunConsole({"--assets", assets(), "--tls-ca", directory_.Join("none")}).exit.code, 1);
}

TEST_F(ConsoleTest, EndsWithASignal) {
  console_->Signal(SIGTERM);
  const auto ended = console_->Wait(Millis(10'000));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code, 0);
}

}  // namespace
}  // namespace duetime::test
