// SPDX-License-Identifier: Apache-2.0
//
// Starts that the daemon refuses, each with its exit code, and what a signal changes while it runs.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/match.h"

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StartTest : public DaemonTest {
 protected:
  // Runs a daemon that is expected to exit instead of serving.
  RunResult RunOn(const std::string& data_dir, const std::vector<std::string>& flags) const {
    std::vector<std::string> argv = {kDaemon, "--data-dir=" + data_dir,
                                     "--listen=unix:" + directory_.Join("s"), "--metrics-listen="};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return RunProgram(argv);
  }

  // A directory whose store was closed.
  std::string StoppedStore(const std::string& name) {
    StartDaemon();
    EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
    const std::string path = directory_.Join(name);
    fs::copy(server_->data_dir(), path, fs::copy_options::recursive);
    return path;
  }

  // True once the log contains `text`; false after a timeout.
  bool LogSays(const std::string& text) {
    const auto deadline = Clock::now() + Millis(20'000);
    while (server_->log().find(text) == std::string::npos) {
      if (Clock::now() > deadline || server_->Wait(Millis(5)).has_value()) return false;
    }
    return true;
  }

  TempDirectory directory_;
};

TEST_F(StartTest, WithoutAPortItSaysHowOthersReachIt) {
  const std::string says = "no port is open";
  StartDaemon();
  EXPECT_TRUE(LogSays(says));
  StartDaemon({}, /*tcp=*/true);
  EXPECT_TRUE(LogSays("ready: "));
  EXPECT_FALSE(absl::StrContains(server_->log(), says));
}

TEST_F(StartTest, EveryRefusalHasItsExitCode) {
  const std::string missing = directory_.Join("missing");
  const std::string empty = directory_.Join("empty");
  fs::create_directory(empty);
  const std::string foreign = directory_.Join("foreign");
  fs::create_directory(foreign);
  std::ofstream(foreign + "/notes.txt") << "mine";
  const std::string damaged = StoppedStore("damaged");
  fs::resize_file(damaged + "/witness", 0);
  const std::string whole = StoppedStore("whole");
  StartDaemon({}, /*tcp=*/true);

  struct Refusal {
    std::string data_dir;
    std::vector<std::string> flags;
    int exit_code;
    std::string says;
  };
  const std::vector<Refusal> refusals = {
      {damaged, {}, 65, "witness is missing or empty"},
      {missing, {}, 66, "Is the volume mounted?"},
      {empty, {}, 66, "Is the volume mounted?"},
      {whole, {"--listen=" + server_->tcp_target()}, 69, server_->tcp_target()},
      {whole, {"--metrics-listen=" + server_->tcp_target()}, 69, server_->tcp_target()},
      {server_->data_dir(), {}, 73, "in use by another process"},
      {directory_.Join("no/parent"), {"--init"}, 74, "cannot create directory"},
      {whole, {"--due-max=x"}, 78, "due-max"},
      {whole, {"--no-such-flag"}, 78, "no-such-flag"},
      {whole, {"--shards=63"}, 78, "63"},
      {whole, {"--tls-cert=" + missing, "--tls-key=" + missing}, 78, "tls_cert"},
      {"", {"--init"}, 78, "data_dir is required"},
      {foreign, {"--init"}, 78, "it holds notes.txt"},
  };
  for (const Refusal& refusal : refusals) {
    const RunResult result = RunOn(refusal.data_dir, refusal.flags);
    EXPECT_EQ(result.exit.code, refusal.exit_code) << refusal.says << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(refusal.says));
  }
  EXPECT_FALSE(fs::exists(missing));
  EXPECT_TRUE(fs::is_empty(empty)) << "a refusal leaves no trace";
}

TEST_F(StartTest, ARemovedDataDirectoryIsNotCreatedAnew) {
  StartDaemon();
  MustSchedule("t", Millis(3'600'000));
  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  fs::remove_all(server_->data_dir());
  EXPECT_EQ(RunOn(server_->data_dir(), {}).exit.code, 66);
  EXPECT_FALSE(fs::exists(server_->data_dir()));
}

// Opens connections to a loopback port and waits for the server's first bytes on each. Returns how
// many the server kept, and leaves all of them in `open`.
int KeptConnections(const std::string& target, int count, std::vector<int>* open) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    open->push_back(fd);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const void* generic = &address;
    EXPECT_EQ(connect(fd, static_cast<const sockaddr*>(generic), sizeof(address)), 0);
  }
  int kept = 0;
  for (const int fd : *open) {
    char byte = 0;
    // The server's settings, or its end of the connection.
    const ssize_t received = recv(fd, &byte, 1, 0);
    kept += received == 1 ? 1 : 0;
    if (received >= 0 || errno != EAGAIN) continue;
    ADD_FAILURE() << "the server neither serves nor refuses a connection";
    break;
  }
  return kept;
}

TEST_F(StartTest, ConnectionsDoNotTakeTheDescriptorsOfTheStore) {
  constexpr rlim_t kLimit = 300;
  constexpr int kFlood = 400;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{.rlim_cur = kLimit, .rlim_max = before.rlim_max};
  StartDaemon({"--write-buffer-bytes=1MiB", "--wal-bytes-max=4MiB", "--connections-max=150"},
              /*tcp=*/true);
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &low, nullptr), 0);
  MustSchedule("t", Millis(3'600'000));
  std::vector<int> open;
  const int kept = KeptConnections(server_->tcp_target(), kFlood, &open);
  EXPECT_GT(kept, 100);
  EXPECT_LE(kept, 150);
  // Several logs and tables.
  for (int i = 0; i < 60; ++i) MustSchedule("t", Millis(3'600'000), std::string(200'000, 'p'));
  for (const int fd : open) close(fd);
  client::ServerAddress address;
  address.target = server_->tcp_target();
  channel_ = *client::OpenChannel(address);
  messages_ = v1::Messages::NewStub(channel_);
  MustSchedule("t", Millis(3'600'000));
}

// Nothing of the failed write was acknowledged. A start reads the disk and finds the rest.
TEST_F(StartTest, WhenDescriptorsRanOutTheDaemonAsksForARestartOnceTheyAreBack) {
  StartDaemon({"--write-buffer-bytes=1MiB", "--wal-bytes-max=4MiB"});
  std::vector<std::string> accepted = {MustSchedule("t", Millis(3'600'000)).id()};
  rlimit whole{};
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, nullptr, &whole), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = whole.rlim_max};
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  bool failed = false;
  // The next log cannot be opened.
  for (int i = 0; i < 200 && !failed; ++i) {
    v1::Message message;
    failed = !Schedule(Request("t", Millis(3'600'000), std::string(200'000, 'p')), &message).ok();
    if (!failed) accepted.push_back(message.id());
  }
  EXPECT_TRUE(failed);
  EXPECT_TRUE(server_->running()) << "a restart would not help yet";
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &whole, nullptr), 0);
  EXPECT_EQ(server_->Wait(Millis(30'000)).value_or(ExitStatus{}).code, 75);
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  for (const std::string& id : accepted) EXPECT_EQ(StateOf(id), v1::Message::STATE_SCHEDULED);
}

TEST_F(StartTest, AHangUpReloadsTheLogLevelAndNothingElse) {
  const std::string file = directory_.Join("duetime.toml");
  std::ofstream(file) << "topics_max = 5\n";
  StartDaemon({"--config=" + file});
  std::ofstream(file) << "nonsense = 1\n";
  kill(server_->pid(), SIGHUP);
  EXPECT_TRUE(LogSays("SIGHUP: the configuration has faults")) << server_->log();
  std::ofstream(file) << "topics_max = 6\nlog_level = \"warn\"\n";
  kill(server_->pid(), SIGHUP);
  EXPECT_TRUE(
      LogSays("SIGHUP: log_level is warn; changes of these knobs need a restart: "
              "topics_max"))
      << server_->log();
  EXPECT_EQ(Info().limits().topics_max(), 5);
  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  EXPECT_THAT(server_->log(), testing::Not(HasSubstr("draining"))) << "which is logged as info";
}

}  // namespace
}  // namespace duetime::test
