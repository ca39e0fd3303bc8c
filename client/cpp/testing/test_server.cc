// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/testing/test_server.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

// Ends the server and removes its directory ($0) when the pipe is closed: by the keeper, or by the
// end of the test's process, however that was. Signals of the terminal are for the test.
constexpr char kScript[] = R"(
trap '' HUP INT TERM
"$@" & server=$!
exec >/dev/null 2>&1
read -r _
kill -9 $server
wait $server
rm -rf "$0"
)";

constexpr absl::Duration kPoll = absl::Milliseconds(2);
// A call lasts longer than the move of the clock.
constexpr absl::Duration kCallMax = absl::Minutes(11);
// The hand-outs that a move of the clock lists.
constexpr int kHandOutsMax = 10'000;

// Empty if there is no such variable.
std::string Environment(const std::string& name) {
  for (char** one = environ; *one != nullptr; ++one) {
    if (absl::StartsWith(*one, name + "=")) return *one + name.size() + 1;
  }
  return "";
}

// The path of a program; empty if there is none.
std::string Find(const std::string& name) {
  const std::string folders = name.find('/') != std::string::npos ? "" : Environment("PATH");
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = folders.substr(begin, end - begin);
    const std::string found = folder.empty() ? name : absl::StrCat(folder, "/", name);
    if (access(found.c_str(), X_OK) == 0 && !std::filesystem::is_directory(found)) return found;
    begin = end + 1;
  }
  return "";
}

v1::AdvanceLimits LimitsOf(const AdvanceOptions& options) {
  v1::AdvanceLimits limits;
  limits.set_until_idle(options.until_idle);
  *limits.mutable_timeout() = ToProto(options.timeout);
  limits.set_hand_outs_max(kHandOutsMax);
  return limits;
}

}  // namespace

// ---- The clock

absl::StatusOr<absl::Time> TestClock::Now() {
  const auto answer = calls_->GetClock({});
  if (!answer.ok()) return answer.status();
  return FromProto(answer->clock().time());
}

absl::StatusOr<v1::Advanced> TestClock::Advance(absl::Duration by, const AdvanceOptions& options) {
  v1::AdvanceRequest request;
  *request.mutable_by() = ToProto(by);
  return Move(std::move(request), options);
}

absl::StatusOr<v1::Advanced> TestClock::AdvanceTo(absl::Time to, const AdvanceOptions& options) {
  v1::AdvanceRequest request;
  *request.mutable_to() = ToProto(to);
  return Move(std::move(request), options);
}

absl::StatusOr<v1::Advanced> TestClock::Next(absl::Time until, const AdvanceOptions& options) {
  v1::AdvanceToNextRequest request;
  if (until != absl::InfiniteFuture()) *request.mutable_until() = ToProto(until);
  *request.mutable_limits() = LimitsOf(options);
  auto answer = calls_->AdvanceToNext(request);
  if (!answer.ok()) return answer.status();
  return Moved(std::move(*answer->mutable_advanced()));
}

absl::StatusOr<v1::Advanced> TestClock::Move(v1::AdvanceRequest request,
                                             const AdvanceOptions& options) {
  *request.mutable_limits() = LimitsOf(options);
  auto answer = calls_->Advance(request);
  if (!answer.ok()) return answer.status();
  return Moved(std::move(*answer->mutable_advanced()));
}

absl::StatusOr<v1::Advanced> TestClock::Moved(v1::Advanced advanced) {
  hand_outs_.insert(hand_outs_.end(), advanced.hand_outs().begin(), advanced.hand_outs().end());
  const std::string stands = absl::StrCat(
      "the clock stands at ",
      absl::FormatTime(absl::RFC3339_full, FromProto(advanced.clock().time()), absl::UTCTimeZone()),
      ", because ");
  if (advanced.stop() == v1::Advanced::STOP_SUBSCRIBERS) {
    return absl::DeadlineExceededError(
        absl::StrCat(stands, "subscribers have messages whose handlers run or wait"));
  }
  if (advanced.stop() == v1::Advanced::STOP_TIMEOUT) {
    return absl::DeadlineExceededError(
        absl::StrCat(stands, "the time was over before the server had done all"));
  }
  return advanced;
}

// ---- The server

// The process of the server, and the shell that ends it.
class TestServer::Keeper {
 public:
  ~Keeper() {
    close(stdin_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    if (reader_.joinable()) reader_.join();
  }

  // Returns the address at which the server serves.
  absl::StatusOr<std::string> Start(const std::string& binary, absl::Time at) {
    std::string folder = (std::filesystem::temp_directory_path() / "duetime-test-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("cannot make the directory ", folder));
    }
    std::vector<std::string> arguments = {
        "sh",
        "-c",
        kScript,
        folder,
        binary,
        "--init",
        absl::StrCat("--data-dir=", folder, "/data"),
        "--listen=127.0.0.1:0",
        "--metrics-listen=",
        "--disk-free-min-bytes=0",
        "--write-buffer-bytes=4MiB",
        absl::StrCat("--test-clock=",
                     absl::FormatTime(absl::RFC3339_full, at, absl::UTCTimeZone())),
        "--test-clock-frozen"};
    std::FILE* const log = Spawn(arguments);
    if (log == nullptr) {
      std::filesystem::remove(folder);
      return absl::FailedPreconditionError("cannot start a shell");
    }
    std::string lines;
    std::string address;
    std::array<char, 4'096> line{};
    while (address.empty() && std::fgets(line.data(), line.size(), log) != nullptr) {
      lines += line.data();
      const std::string text = line.data();
      const size_t grpc = text.find(" grpc=");
      if (text.find("] ready: ") == std::string::npos || grpc == std::string::npos) continue;
      const size_t begin = grpc + std::string(" grpc=").size();
      address = text.substr(begin, text.find_first_of(" \n", begin) - begin);
    }
    // So that the server never waits for a reader of its log.
    reader_ = std::thread([log] {
      std::array<char, 4'096> more{};
      while (std::fread(more.data(), 1, more.size(), log) > 0) {
      }
      std::fclose(log);
    });
    if (!address.empty()) return address;
    return absl::FailedPreconditionError(absl::StrCat(binary, " did not start:\n", lines));
  }

 private:
  // Starts a program with a pipe to its standard input. Returns its standard error, or null.
  std::FILE* Spawn(const std::vector<std::string>& arguments) {
    std::array<int, 2> in{};
    std::array<int, 2> err{};
    if (pipe2(in.data(), O_CLOEXEC) != 0) return nullptr;
    stdin_ = in[1];
    if (pipe2(err.data(), O_CLOEXEC) != 0) {
      close(in[0]);
      return nullptr;
    }
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    // posix_spawn does not write to them.
    for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    const int failed = posix_spawnp(&pid_, "sh", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(err[1]);
    std::FILE* const log = failed == 0 ? fdopen(err[0], "r") : nullptr;
    if (log == nullptr) close(err[0]);
    return log;
  }

  pid_t pid_ = 0;
  int stdin_ = -1;
  std::thread reader_;
};

TestServer::TestServer() : keeper_(std::make_unique<Keeper>()) {}

TestServer::~TestServer() {
  for (const auto& one : subscribers_) {
    one->Stop(absl::ZeroDuration(), absl::ZeroDuration()).IgnoreError();
  }
}

absl::StatusOr<std::unique_ptr<TestServer>> TestServer::Start(const Options& options) {
  std::string name = options.binary;
  if (name.empty()) name = Environment("DUETIMED");
  if (name.empty()) name = "duetimed";
  const std::string binary = Find(name);
  if (binary.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no program ", name, ": a test server needs duetimed, as ",
                     "Options::binary, in the environment variable DUETIMED, or on PATH"));
  }
  std::unique_ptr<TestServer> server(new TestServer());
  auto address = server->keeper_->Start(binary, options.at);
  if (!address.ok()) return address.status();
  server->address_ = *std::move(address);
  if (absl::Status status = server->Connect(); !status.ok()) return status;
  return server;
}

absl::Status TestServer::Connect() {
  ClientOptions options;
  options.server.target = address_;
  auto client = Client::Create(options);
  auto admin = AdminClient::Create(options);
  options.deadline = kCallMax;
  auto clock = AdminClient::Create(options);
  for (const absl::Status& status : {client.status(), admin.status(), clock.status()}) {
    if (!status.ok()) return status;
  }
  client_ = *std::move(client);
  admin_ = *std::move(admin);
  clock_ = std::make_unique<TestClock>(*std::move(clock));
  return absl::OkStatus();
}

absl::Status TestServer::Subscribe(const std::string& topic, Handler handler) {
  SubscriberOptions options;
  options.server.target = address_;
  options.topic = topic;
  auto subscriber = Subscriber::Start(options, std::move(handler));
  if (!subscriber.ok()) return subscriber.status();
  subscribers_.push_back(*std::move(subscriber));
  return AwaitSubscribers(topic, 1);
}

absl::Status TestServer::AwaitSubscribers(const std::string& topic, int count,
                                          absl::Duration timeout) {
  v1::ListStreamsRequest request;
  request.set_topic(topic);
  for (const absl::Time end = absl::Now() + timeout;; absl::SleepFor(kPoll)) {
    const auto there = admin_->ListStreams(request);
    if (!there.ok()) return there.status();
    if (there->streams_size() >= count) return absl::OkStatus();
    if (absl::Now() >= end) {
      return absl::DeadlineExceededError(absl::StrCat(
          "the topic ", topic, " has ", there->streams_size(), " subscribers, and not ", count));
    }
  }
}

absl::Status TestServer::Idle(absl::Duration timeout) {
  const auto now = clock_->Now();
  if (!now.ok()) return now.status();
  return clock_->Next(*now + absl::Milliseconds(1), {.timeout = timeout}).status();
}

std::vector<v1::HandOut> TestServer::Deliveries(absl::string_view topic) const {
  std::vector<v1::HandOut> found;
  for (const v1::HandOut& one : clock_->hand_outs_) {
    if (one.topic() == topic) found.push_back(one);
  }
  return found;
}

}  // namespace duetime::client
