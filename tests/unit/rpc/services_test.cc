// SPDX-License-Identifier: Apache-2.0
//
// Health, reflection, and the listen addresses of the server.
#include <fstream>
#include <set>
#include <string>

#include "google/protobuf/descriptor.pb.h"

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

class ServicesTest : public ServerTest {
 protected:
  grpc::Status Check(const std::string& service, HealthCheckResponse* response) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    return health_->Check(NewContext().get(), request, response);
  }
};

TEST_F(ServicesTest, HealthKnowsItsServices) {
  Start();
  HealthCheckResponse response;
  for (const char* name : {"", "duetime.v1.Messages", "duetime.v1.Admin"}) {
    ASSERT_TRUE(Check(name, &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  EXPECT_EQ(Check("other", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServicesTest, AWatchSeesEveryChange) {
  Listen(DefaultOptions());
  const auto context = NewContext();
  const auto reader = health_->Watch(context.get(), {});
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  Serve();
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  server_->Drain();
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  server_->Shutdown(kTestDeadline);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServicesTest, AWatchOfAnUnknownServiceStaysOpen) {
  Start();
  const auto context = NewContext();
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("other");
  const auto reader = health_->Watch(context.get(), request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context->TryCancel();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServicesTest, ReflectionTellsWhatIsServed) {
  Start();
  const auto stub = ServerReflection::NewStub(channel_);
  const auto context = NewContext();
  const auto stream = stub->ServerReflectionInfo(context.get());
  ServerReflectionRequest request;
  ServerReflectionResponse response;
  request.set_list_services("");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  std::set<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.insert(service.name());
  }
  EXPECT_EQ(names, (std::set<std::string>{"duetime.v1.Messages", "duetime.v1.Admin",
                                          "grpc.health.v1.Health",
                                          "grpc.reflection.v1alpha.ServerReflection"}));
  request.set_file_containing_symbol("duetime.v1.Messages");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  std::set<std::string> files;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    files.insert(file.name());
  }
  EXPECT_EQ(files.count("duetime/v1/messages.proto"), 1u);
  EXPECT_EQ(files.count("google/protobuf/timestamp.proto"), 1u);
  request.set_file_containing_symbol("no.such.Symbol");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  EXPECT_EQ(response.error_response().error_code(), 5);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServicesTest, ListensOnTcpAndSaysOnWhichPort) {
  api::ServerOptions options = DefaultOptions();
  options.listen = {"127.0.0.1:0", options.listen[0]};
  Start(options);
  ASSERT_EQ(server_->addresses().size(), 2u);
  EXPECT_NE(server_->addresses()[0], "127.0.0.1:0");
  MustSchedule(NewMessage("t", "p", 10));
}

TEST_F(ServicesTest, TwoServersCannotHaveOneAddress) {
  api::ServerOptions options = DefaultOptions();
  options.listen = {"127.0.0.1:0", options.listen[0]};
  Start(options);
  for (const std::string& address : server_->addresses()) {
    api::ServerOptions same = DefaultOptions();
    same.listen = {address};
    auto other = api::Server::Create(same, node_options_, &clock_, &stats_);
    ASSERT_TRUE(other.ok());
    const absl::Status status = (*other)->Listen();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(address), absl::string_view::npos) << status;
  }
  MustSchedule(NewMessage("t", "p", 10));
}

TEST_F(ServicesTest, ReplacesASocketThatNobodyListensOn) {
  Start();
  const std::string path = directory_.Join("socket");
  std::filesystem::rename(path, path + ".kept");
  server_->Shutdown(std::chrono::seconds(1));
  node_->Stop();
  // A killed daemon leaves the socket file behind, and no process listens on it.
  std::filesystem::rename(path + ".kept", path);
  node_.reset();
  Start();
  MustSchedule(NewMessage("t", "p", 10));
}

TEST_F(ServicesTest, TakesNoFileAwayThatIsNoSocket) {
  std::ofstream(directory_.Join("socket")) << "precious";
  auto server = api::Server::Create(DefaultOptions(), node_options_, &clock_, &stats_);
  ASSERT_TRUE(server.ok());
  EXPECT_FALSE((*server)->Listen().ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(directory_.Join("socket")));
}

TEST_F(ServicesTest, PlaintextStaysOnThisMachine) {
  api::ServerOptions options = DefaultOptions();
  options.listen = {"0.0.0.0:0"};
  auto server = api::Server::Create(options, node_options_, &clock_, &stats_);
  ASSERT_TRUE(server.ok());
  const absl::Status status = (*server)->Listen();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("insecure_nonloopback"), absl::string_view::npos);
  options.insecure_nonloopback = true;
  server = api::Server::Create(options, node_options_, &clock_, &stats_);
  ASSERT_TRUE(server.ok());
  EXPECT_TRUE((*server)->Listen().ok());
}

TEST_F(ServicesTest, TlsFilesAreCheckedAtOnce) {
  api::ServerOptions options = DefaultOptions();
  options.tls_cert = directory_.Join("absent.pem");
  EXPECT_FALSE(api::Server::Create(options, node_options_, &clock_, &stats_).ok());
  options.tls_key = directory_.Join("absent.pem");
  const auto server = api::Server::Create(options, node_options_, &clock_, &stats_);
  EXPECT_NE(server.status().message().find("tls_cert: cannot read"), absl::string_view::npos);
  api::ServerOptions only_ca = DefaultOptions();
  only_ca.tls_client_ca = directory_.Join("ca.pem");
  EXPECT_FALSE(api::Server::Create(only_ca, node_options_, &clock_, &stats_).ok());
}

TEST_F(ServicesTest, ShutdownWithoutAnyCallIsQuick) {
  Start();
  server_->Shutdown(kTestDeadline);
  server_->Shutdown(kTestDeadline);
}

}  // namespace
}  // namespace duetime::rpc
