// SPDX-License-Identifier: Apache-2.0
//
// Backups of a live daemon, and daemons that start from them.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <set>
#include <sstream>
#include <thread>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/http_get.h"
#include "tests/support/paths.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Json = nlohmann::json;

class BackupTest : public DaemonTest {
 protected:
  RunResult Cli(std::vector<std::string> words) {
    words.insert(words.begin(), kTool);
    return RunProgram(words, "", Millis(60'000),
                      {{"DUETIME_SERVER", server_->target()}, {"DUETIME_CONTEXT", "none"}});
  }

  // Makes a backup in the directory of the test. Returns the tool's facts about it.
  Json Backup(const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {"backup", backups(), "--json"};
    words.insert(words.end(), options.begin(), options.end());
    const RunResult result = Cli(words);
    EXPECT_EQ(result.exit.code, 0) << result.err;
    Json facts = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return facts.is_discarded() ? Json::object() : facts;
  }

  RunResult Restore(const std::string& from, const std::string& into) {
    return RunProgram({kDaemon, "--restore", from, "--into", into}, "", Millis(60'000));
  }

  // Starts a second daemon from a backup, and connects to it. The first one runs on.
  void StartRestored(const std::string& from) {
    original_ = std::move(server_);
    server_ = std::make_unique<ServerProcess>(
        ServerProcess::Options{.daemon = kDaemon, .flags = {}, .tls = {}});
    // As on a fresh file system.
    fs::create_directories(fs::path(server_->data_dir()) / "lost+found");
    const RunResult restored = Restore(from, server_->data_dir());
    ASSERT_EQ(restored.exit.code, 0) << restored.out << restored.err;
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
  }

  std::vector<std::string> PausedByRestore() {
    const RunResult result = Cli({"restore", "status", "--json"});
    EXPECT_EQ(result.exit.code, 0) << result.err;
    std::vector<std::string> names;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) names.push_back(Json::parse(line)["name"]);
    return names;
  }

  void Pause(const std::string& topic) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::PauseTopicRequest request;
    request.set_name(topic);
    v1::PauseTopicResponse response;
    EXPECT_TRUE(admin_->PauseTopic(&context, request, &response).ok());
  }

  // Random bytes, which no compression makes smaller.
  static std::string Noise(size_t bytes) {
    std::string noise(bytes, '\0');
    std::ifstream("/dev/urandom").read(noise.data(), static_cast<std::streamsize>(bytes));
    return noise;
  }

  // Fills table files: several memtables of 1 MiB.
  std::vector<std::string> ScheduleTables(const std::string& topic) {
    std::vector<std::string> ids;
    constexpr int kMessages = 80;
    for (int i = 0; i < kMessages; ++i) {
      ids.push_back(MustSchedule(topic, Millis(3'600'000), Noise(64 << 10)).id());
    }
    return ids;
  }

  std::string backups() const { return directory_.Join("backups"); }

  const TempDirectory directory_;
  std::unique_ptr<ServerProcess> original_;
};

TEST_F(BackupTest, ARestoredServerDeliversWhatTheOperatorChooses) {
  StartDaemon();
  const std::string due = MustSchedule("dropped", Millis(0)).id();
  const std::string later = MustSchedule("dropped", Millis(3'600'000)).id();
  MustSchedule("kept", Millis(0), "overdue");
  MustSchedule("paused", Millis(0));
  Pause("paused");
  const std::string backup = Backup()["path"];
  {
    // The original delivers after the backup.
    Subscription subscriber(channel_, {.topic = "dropped"});
    const auto first = subscriber.Next();
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(subscriber.AckAndWait(first->delivery), SettleAnswer::kSettled);
  }
  ASSERT_NO_FATAL_FAILURE(StartRestored(backup));
  EXPECT_TRUE(Info().has_restored());
  EXPECT_GT(Info().epoch(), 1);
  EXPECT_THAT(PausedByRestore(), UnorderedElementsAre("dropped", "kept"));
  EXPECT_THAT(Cli({"restore", "status"}).out, HasSubstr("dropped  2        1"));
  // A restart changes nothing.
  ASSERT_TRUE(server_->Stop().has_value());
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  EXPECT_THAT(PausedByRestore(), UnorderedElementsAre("dropped", "kept"));

  Subscription dropped(channel_, {.topic = "dropped"});
  Subscription kept(channel_, {.topic = "kept"});
  Subscription paused(channel_, {.topic = "paused"});
  ASSERT_TRUE(dropped.WaitStarted() && kept.WaitStarted() && paused.WaitStarted());
  EXPECT_TRUE(kept.StaysQuiet(Millis(300)));
  EXPECT_EQ(Cli({"restore", "release", "dropped", "--drop-before", "now"}).exit.code, 0);
  EXPECT_EQ(StateOf(due), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(StateOf(later), v1::Message::STATE_SCHEDULED);
  EXPECT_THAT(PausedByRestore(), UnorderedElementsAre("kept"));
  EXPECT_EQ(Cli({"restore", "release", "--all", "--deliver"}).exit.code, 0);
  const auto overdue = kept.Next();
  ASSERT_TRUE(overdue.has_value());
  EXPECT_EQ(overdue->delivery.payload(), "overdue");
  EXPECT_TRUE(overdue->delivery.maybe_redelivered());
  EXPECT_EQ(dropped.waiting(), 0u);
  // The topic that an operator had paused before the backup is not released.
  EXPECT_EQ(paused.waiting(), 0u);
  EXPECT_EQ(Cli({"restore", "release", "--all", "--deliver"}).exit.code, 3);
}

TEST_F(BackupTest, UnderTrafficABackupHoldsAllThatWasAcknowledgedAndSharesTables) {
  StartDaemon({"--write-buffer-bytes=1MiB"}, /*tcp=*/false, /*metrics=*/true);
  std::vector<std::string> before = ScheduleTables("t");
  std::atomic<bool> stop{false};
  std::thread traffic([&] {
    while (!stop) MustSchedule("traffic", Millis(3'600'000), Noise(4 << 10));
  });
  const Json first = Backup();
  const Json second = Backup();
  stop = true;
  traffic.join();
  EXPECT_EQ(first["fetched"], first["bytes"]);
  EXPECT_LT(second["fetched"].get<int64_t>(), second["bytes"].get<int64_t>() / 2);
  EXPECT_THAT(HttpGet(server_->metrics_port(), "/metrics"),
              HasSubstr("\nduetime_backup_running 0\n"));
  // Both are whole, although they share files.
  fs::remove_all(first["path"].get<std::string>());
  const std::string shown = Cli({"backup", backups(), "--check", "--keep", "1"}).out;
  EXPECT_THAT(shown, HasSubstr("1 older backups removed"));
  EXPECT_FALSE(fs::exists(second["path"].get<std::string>()));
  ASSERT_EQ(std::distance(fs::directory_iterator(backups()), {}), 1);
  ASSERT_NO_FATAL_FAILURE(StartRestored(fs::directory_iterator(backups())->path()));
  for (const std::string& id : before) EXPECT_EQ(StateOf(id), v1::Message::STATE_SCHEDULED);
  // No id is given twice.
  const std::string mine = MustSchedule("t", Millis(3'600'000)).id();
  std::swap(server_, original_);
  Connect();
  EXPECT_NE(MustSchedule("t", Millis(3'600'000)).id(), mine);
  ASSERT_TRUE(original_->Stop().has_value());
  EXPECT_EQ(RunProgram({kDaemon, "--verify", original_->data_dir()}).exit.code, 0);
}

TEST_F(BackupTest, AnInterruptedBackupDoesNotExist) {
  StartDaemon({"--write-buffer-bytes=1MiB", "--backup-bytes-per-second=1MiB"});
  ScheduleTables("t");
  const fs::path copy = server_->data_dir() + "/.checkpoint";
  const auto begin = [&] {
    auto client = std::make_unique<Subprocess>(
        std::vector<std::string>{kTool, "backup", backups(), "--server", server_->target()},
        directory_.Join("log"));
    const auto deadline = Clock::now() + Millis(10'000);
    const auto runs = [&] {
      std::error_code error;
      // A folder appears before the "db" in it.
      return std::any_of(fs::directory_iterator(backups(), error), {}, [&](const auto& entry) {
        return !fs::is_empty(entry.path() / "db", error) && !error;
      });
    };
    while (!runs() && Clock::now() < deadline) poll(nullptr, 0, 5);
    EXPECT_TRUE(runs() && fs::exists(copy));
    return client;
  };
  {
    // A Ctrl-C ends it on both sides.
    const auto client = begin();
    client->Signal(SIGINT);
    const auto end = client->Wait(Millis(10'000));
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->code, 130);
    EXPECT_FALSE(fs::exists(copy));
    EXPECT_TRUE(fs::is_empty(backups()));
  }
  {
    const auto client = begin();
    EXPECT_THAT(Cli({"backup", directory_.Join("others")}).err, HasSubstr("BACKUP_RUNNING"));
    client->Signal(SIGKILL);
    ASSERT_TRUE(client->Wait(Millis(10'000)).has_value());
    for (const auto& entry : fs::directory_iterator(backups())) {
      EXPECT_NE(Restore(entry.path(), directory_.Join("none")).exit.code, 0);
    }
  }
  // The server still keeps the files of that backup. A start removes them.
  EXPECT_TRUE(fs::exists(copy));
  server_->Kill();
  server_->flags().back() = "--backup-bytes-per-second=0";
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  EXPECT_FALSE(fs::exists(copy));
  const std::string whole = Backup()["path"];
  // What the killed client left is gone.
  EXPECT_EQ(std::distance(fs::directory_iterator(backups()), {}), 1);
  EXPECT_EQ(Restore(whole, directory_.Join("restored")).exit.code, 0);
}

TEST_F(BackupTest, ABackupEndsOnlyWithItsClient) {
  // The first file, the log, takes the server a second per KiB. The reads are as small.
  StartDaemon({"--backup-bytes-per-second=1KiB"});
  MustSchedule("t", Millis(3'600'000), Noise(3 << 10));
  grpc::ClientContext begin;
  SetDeadline(&begin);
  v1::StartBackupResponse started;
  ASSERT_TRUE(admin_->StartBackup(&begin, {}, &started).ok());
  grpc::ClientContext read;
  SetDeadline(&read);
  v1::ReadBackupRequest request;
  request.set_name(started.backup().name());
  request.set_path(started.backup().files(0).path());
  v1::ReadBackupResponse part;
  ASSERT_TRUE(admin_->ReadBackup(&read, request, &part).ok());
  grpc::ClientContext beyond;
  request.set_offset(1 << 30);
  EXPECT_EQ(InfoOf(admin_->ReadBackup(&beyond, request, &part)).reason, "INVALID_OFFSET");
  EXPECT_EQ(part.data().size(), 1u << 10);
  // A reader that goes away ends the backup of the tool, so that the next one can begin.
  grpc::ClientContext end;
  SetDeadline(&end);
  v1::EndBackupRequest ended;
  ended.set_name(started.backup().name());
  v1::EndBackupResponse nothing;
  ASSERT_TRUE(admin_->EndBackup(&end, ended, &nothing).ok());
  const RunResult cut =
      RunProgram({"/bin/sh", "-c",
                  std::string(kTool) + " backup - --server " + server_->target() + " | head -c 1"});
  EXPECT_THAT(cut.err, HasSubstr("standard output"));
  EXPECT_FALSE(fs::exists(server_->data_dir() + "/.checkpoint"));
}

TEST_F(BackupTest, KeepRemovesOnlyOldBackups) {
  StartDaemon();
  const fs::path first = Backup()["path"].get<std::string>();
  const fs::path future = fs::path(backups()) / "2999-01-01T00-00-00.000Z";
  const fs::path foreign = fs::path(backups()) / "0-project";
  fs::rename(first, future);
  fs::copy(future, foreign, fs::copy_options::recursive);
  const fs::path second = Backup({"--keep", "1"})["path"].get<std::string>();
  EXPECT_TRUE(fs::exists(second / "SHA256SUMS"));
  EXPECT_TRUE(fs::exists(foreign / "SHA256SUMS"));
  EXPECT_FALSE(fs::exists(future));
}

TEST_F(BackupTest, ADamagedBackupIsRefusedWithTheFileNamed) {
  StartDaemon({"--write-buffer-bytes=1MiB"});
  ScheduleTables("t");
  const fs::path backup = Backup()["path"].get<std::string>();
  const std::string into = directory_.Join("restored");
  const auto refused = [&](int code, const std::string& text) {
    const RunResult result = Restore(backup, into);
    EXPECT_EQ(result.exit.code, code);
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_TRUE(fs::is_empty(into));
  };
  for (const auto& entry : fs::directory_iterator(backup / "db")) {
    const std::string good = ReadWholeFile(entry.path());
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
    std::ofstream(entry.path(), std::ios::binary) << bad;
    refused(65, entry.path().filename().string());
    fs::rename(entry.path(), backup / "away");
    refused(65, entry.path().filename().string());
    fs::rename(backup / "away", entry.path());
    std::ofstream(entry.path(), std::ios::binary) << good;
  }
  // A path must not lead out of the new directory.
  const std::string sums = ReadWholeFile(backup / "SHA256SUMS");
  std::ofstream(backup / "SHA256SUMS", std::ios::app) << sums.substr(0, 64) << "  db/../../x\n";
  refused(65, "db/../../x");
  fs::remove(backup / "SHA256SUMS");
  refused(66, "SHA256SUMS");
  std::ofstream(backup / "SHA256SUMS") << sums;
  // A restore that is killed leaves nothing that starts.
  Subprocess restore({kDaemon, "--restore", backup, "--into", into}, directory_.Join("log"));
  while (restore.running() && !fs::exists(into + "/unfinished/store/db")) poll(nullptr, 0, 1);
  restore.Signal(SIGKILL);
  ASSERT_TRUE(restore.Wait(Millis(10'000)).has_value());
  if (!fs::exists(into + "/witness")) {
    EXPECT_NE(RunProgram({kDaemon, "--data-dir", into, "--listen", "unix:none"}).exit.code, 0);
    EXPECT_THAT(Restore(backup, into).err, HasSubstr("not an empty directory"));
  }
}

}  // namespace
}  // namespace duetime::test
