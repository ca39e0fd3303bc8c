// SPDX-License-Identifier: Apache-2.0
//
// A daemon with access control, and calls of its clients.
#pragma once

#include <filesystem>
#include <fstream>
#include <grpcpp/generic/generic_stub.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/integration/daemon_fixture.h"

namespace duetime::test {

// A token file with the hashes (SHA-256) of three tokens. The tokens are "alice", "bob" and
// "nobody".
inline constexpr char kTokens[] = R"(
[[token]]
name = "alice"
sha256 = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90"
[[token]]
name = "bob"
sha256 = "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9"
[[token]]
name = "nobody"
sha256 = "6382b3cc881412b77bfcaeed026001c00d9e3025e66c20f6e7e92f079851462a"
)";

// With the user of the test as operator, by its number.
inline std::string Rules() {
  return R"(
[[rule]]
who = ["alice"]
may = ["schedule", "cancel", "read_payloads", "subscribe", "admin"]
topics = ["a", "a.*"]
[[rule]]
who = ["bob"]
may = ["schedule", "cancel", "read", "subscribe"]
topics = ["b"]
[[rule]]
may = ["schedule", "cancel", "read_payloads", "subscribe", "admin", "operate"]
topics = ["*"]
who = ["unix:)" +
         std::to_string(getuid()) + "\"]\n";
}

class AccessTest : public DaemonTest {
 protected:
  AccessTest() {
    Write("tokens.toml", kTokens);
    Write("access.toml", Rules());
  }

  // A change must be in another inode, as tools write files: the clock of a file's time is coarse.
  void Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.Join(name);
    std::ofstream(path + ".new", std::ios::trunc) << text;
    std::filesystem::rename(path + ".new", path);
  }

  void StartWithAccess(std::vector<std::string> flags = {}, bool metrics = false) {
    flags.push_back("--access-file=" + directory_.Join("access.toml"));
    flags.push_back("--tokens-file=" + directory_.Join("tokens.toml"));
    flags.push_back("--audit-log=" + directory_.Join("audit.log"));
    StartDaemon(flags, /*tcp=*/true, metrics);
    tcp_ = grpc::CreateChannel(server_->tcp_target(), grpc::InsecureChannelCredentials());
  }

  // The lines of the audit log, as soon as there are so many.
  std::vector<nlohmann::json> AuditLines(size_t count) {
    std::vector<nlohmann::json> lines;
    const auto deadline = Clock::now() + Millis(5'000);
    do {
      lines.clear();
      std::ifstream file(directory_.Join("audit.log"));
      for (std::string line; std::getline(file, line);)
        lines.push_back(nlohmann::json::parse(line));
    } while (lines.size() < count && Clock::now() < deadline);
    return lines;
  }
  // Method, topic and this field of each line.
  std::vector<std::string> AuditedCalls(size_t count, const char* field) {
    std::vector<std::string> calls;
    for (const nlohmann::json& line : AuditLines(count)) {
      calls.push_back(line["method"].get<std::string>() + " " + line.value("topic", "") + " " +
                      line[field].get<std::string>());
    }
    return calls;
  }

  // The context of a call with a token. "": over TCP, the client is anonymous.
  static std::unique_ptr<grpc::ClientContext> As(const std::string& token) {
    auto context = std::make_unique<grpc::ClientContext>();
    SetDeadline(context.get());
    if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
    return context;
  }

  // Makes any unary call.
  grpc::Status Call(const std::string& token, const std::string& path,
                    const google::protobuf::Message& request,
                    google::protobuf::Message* response = nullptr) {
    grpc::GenericStub stub(tcp_);
    grpc::CompletionQueue queue;
    const auto context = As(token);
    const grpc::Slice slice(request.SerializeAsString());
    const grpc::ByteBuffer bytes(&slice, 1);
    auto call = stub.PrepareUnaryCall(context.get(), "/duetime.v1." + path, bytes, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    if (status.ok() && response != nullptr) {
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(answer.Dump(&slices).ok());
      std::string text;
      for (const grpc::Slice& part : slices) {
        text.append(reinterpret_cast<const char*>(part.begin()), part.size());
      }
      EXPECT_TRUE(response->ParseFromString(text));
    }
    return status;
  }

  std::string ScheduleAs(const std::string& token, const std::string& topic, Millis delay) {
    v1::ScheduleResponse response;
    const grpc::Status status = Call(token, "Messages/Schedule", Request(topic, delay), &response);
    return status.ok() ? response.message().id() : InfoOf(status).reason;
  }

  v1::CancelResponse::Outcome CancelAs(const std::string& token, const std::string& id) {
    v1::CancelRequest request;
    request.set_message_id(id);
    v1::CancelResponse response;
    EXPECT_TRUE(Call(token, "Messages/Cancel", request, &response).ok());
    return response.outcome();
  }

  bool MaySchedule(const std::string& token, const std::string& topic) {
    constexpr size_t kIdBytes = 26;
    return ScheduleAs(token, topic, Millis(3'600'000)).size() == kIdBytes;
  }

  // The server reads the files about once a second.
  void WaitUntilMaySchedule(const std::string& token, const std::string& topic) {
    const auto deadline = Clock::now() + Millis(5'000);
    while (!MaySchedule(token, topic) && Clock::now() < deadline) {
    }
    EXPECT_TRUE(MaySchedule(token, topic));
  }

  const TempDirectory directory_;
  std::shared_ptr<grpc::Channel> tcp_;
};

}  // namespace duetime::test
