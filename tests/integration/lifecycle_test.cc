// SPDX-License-Identifier: Apache-2.0
//
// Starts and crashes: the data that survives, and the starts that the daemon refuses.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <random>
#include <set>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"

namespace duetime::test {
namespace {

class LifecycleTest : public DaemonTest {
 protected:
  // Runs a daemon that is expected to exit instead of serving.
  static RunResult RunDaemon(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kDaemon);
    return RunProgram(arguments);
  }
};

TEST_F(LifecycleTest, AfterAKillEverythingAcknowledgedArrivesAndNothingCancelled) {
  StartDaemon({"--shards=2"});
  const auto seed = static_cast<uint32_t>(std::random_device{}());
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::map<std::string, Clock::time_point> expected;
  std::set<std::string> cancelled;
  std::set<std::string> acked;
  {
    Subscription subscription(channel_, Subscription::Start{.topic = "t", .messages = 50});
    for (int i = 0; i < 400; ++i) {
      const v1::Message message = MustSchedule("t", Millis(random() % 1'500));
      if (random() % 4 == 0 &&
          MustCancel(message.id()).outcome() == v1::CancelResponse::OUTCOME_CANCELLED) {
        cancelled.insert(message.id());
      } else {
        expected[message.id()] = ToTime(message.deliver_time());
      }
      if (random() % 4 == 0) {
        const auto received = subscription.Next(Millis(0));
        if (received.has_value() &&
            subscription.AckAndWait(received->delivery) == SettleAnswer::kSettled) {
          acked.insert(received->delivery.message_id());
        }
      }
    }
    server_->Kill();
  }
  EXPECT_GT(cancelled.size(), 10u);
  for (const std::string& id : acked) EXPECT_EQ(expected.erase(id), 1u);
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  while (!expected.empty()) {
    const auto received = subscription.Next();
    ASSERT_TRUE(received.has_value()) << expected.size() << " lost";
    const std::string& id = received->delivery.message_id();
    EXPECT_EQ(cancelled.count(id), 0u) << "cancelled, and delivered";
    EXPECT_EQ(acked.count(id), 0u) << "acked, and delivered again";
    const auto due = expected.find(id);
    ASSERT_NE(due, expected.end()) << "unknown";
    EXPECT_GE(received->time, due->second);
    EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
    expected.erase(due);
  }
  EXPECT_TRUE(subscription.StaysQuiet(Millis(300)));
}

TEST_F(LifecycleTest, TopicsAndFarMessagesSurviveACleanRestart) {
  StartDaemon({"--shards=3"});
  std::vector<v1::Message> messages;
  for (int i = 0; i < 50; ++i) {
    messages.push_back(MustSchedule("topic/" + std::to_string(i), Millis(86'400'000)));
  }
  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  for (const v1::Message& accepted : messages) {
    v1::Message message;
    ASSERT_TRUE(Get(accepted.id(), &message, v1::MESSAGE_VIEW_FULL).ok());
    EXPECT_EQ(message.topic(), accepted.topic());
    EXPECT_EQ(message.payload(), "p");
    EXPECT_EQ(message.state(), v1::Message::STATE_SCHEDULED);
    const v1::CancelResponse cancelled = MustCancel(accepted.id());
    EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  }
  EXPECT_EQ(Info().shards(), 3);
}

TEST_F(LifecycleTest, ATokenOfARunThatEndedSettlesNothing) {
  StartDaemon();
  const v1::Message accepted = MustSchedule("t", Millis(0));
  std::string old_token;
  {
    Subscription subscription(channel_, Subscription::Start{.topic = "t"});
    const auto received = subscription.Next();
    ASSERT_TRUE(received.has_value());
    old_token = received->delivery.lease_token();
    server_->Kill();
  }
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  const auto received = subscription.Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.message_id(), accepted.id());
  EXPECT_TRUE(received->delivery.maybe_redelivered());
  EXPECT_NE(received->delivery.lease_token(), old_token);
  v1::SubscribeRequest request;
  request.add_settlements()->set_lease_token(old_token);
  ASSERT_TRUE(subscription.Send(request));
  EXPECT_EQ(subscription.Answer(old_token), SettleAnswer::kLeaseLost);
  EXPECT_EQ(StateOf(accepted.id()), v1::Message::STATE_IN_FLIGHT);
}

TEST_F(LifecycleTest, ASecondDaemonOnTheSameDataDirectoryRefuses) {
  StartDaemon();
  const RunResult second =
      RunDaemon({"--data-dir=" + server_->data_dir(),
                 "--listen=unix:" + server_->directory().Join("s2"), "--metrics-listen", ""});
  EXPECT_NE(second.exit.code, 0);
  EXPECT_EQ(second.exit.signal, 0) << second.err;
  EXPECT_NE(second.err.find(server_->data_dir()), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("another"), std::string::npos) << second.err;
  MustSchedule("t", Millis(3'600'000));
}

TEST_F(LifecycleTest, ASecondDaemonOnTheSamePortOrSocketRefuses) {
  StartDaemon({}, /*tcp=*/true);
  const TempDirectory directory;
  for (const std::string& address : {server_->tcp_target(), server_->target()}) {
    const RunResult second = RunDaemon(
        {"--data-dir=" + directory.Join("data"), "--listen=" + address, "--metrics-listen", ""});
    EXPECT_NE(second.exit.code, 0) << address;
    EXPECT_EQ(second.exit.signal, 0) << second.err;
    EXPECT_NE(second.err.find(address.substr(address.find('/') + 1)), std::string::npos)
        << second.err;
  }
  // The first daemon still serves, on both addresses.
  MustSchedule("t", Millis(3'600'000));
  client::ServerAddress address;
  address.target = server_->tcp_target();
  channel_ = *client::OpenChannel(address);
  messages_ = v1::Messages::NewStub(channel_);
  MustSchedule("t", Millis(3'600'000));
}

TEST_F(LifecycleTest, ASocketLeftByACrashIsTakenOver) {
  StartDaemon();
  server_->Kill();
  EXPECT_TRUE(std::filesystem::exists(server_->directory().Join("s")));
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  MustSchedule("t", Millis(3'600'000));
}

TEST_F(LifecycleTest, PlaintextBeyondLoopbackNeedsItsFlag) {
  const TempDirectory directory;
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    const RunResult refused =
        RunDaemon({"--data-dir=" + directory.Join("data"), std::string("--listen=") + address,
                   "--metrics-listen", ""});
    EXPECT_NE(refused.exit.code, 0) << address;
    EXPECT_NE(refused.err.find("insecure"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("tls"), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(directory.Join("data"))) << "nothing was begun";
  StartDaemon({"--listen=0.0.0.0:0", "--insecure-nonloopback"});
  MustSchedule("t", Millis(3'600'000));
}

TEST_F(LifecycleTest, CheckConfigSaysWhatIsWrongAndStartsNothing) {
  const TempDirectory directory;
  const std::string data = directory.Join("data");
  const RunResult good = RunDaemon({"--check-config", "--data-dir=" + data});
  EXPECT_EQ(good.exit.code, 0) << good.err;
  const RunResult bad =
      RunDaemon({"--check-config", "--data-dir=" + data, "--payload-bytes-max=0"});
  EXPECT_NE(bad.exit.code, 0);
  EXPECT_NE(bad.err.find("payload"), std::string::npos) << bad.err;
  std::ofstream(directory.Join("duetime.toml")) << "data_dir = \"" << data << "\"\nnonsense = 1\n";
  const RunResult file =
      RunDaemon({"--check-config", "--config=" + directory.Join("duetime.toml")});
  EXPECT_NE(file.exit.code, 0);
  EXPECT_NE(file.err.find("nonsense"), std::string::npos) << file.err;
  EXPECT_FALSE(std::filesystem::exists(data));
  EXPECT_NE(RunDaemon({"--listen=127.0.0.1:0"}).exit.code, 0) << "data_dir is required";
}

TEST_F(LifecycleTest, AFileConfiguresAndAFlagOverrides) {
  const TempDirectory directory;
  std::ofstream(directory.Join("duetime.toml"))
      << "payload_bytes_max = 100\ntopics_max = 5\nshards = 2\n";
  StartDaemon({"--config=" + directory.Join("duetime.toml"), "--topics-max=6"});
  const v1::ServerInfoResponse info = Info();
  EXPECT_EQ(info.limits().payload_bytes_max(), 100);
  EXPECT_EQ(info.limits().topics_max(), 6);
  EXPECT_EQ(info.shards(), 2);
}

// Certificates of the test's own authority, made by the openssl program.
class TlsTest : public LifecycleTest {
 protected:
  void SetUp() override {
    Openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=test authority", "-keyout", Path("ca.key"), "-out",
             Path("ca.pem")});
    Sign("server", "subjectAltName=IP:127.0.0.1,DNS:localhost");
    Sign("client", "extendedKeyUsage=clientAuth");
    Openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=stranger", "-keyout", Path("stranger.key"), "-out",
             Path("stranger.pem")});
  }

  std::string Path(const std::string& name) const { return directory_.Join(name); }

  void Openssl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/usr/bin/openssl");
    const RunResult result = RunProgram(arguments);
    ASSERT_EQ(result.exit.code, 0) << result.err;
  }

  void Sign(const std::string& name, const std::string& extension) {
    std::ofstream(Path(name + ".ext")) << extension << "\n";
    Openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
             "/CN=" + name, "-keyout", Path(name + ".key"), "-out", Path(name + ".csr")});
    Openssl({"x509", "-req", "-in", Path(name + ".csr"), "-CA", Path("ca.pem"), "-CAkey",
             Path("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", Path(name + ".ext"),
             "-out", Path(name + ".pem")});
  }

  void StartTls(bool ask_clients) {
    std::vector<std::string> flags = {"--tls-cert=" + Path("server.pem"),
                                      "--tls-key=" + Path("server.key")};
    if (ask_clients) flags.push_back("--tls-client-ca=" + Path("ca.pem"));
    client::ServerAddress address;
    address.tls_ca_file = Path("ca.pem");
    address.tls_cert_file = Path("client.pem");
    address.tls_key_file = Path("client.key");
    server_ = std::make_unique<ServerProcess>(
        ServerProcess::Options{.daemon = kDaemon,
                               .flags = flags,
                               .tcp = true,
                               .metrics = false,
                               .where = TempDirectory::Where::kMemory,
                               .unix_socket = false,
                               .tls = address});
    ASSERT_TRUE(server_->Start()) << server_->error();
  }

  // Makes a call with these files and returns its status.
  grpc::Status Call(client::ServerAddress address) {
    address.target = server_->tcp_target();
    const auto channel = *client::OpenChannel(address);
    grpc::ClientContext context;
    context.set_deadline(Clock::now() + Millis(5'000));
    v1::ServerInfoResponse response;
    return v1::Admin::NewStub(channel)->ServerInfo(&context, {}, &response);
  }

  client::ServerAddress With(const std::string& ca, const std::string& cert = "") const {
    client::ServerAddress address;
    if (!ca.empty()) address.tls_ca_file = Path(ca + ".pem");
    if (!cert.empty()) {
      address.tls_cert_file = Path(cert + ".pem");
      address.tls_key_file = Path(cert + ".key");
    }
    return address;
  }

  TempDirectory directory_;
};

TEST_F(TlsTest, AServerIsTrustedByItsAuthority) {
  StartTls(/*ask_clients=*/false);
  const grpc::Status status = Call(With("ca"));
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Call(With("stranger")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(Call(With("")).ok()) << "plaintext on a TLS port";
}

TEST_F(TlsTest, ClientsShowTheirCertificateWhereAsked) {
  StartTls(/*ask_clients=*/true);
  const grpc::Status status = Call(With("ca", "client"));
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(Call(With("ca")).ok()) << "without a certificate";
  EXPECT_FALSE(Call(With("ca", "stranger")).ok()) << "with one of another authority";
}

TEST_F(TlsTest, FilesThatDoNotFitAreRefused) {
  const TempDirectory data;
  const std::vector<std::string> common = {"--data-dir=" + data.Join("data"),
                                           "--listen=127.0.0.1:0", "--metrics-listen", ""};
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--tls-cert=" + Path("server.pem")},
           {"--tls-cert=" + Path("server.pem"), "--tls-key=" + Path("missing.key")},
           {"--tls-cert=" + Path("server.pem"), "--tls-key=" + Path("client.key")},
           {"--tls-cert=" + Path("server.key"), "--tls-key=" + Path("server.key")},
           {"--tls-client-ca=" + Path("ca.pem")}}) {
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const RunResult result = RunDaemon(arguments);
    EXPECT_GT(result.exit.code, 0) << flags.back();
    EXPECT_NE(result.err.find("tls"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace duetime::test
