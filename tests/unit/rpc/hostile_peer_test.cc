// SPDX-License-Identifier: Apache-2.0
//
// Clients that abuse HTTP/2 against the server in this process.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/raw_http2.h"
#include "tests/support/raw_peer.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

// The parameter: whether the hostile client uses TLS. The healthy one uses the Unix socket.
class HostilePeerTest : public ServerTest, public ::testing::WithParamInterface<bool> {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(directory_.Join(name)) << content;
    return directory_.Join(name);
  }

  void StartWatched(api::ServerOptions options) {
    const test::CertificatePem certificate = test::TestAuthority("authority").Issue();
    options.listen.push_back("127.0.0.1:0");
    options.tls_cert = Write("cert.pem", certificate.certificate);
    options.tls_key = Write("key.pem", certificate.key);
    Start(options);
  }

  // Connects, and sends `frames` of growing stream numbers until the server closes the connection
  // or `calls` are sent. Returns the number sent.
  template <typename Frames>
  uint32_t Attack(uint32_t calls, const std::string& begin, const Frames& frames) {
    test::RawPeer peer(server_->addresses()[GetParam() ? 1 : 0]);
    EXPECT_TRUE(peer.connected());
    std::string bytes = begin;
    uint32_t sent = 0;
    for (; sent < calls; ++sent) {
      bytes += frames(2 * sent + 1);
      if (!peer.Send(bytes)) break;
      bytes.clear();
    }
    return sent;
  }
  static std::string Begin() {
    return test::Http2Preface() + test::Http2Frame(test::kHttp2Settings, 0, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Plaintext, HostilePeerTest, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Tls, HostilePeerTest, ::testing::Values(true));

constexpr uint32_t kManyCalls = 30'000;

TEST_P(HostilePeerTest, EndlessCallsBeforeTheSettingsEndTheConnection) {
  StartWatched(DefaultOptions());
  const uint32_t sent =
      Attack(kManyCalls, Begin(), [](uint32_t stream) { return test::Http2OpenCall(stream); });
  EXPECT_LT(sent, kManyCalls);
  EXPECT_EQ(stats_.connections_cut.load(), 1u);
  EXPECT_LE(stats_.of(api::MethodOf<v1::ScheduleRequest>()).started.load(), 1'000u);
  MustSchedule(NewMessage("t", "a healthy client"));
}

TEST_P(HostilePeerTest, EndlessResetsEndTheConnection) {
  api::ServerOptions options = DefaultOptions();
  options.connection_resets_max = 100;
  StartWatched(options);
  const std::string begin = Begin() + test::Http2Frame(test::kHttp2Settings, test::kHttp2Ack, 0);
  const uint32_t sent = Attack(kManyCalls, begin, [](uint32_t stream) {
    return test::Http2OpenCall(stream) +
           test::Http2Frame(test::kHttp2Reset, 0, stream, std::string("\0\0\0\x08", 4));
  });
  EXPECT_LT(sent, kManyCalls);
  EXPECT_EQ(stats_.connections_cut.load(), 1u);
  MustSchedule(NewMessage("t", "a healthy client"));
}

TEST_P(HostilePeerTest, TheWorstPeerIsClosedIfRequestsDoNotEnd) {
  api::ServerOptions options = DefaultOptions();
  options.unfinished_requests_max = 1'000;
  StartWatched(options);
  std::vector<std::unique_ptr<test::RawPeer>> peers;
  while (stats_.connections_cut.load() == 0) {
    ASSERT_LT(peers.size(), 100u);
    peers.push_back(std::make_unique<test::RawPeer>(server_->addresses()[GetParam() ? 1 : 0]));
    std::string bytes = Begin() + test::Http2Frame(test::kHttp2Settings, test::kHttp2Ack, 0);
    for (uint32_t i = 0; i < 300; ++i) bytes += test::Http2OpenCall(2 * i + 1);
    ASSERT_TRUE(peers.back()->Send(bytes));
    MustSchedule(NewMessage("t", "a healthy client"));
  }
  EXPECT_GE(peers.size(), 4u);
  MustSchedule(NewMessage("t", "a healthy client"));
}

TEST_P(HostilePeerTest, OfTheAnswersThatAreNotReadTheOldestAreDropped) {
  constexpr size_t kPayloadBytes = 1'000'000;
  constexpr uint64_t kKept = 4;
  constexpr uint32_t kCalls = 40;
  api::ServerOptions options = DefaultOptions();
  options.untaken_answers_bytes_max = kKept * (1 << 20);
  StartWatched(options);
  v1::GetRequest request;
  request.set_message_id(MustSchedule(NewMessage("t", std::string(kPayloadBytes, 'p'), 3'600)));
  request.set_view(v1::MESSAGE_VIEW_FULL);
  test::RawPeer peer(server_->addresses()[GetParam() ? 1 : 0]);
  std::string bytes = Begin() + test::Http2Frame(test::kHttp2Settings, test::kHttp2Ack, 0);
  for (uint32_t i = 0; i < kCalls; ++i) {
    bytes += test::Http2Call(2 * i + 1, "/duetime.v1.Messages/Get", request.SerializeAsString());
  }
  ASSERT_TRUE(peer.Send(bytes));
  const auto dropped = [this] { return stats_.answers_dropped.load(); };
  for (int i = 0; i < 10'000 && dropped() < kCalls - kKept; ++i) {
    MustSchedule(NewMessage("t", "a healthy client"));
  }
  ASSERT_GE(dropped(), kCalls - kKept);
  // A client that reads gets its answer, in the place of the oldest of the others.
  v1::GetResponse response;
  EXPECT_TRUE(messages_->Get(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.message().payload().size(), kPayloadBytes);
  for (int i = 0; i < 10'000 && dropped() == kCalls - kKept; ++i) {
    MustSchedule(NewMessage("t", "a healthy client"));
  }
  EXPECT_GT(dropped(), kCalls - kKept);
}

}  // namespace
}  // namespace duetime::rpc
