// SPDX-License-Identifier: Apache-2.0
//
// The clients that the server accepts and refuses when TLS is on.
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/test_certificates.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class TlsTest : public ServerTest {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(directory_.Join(name)) << content;
    return directory_.Join(name);
  }

  api::ServerOptions TlsOptions(bool client_certificates) {
    const test::CertificatePem server = authority_.Issue();
    api::ServerOptions options = DefaultOptions();
    options.listen = {"127.0.0.1:0"};
    options.tls_cert = Write("cert.pem", server.certificate);
    options.tls_key = Write("key.pem", server.key);
    if (client_certificates) options.tls_client_ca = Write("ca.pem", authority_.pem());
    return options;
  }

  // Makes one call with these credentials on a new connection.
  grpc::Status CallWith(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // Does not dial "localhost", because c-ares leaks a copy of that name and LeakSanitizer reports
    // it.
    arguments.SetSslTargetNameOverride("localhost");
    const auto stub = v1::Messages::NewStub(
        grpc::CreateCustomChannel(server_->addresses()[0], credentials, arguments));
    v1::ScheduleResponse response;
    return stub->Schedule(NewContext().get(), NewMessage("t", "p", 10), &response);
  }

  std::shared_ptr<grpc::ChannelCredentials> Tls(const test::CertificatePem& client) const {
    return grpc::SslCredentials({.pem_root_certs = authority_.pem(),
                                 .pem_private_key = client.key,
                                 .pem_cert_chain = client.certificate});
  }

  test::TestAuthority authority_{"authority"};
};

TEST_F(TlsTest, PlaintextIsNotServed) {
  Start(TlsOptions(false));
  EXPECT_TRUE(CallWith(Tls({})).ok());
  EXPECT_EQ(CallWith(grpc::InsecureChannelCredentials()).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, AClientCaAsksForItsCertificates) {
  Start(TlsOptions(true));
  EXPECT_TRUE(CallWith(Tls(authority_.Issue())).ok());
  EXPECT_EQ(CallWith(Tls({})).error_code(), grpc::StatusCode::UNAVAILABLE);
  const test::TestAuthority stranger("stranger");
  EXPECT_EQ(CallWith(Tls(stranger.Issue())).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, TlsMayBeReachedFromElsewhere) {
  api::ServerOptions options = TlsOptions(true);
  options.listen = {"0.0.0.0:0"};
  auto server = api::Server::Create(options, node_options_, &clock_, &stats_);
  ASSERT_TRUE(server.ok());
  EXPECT_TRUE((*server)->Listen().ok());
}

TEST_F(TlsTest, ACertificateWithAnotherKeyIsAnError) {
  api::ServerOptions options = TlsOptions(false);
  options.tls_key = Write("other.pem", authority_.Issue().key);
  const absl::Status status =
      api::Server::Create(options, node_options_, &clock_, &stats_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("tls_key"), absl::string_view::npos) << status;
  // Swaps the certificate and the key.
  std::swap(options.tls_cert, options.tls_key);
  EXPECT_FALSE(api::Server::Create(options, node_options_, &clock_, &stats_).ok());
}

}  // namespace
}  // namespace duetime::rpc
