// SPDX-License-Identifier: Apache-2.0
//
// What operators and supervisors see of the daemon: TLS files that change, probes, and the messages
// of sd_notify.
#include <algorithm>
#include <fstream>
#include <grpc/support/log.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

#include "tests/integration/daemon_fixture.h"
#include "tests/support/http_get.h"
#include "tests/support/paths.h"
#include "tests/support/test_certificates.h"

namespace duetime::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class OperationsTest : public DaemonTest {
 protected:
  // gRPC would log each refused certificate.
  OperationsTest() {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }

  // As tools replace files.
  void Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.Join(name);
    std::ofstream(path + ".new", std::ios::trunc) << text;
    std::filesystem::rename(path + ".new", path);
  }

  void WriteServerFiles(const TestAuthority& authority) {
    const CertificatePem pem = authority.Issue();
    // Key and certificate do not fit together in between.
    Write("cert.pem", pem.certificate);
    Write("key.pem", pem.key);
  }

  // A new connection to the server over TLS.
  std::shared_ptr<grpc::Channel> ConnectTls(const TestAuthority& trusted,
                                            const CertificatePem& client = {}) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetSslTargetNameOverride("localhost");
    return grpc::CreateCustomChannel(server_->tcp_target(),
                                     grpc::SslCredentials({.pem_root_certs = trusted.pem(),
                                                           .pem_private_key = client.key,
                                                           .pem_cert_chain = client.certificate}),
                                     arguments);
  }
  bool Serves(const std::shared_ptr<grpc::Channel>& channel) const {
    grpc::ClientContext context;
    context.set_deadline(Clock::now() + Millis(5'000));
    v1::ServerInfoResponse response;
    return v1::Admin::NewStub(channel)->ServerInfo(&context, {}, &response).ok();
  }
  template <typename Condition>
  static bool Comes(Condition condition) {
    const auto deadline = Clock::now() + Millis(10'000);
    constexpr int kBetweenMs = 50;
    while (!condition()) {
      if (Clock::now() > deadline) return false;
      poll(nullptr, 0, kBetweenMs);
    }
    return true;
  }

  const TempDirectory directory_;
};

TEST_F(OperationsTest, AClientsIdentityEndsWithItsCertificate) {
  const TestAuthority authority("a");
  WriteServerFiles(authority);
  Write("ca.pem", authority.pem());
  Write("access.toml",
        "[[rule]]\nwho = [\"cert:localhost\"]\nmay = [\"schedule\", \"subscribe\", \"admin\"]\n"
        "topics = [\"*\"]\n");
  StartDaemon(
      {"--tls-cert=" + directory_.Join("cert.pem"), "--tls-key=" + directory_.Join("key.pem"),
       "--tls-client-ca=" + directory_.Join("ca.pem"),
       "--access-file=" + directory_.Join("access.toml")},
      /*tcp=*/true);
  constexpr int kLifeSeconds = 4;
  const auto begin = Clock::now();
  const auto brief = ConnectTls(authority, authority.Issue(kLifeSeconds));
  const auto lasting = ConnectTls(authority, authority.Issue());
  const auto open = [](const std::shared_ptr<grpc::Channel>& channel,
                       grpc::ClientContext* context) {
    context->set_deadline(Clock::now() + Millis(30'000));
    auto stream = v1::Messages::NewStub(channel)->Subscribe(context);
    v1::SubscribeRequest start;
    start.mutable_start()->set_topic("t");
    stream->Write(start);
    v1::SubscribeResponse started;
    EXPECT_TRUE(stream->Read(&started));
    return stream;
  };
  grpc::ClientContext brief_context;
  grpc::ClientContext lasting_context;
  const auto ended = open(brief, &brief_context);
  const auto goes_on = open(lasting, &lasting_context);
  v1::SubscribeResponse response;
  while (ended->Read(&response)) {
  }
  const grpc::Status status = ended->Finish();
  EXPECT_EQ(InfoOf(status).reason, "INVALID_CREDENTIALS");
  EXPECT_EQ(status.error_message(), "the client certificate has expired");
  EXPECT_GE(Clock::now() - begin, Millis(1'000) * (kLifeSeconds - 1));
  // Its connection still stands.
  grpc::ClientContext context;
  context.set_deadline(Clock::now() + Millis(5'000));
  v1::ScheduleResponse scheduled;
  const grpc::Status refused =
      v1::Messages::NewStub(brief)->Schedule(&context, Request("t", Millis(0)), &scheduled);
  EXPECT_EQ(InfoOf(refused).reason, "INVALID_CREDENTIALS");
  grpc::ClientContext second;
  second.set_deadline(Clock::now() + Millis(5'000));
  EXPECT_TRUE(
      v1::Messages::NewStub(lasting)->Schedule(&second, Request("t", Millis(0)), &scheduled).ok());
  while (goes_on->Read(&response) && response.deliveries().empty()) {
  }
  EXPECT_EQ(response.deliveries_size(), 1);
  lasting_context.TryCancel();
}

TEST_F(OperationsTest, NewTlsFilesAreUsedAndBadOnesAreNot) {
  const TestAuthority first("first");
  const TestAuthority second("second");
  WriteServerFiles(first);
  StartDaemon(
      {"--tls-cert=" + directory_.Join("cert.pem"), "--tls-key=" + directory_.Join("key.pem")},
      /*tcp=*/true, /*metrics=*/true);
  const auto old = ConnectTls(first);
  ASSERT_TRUE(Serves(old));
  Subscription open(old, {.topic = "t"});
  ASSERT_TRUE(open.WaitStarted());

  WriteServerFiles(second);
  EXPECT_TRUE(Comes([&] { return Serves(ConnectTls(second)); }));
  EXPECT_FALSE(Serves(ConnectTls(first)));
  // Files that do not fit together change nothing but the log.
  Write("key.pem", first.Issue().key);
  EXPECT_TRUE(Comes([&] {
    return server_->log().find("cannot read the TLS files: INVALID_ARGUMENT: tls_key") !=
           std::string::npos;
  }));
  EXPECT_TRUE(Serves(ConnectTls(second)));
  // The connection from before lives.
  MustSchedule("t", Millis(0));
  EXPECT_TRUE(open.Next().has_value());
  const std::string metrics = HttpGet(server_->metrics_port(), "/metrics");
  EXPECT_THAT(metrics, HasSubstr("\nduetime_tls_files_stale 1\n"));
  const std::string name = "\nduetime_tls_certificate_not_after_timestamp_seconds ";
  ASSERT_NE(metrics.find(name), std::string::npos);
  const double not_after = std::stod(metrics.substr(metrics.find(name) + name.size()));
  const double now = static_cast<double>(Clock::to_time_t(Clock::now()));
  EXPECT_NEAR(not_after, now + 24 * 3'600, 600);
}

TEST_F(OperationsTest, TheDoctorReadsTheCertificateAndTriesTheToken) {
  const TestAuthority authority("it");
  WriteServerFiles(authority);
  Write("ca.pem", authority.pem());
  // The hash is that of the token "flood".
  Write("tokens.toml",
        "[[token]]\nname = \"alice\"\nsha256 = "
        "\"d8864644c15d33be9c0aef2d08c8fc105adc040de488b0116882a2cc6aa4492b\"\n");
  Write("good", "flood");
  Write("wrong", "nonsense");
  StartDaemon(
      {"--tls-cert=" + directory_.Join("cert.pem"), "--tls-key=" + directory_.Join("key.pem"),
       "--tokens-file=" + directory_.Join("tokens.toml")},
      /*tcp=*/true);
  const auto doctor = [&](const std::string& token) {
    return RunProgram({kTool, "doctor", "--server", server_->tcp_target(), "--tls-ca",
                       directory_.Join("ca.pem"), "--token-file", directory_.Join(token)});
  };
  const RunResult good = doctor("good");
  // The certificate of a test lasts a day.
  EXPECT_EQ(good.exit.code, 3) << good.err;
  EXPECT_THAT(good.out, HasSubstr("bad      certificate the server's TLS certificate ends in 23h"));
  EXPECT_THAT(good.out, HasSubstr("ok       identity    the server knows this client as alice"));
  const RunResult wrong = doctor("wrong");
  EXPECT_EQ(wrong.exit.code, 3) << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("bad      identity    the server refuses the credentials: "));
  EXPECT_THAT(wrong.out, HasSubstr("bad      certificate "));
  EXPECT_THAT(wrong.out, Not(HasSubstr("Start it")));
  Write("empty", "");
  EXPECT_THAT(doctor("empty").out, HasSubstr("the file of the token is empty"));
  // What an editor writes in front of a text is no part of the token.
  Write("bom",
        "\xEF\xBB\xBF"
        "flood\n");
  EXPECT_THAT(doctor("bom").out, HasSubstr("ok       identity    the server knows this client"));
  Write("long", std::string(9'000, 'a'));
  EXPECT_THAT(doctor("long").out, HasSubstr("the headers of the call are larger than the server"));
  for (const std::string& text :
       {std::string("\xFF\xFE"
                    "f\0l\0",
                    6),
        std::string("a b"), std::string("a\nb\n"), std::string("caf\xC3\xA9")}) {
    Write("odd", text);
    EXPECT_THAT(doctor("odd").out, HasSubstr("holds more than a token, or is no ASCII text"))
        << text;
  }
}

TEST_F(OperationsTest, TheToolSaysWhichSideSpeaksTls) {
  const TestAuthority authority("authority");
  WriteServerFiles(authority);
  Write("ca.pem", authority.pem());
  const std::string tls = " --tls-ca " + directory_.Join("ca.pem");
  const auto expect = [&](const std::string& options, const std::string& text) {
    for (const char* line :
         {"info", "info --json", "schedule t p --in 1h", "subscribe t --for 1s", "doctor"}) {
      const auto begin = Clock::now();
      const RunResult run = RunProgram(
          {"/bin/sh", "-c",
           absl::StrCat("exec ", kTool, " ", line, " --server ", server_->tcp_target(), options)},
          "", Millis(30'000), {{"DUETIME_CONTEXT", "none"}});
      // Four tries and the question of which side it is take less than a second.
      EXPECT_LT(Clock::now() - begin, Millis(5'000)) << line;
      // subscribe goes on for its time.
      EXPECT_EQ(run.exit.code, 4) << line;
      EXPECT_THAT(run.out + run.err, HasSubstr(text)) << line;
      EXPECT_THAT(run.out, Not(HasSubstr("Start it"))) << line;
    }
  };
  StartDaemon(
      {"--tls-cert=" + directory_.Join("cert.pem"), "--tls-key=" + directory_.Join("key.pem")},
      /*tcp=*/true);
  expect("", "it speaks TLS: give --tls-ca FILE");
  server_->Stop();
  StartDaemon({}, /*tcp=*/true);
  expect(tls, "it does not speak TLS: leave out --tls-ca");
}

TEST_F(OperationsTest, ClientCertificatesMayBeAskedForOnly) {
  const TestAuthority authority("authority");
  const TestAuthority stranger("stranger");
  WriteServerFiles(authority);
  Write("ca.pem", authority.pem());
  StartDaemon(
      {"--tls-cert=" + directory_.Join("cert.pem"), "--tls-key=" + directory_.Join("key.pem"),
       "--tls-client-ca=" + directory_.Join("ca.pem"), "--tls-client-auth=request"},
      /*tcp=*/true);
  EXPECT_TRUE(Serves(ConnectTls(authority)));
  EXPECT_TRUE(Serves(ConnectTls(authority, authority.Issue())));
  EXPECT_FALSE(Serves(ConnectTls(authority, stranger.Issue())));
  // The authorities are read again, too.
  Write("ca.pem", stranger.pem());
  EXPECT_TRUE(Comes([&] { return Serves(ConnectTls(authority, stranger.Issue())); }));
  EXPECT_FALSE(Serves(ConnectTls(authority, authority.Issue())));
}

TEST_F(OperationsTest, ProbesTellLifeAndReadiness) {
  StartDaemon({"--drain-grace-ms=20000"}, /*tcp=*/false, /*metrics=*/true);
  const int port = server_->metrics_port();
  EXPECT_THAT(HttpGet(port, "/healthz"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(HttpGet(port, "/readyz"), StartsWith("HTTP/1.1 200 OK"));
  // Without a cell.
  EXPECT_THAT(HttpGet(port, "/cellz"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(HttpGet(port, "/other"), HasSubstr("/metrics /healthz /readyz /cellz"));
  // A drain lasts while a message is in flight.
  MustSchedule("t", Millis(0));
  Subscription holding(channel_, {.topic = "t"});
  const auto held = holding.Next();
  ASSERT_TRUE(held.has_value());
  server_->Terminate();
  EXPECT_TRUE(holding.WaitDrain(Millis(10'000)).has_value());
  const std::string draining = HttpGet(port, "/readyz");
  EXPECT_THAT(draining, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(draining, HasSubstr("draining"));
  EXPECT_THAT(HttpGet(port, "/healthz"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(holding.AckAndWait(held->delivery), SettleAnswer::kSettled);
  EXPECT_TRUE(server_->Wait(Millis(20'000)).has_value());
}

TEST_F(OperationsTest, TheSupervisorIsTold) {
  const std::string path = directory_.Join("notify");
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const auto next = [fd] {
    pollfd polled = {.fd = fd, .events = POLLIN, .revents = 0};
    char text[64] = {};
    if (poll(&polled, 1, 10'000) != 1) return std::string("nothing");
    const ssize_t size = recv(fd, text, sizeof(text), 0);
    return std::string(text, static_cast<size_t>(size));
  };
  server_ = std::make_unique<ServerProcess>(ServerProcess::Options{
      .daemon = kDaemon,
      .flags = {},
      .tcp = false,
      .metrics = false,
      .where = TempDirectory::Where::kMemory,
      .unix_socket = true,
      .tls = {},
      .environment = {{"NOTIFY_SOCKET", path}, {"WATCHDOG_USEC", "3000000"}}});
  ASSERT_TRUE(server_->Start()) << server_->error();
  // The housekeeping begins before the server serves.
  EXPECT_EQ(next(), "STATUS=starting");
  EXPECT_EQ(next(), "WATCHDOG=1");
  EXPECT_EQ(next(), "READY=1");
  EXPECT_EQ(next(), "STATUS=serving");
  EXPECT_EQ(next(), "WATCHDOG=1");
  ASSERT_TRUE(server_->Stop().has_value());
  std::string last;
  while (last != "STOPPING=1" && last != "nothing") last = next();
  EXPECT_EQ(last, "STOPPING=1");
  close(fd);
}

TEST_F(OperationsTest, ACrashWritesNoTokensToADisk) {
  StartDaemon();
  const auto limits = [&] {
    return ReadWholeFile("/proc/" + std::to_string(server_->pid()) + "/limits");
  };
  EXPECT_THAT(limits(), ContainsRegex("Max core file size +0 +0 "));
}

TEST_F(OperationsTest, TokensThatAreMadeAtTheSameTimeAreAllKept) {
  const std::string file = "--file=" + directory_.Join("tokens.toml");
  constexpr size_t kTools = 8;
  std::vector<std::unique_ptr<Subprocess>> tools;
  for (size_t i = 0; i < kTools; ++i) {
    tools.push_back(std::make_unique<Subprocess>(
        std::vector<std::string>{kTool, "token", "create", "t" + std::to_string(i), file},
        directory_.Join("log")));
  }
  for (const auto& tool : tools) EXPECT_EQ(tool->Wait(Millis(20'000))->code, 0);
  const std::string listed = RunProgram({kTool, "token", "list", file, "--json"}).out;
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'), kTools) << listed;
}

TEST_F(OperationsTest, AnAuditLogThatCannotBeWrittenSaysSo) {
  StartDaemon({"--audit-log=/dev/full"}, /*tcp=*/false);
  v1::CreateTopicRequest create;
  create.mutable_topic()->set_name("a");
  v1::CreateTopicResponse created;
  grpc::ClientContext context;
  SetDeadline(&context);
  ASSERT_TRUE(v1::Admin::NewStub(channel_)->CreateTopic(&context, create, &created).ok());
  EXPECT_TRUE(Comes([&] { return server_->log().find("audit_lines_lost") != std::string::npos; }));
  EXPECT_THAT(server_->log(), HasSubstr("audit_log: "));
}

}  // namespace
}  // namespace duetime::test
