// SPDX-License-Identifier: Apache-2.0
//
// One flipped bit in a table file: what lies in the block is refused, and the daemon serves the
// rest.
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;

class DamageTest : public DaemonTest {
 protected:
  // The largest table holds the messages, because their payloads are noise.
  std::string FlipABitInTheMessages() {
    fs::path largest;
    for (const fs::directory_entry& entry : fs::directory_iterator(server_->data_dir() + "/db")) {
      if (entry.path().extension() != ".sst") continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    std::fstream file(largest, std::ios::binary | std::ios::in | std::ios::out);
    const auto place = static_cast<std::streamoff>(fs::file_size(largest) / 2);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 1));
    return largest.filename().string();
  }

  int Verify() { return RunProgram({kDaemon, "--verify", server_->data_dir()}).exit.code; }
};

TEST_F(DamageTest, WhatLiesInADamagedBlockIsRefusedAndTheRestIsServed) {
  StartDaemon({"--shards=1"});
  std::mt19937_64 random(1);
  std::vector<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    std::string payload(4000, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    ids.push_back(MustSchedule("t", Millis(3'600'000 + 1000 * i), payload).id());
  }
  // The start after a kill writes the messages to a table.
  server_->Kill();
  ASSERT_TRUE(server_->Start()) << server_->error();
  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  EXPECT_EQ(Verify(), 0);
  const std::string table = FlipABitInTheMessages();
  EXPECT_EQ(Verify(), 65);

  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
    size_t refused = 0;
    for (const std::string& id : ids) {
      v1::Message message;
      const grpc::Status status = Get(id, &message);
      if (status.ok()) continue;
      ++refused;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
      EXPECT_EQ(InfoOf(status).reason, "CHECKSUM_MISMATCH");
      EXPECT_EQ(InfoOf(status).metadata.at("file"), table);
      v1::CancelResponse cancelled;
      EXPECT_EQ(Cancel(id, &cancelled).error_code(), grpc::StatusCode::DATA_LOSS);
    }
    EXPECT_GE(refused, 1u);
    EXPECT_LE(refused, 10u) << "more than a block of 16 KiB";
    const v1::ServerInfoResponse info = Info();
    EXPECT_EQ(info.state(), v1::SERVING_STATE_SERVING);
    ASSERT_EQ(info.damage().blocks_size(), 1);
    EXPECT_EQ(info.damage().blocks(0).file(), table);
    EXPECT_EQ(info.damage().blocks(0).family(), "messages");

    Subscription subscription(channel_, Subscription::Start{.topic = "now"});
    const v1::Message accepted = MustSchedule("now", Millis(0));
    const auto received = subscription.Next();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->delivery.message_id(), accepted.id());
    EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
    EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  }
  EXPECT_EQ(RunProgram({kDaemon, "--verify", server_->data_dir() + "/no"}).exit.code, 66);

  const TempDirectory target;
  const std::string repaired = target.Join("new");
  const std::vector<std::string> repair = {kDaemon, "--repair", server_->data_dir(), "--into",
                                           repaired};
  const RunResult written = RunProgram(repair);
  EXPECT_EQ(written.exit.code, 2) << written.err;
  EXPECT_NE(written.out.find(" of 100 messages are lost"), std::string::npos) << written.out;
  EXPECT_EQ(RunProgram({kDaemon, "--verify", repaired}).exit.code, 0);
  EXPECT_EQ(RunProgram(repair).exit.code, 78) << "the new directory is not empty";
}

TEST_F(DamageTest, TheVerifierHasTheExitCodesOfAStartAndOneForATornEnd) {
  StartDaemon({"--shards=1"});
  EXPECT_EQ(Verify(), 73) << "the daemon has the directory open";
  server_->Kill();
  EXPECT_EQ(Verify(), 0);
  for (const fs::directory_entry& entry : fs::directory_iterator(server_->data_dir() + "/db")) {
    if (entry.path().extension() == ".log") std::ofstream(entry.path(), std::ios::app) << "torn";
  }
  const RunResult verified = RunProgram({kDaemon, "--verify", server_->data_dir()});
  EXPECT_EQ(verified.exit.code, 3);
  EXPECT_NE(verified.err.find("the last 4 bytes"), std::string::npos) << verified.err;
  ASSERT_TRUE(server_->Start()) << server_->error();
  EXPECT_NE(server_->log().find("dropping the last 4 bytes"), std::string::npos);
  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  EXPECT_EQ(Verify(), 0);
}

}  // namespace
}  // namespace duetime::test
