// SPDX-License-Identifier: Apache-2.0
#include "tests/support/server_process.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"

namespace duetime::test {
namespace {

// The pause between health checks while the server answers "not serving". gRPC itself waits for a
// server that does not listen yet.
constexpr Millis kAskAgain(5);
constexpr Millis kAnswerTimeout(1'000);

// Lets a daemon create its store in `path` if there is none. Older daemons, which benchmarks run,
// have no flag --init. They ignore the file.
void AllowStore(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_empty(path, error)) return;
  std::filesystem::create_directory(path, error);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  std::ofstream(path + "/init").close();
}

bool IsMap(const std::string& flag) { return flag.rfind("--gateway-cells=", 0) == 0; }

// The word between `before` and the next blank or comma.
std::string WordAfter(const std::string& text, const std::string& before) {
  const size_t start = text.find(before);
  if (start == std::string::npos) return "";
  const size_t first = start + before.size();
  return text.substr(first, text.find_first_of(", \n\"", first) - first);
}

}  // namespace

ServerProcess::ServerProcess(Options options)
    : options_(std::move(options)), directory_(options_.where) {
  if (std::getenv("DUETIME_TEST_CELLS") != nullptr) MakeCells();
}

void ServerProcess::MakeCells() {
  constexpr int kSlots = 16'384;
  const int count = std::atoi(std::getenv("DUETIME_TEST_CELLS"));
  unsetenv("DUETIME_TEST_CELLS");
  // The gateway has those of the server, too, but for the data.
  std::vector<std::string> flags = options_.flags;
  for (int i = 0; i < count; ++i) {
    cells_.push_back(std::make_unique<ServerProcess>(Options{.daemon = options_.daemon,
                                                             .flags = options_.flags,
                                                             .where = options_.where,
                                                             .tls = {},
                                                             .environment = options_.environment}));
    flags.push_back("--gateway-cells=" + std::string(1, static_cast<char>('a' + i)) + " " +
                    std::to_string(kSlots * i / count) + "-" +
                    std::to_string(kSlots * (i + 1) / count - 1) + " " + cells_.back()->target());
  }
  setenv("DUETIME_TEST_CELLS", std::to_string(count).c_str(), 1);
  options_.flags = std::move(flags);
}

std::string ServerProcess::log() const {
  std::string all = OwnLog();
  for (const auto& cell : cells_) all += cell->log();
  return all;
}

std::vector<std::string> ServerProcess::CommandLine() const {
  std::vector<std::string> argv = {options_.daemon,
                                   // The file system of a test directory may be small.
                                   "--disk-free-min-bytes=0"};
  // A gateway keeps nothing.
  if (std::none_of(options_.flags.begin(), options_.flags.end(), IsMap)) {
    argv.push_back("--data-dir=" + data_dir());
  }
  if (options_.unix_socket) argv.push_back("--listen=" + target());
  if (options_.tcp) argv.push_back("--listen=127.0.0.1:0");
  argv.insert(argv.end(), {"--metrics-listen", options_.metrics ? "127.0.0.1:0" : ""});
  argv.insert(argv.end(), options_.flags.begin(), options_.flags.end());
  return argv;
}

void ServerProcess::Launch() {
  tcp_target_.clear();
  metrics_port_ = 0;
  for (const auto& cell : cells_) cell->Start();
  log_start_ = OwnLog().size();
  AllowStore(data_dir());
  process_ =
      std::make_unique<Subprocess>(CommandLine(), directory_.Join("log"), options_.environment);
}

bool ServerProcess::Start(Millis timeout) {
  Launch();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::shared_ptr<grpc::Channel> channel;
  if (options_.unix_socket) channel = Connect();
  while (std::chrono::steady_clock::now() < deadline) {
    if (process_->Wait(Millis(0)).has_value()) {
      error_ = "the daemon ended instead of serving:\n" + OwnLog().substr(log_start_);
      return false;
    }
    if (channel == nullptr) {
      // Without a Unix socket the port is needed first. The log shows it when the server is ready.
      ReadPorts();
      client::ServerAddress address = options_.tls;
      address.target = tcp_target_;
      if (!tcp_target_.empty()) channel = *client::OpenChannel(address);
    }
    if (channel != nullptr && IsServing(channel.get())) {
      // The server logs its ports a moment after it begins to serve.
      ReadPorts();
      if ((!options_.tcp || !tcp_target_.empty()) && (!options_.metrics || metrics_port_ != 0)) {
        return true;
      }
    }
    process_->Wait(kAskAgain);
  }
  error_ = "the daemon does not serve in time:\n" + OwnLog().substr(log_start_);
  return false;
}

std::optional<ExitStatus> ServerProcess::Stop(Millis timeout) {
  process_->Signal(15);
  const std::optional<ExitStatus> status = process_->Wait(timeout);
  for (const auto& cell : cells_) cell->Stop(timeout);
  return status;
}

void ServerProcess::Kill() {
  for (const auto& cell : cells_) cell->Kill();
  process_->Signal(9);
  process_->Wait(Millis(60'000));
}

std::shared_ptr<grpc::Channel> ServerProcess::Connect() const {
  client::ServerAddress address;
  address.target = target();
  return *client::OpenChannel(address);
}

bool ServerProcess::IsServing(grpc::Channel* channel) const {
  const auto health = grpc::health::v1::Health::NewStub(
      std::shared_ptr<grpc::Channel>(channel, [](grpc::Channel*) {}));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  grpc::health::v1::HealthCheckResponse response;
  return health->Check(&context, {}, &response).ok() &&
         response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

void ServerProcess::ReadPorts() {
  const std::string text = OwnLog().substr(log_start_);
  const size_t ready = text.find("ready: ");
  if (ready == std::string::npos || text.find('\n', ready) == std::string::npos) return;
  const std::string line = text.substr(ready, text.find('\n', ready) - ready);
  const std::string port = WordAfter(line, "127.0.0.1:");
  if (options_.tcp) tcp_target_ = "127.0.0.1:" + port;
  const std::string metrics = WordAfter(line, "metrics=127.0.0.1:");
  if (!metrics.empty()) metrics_port_ = std::atoi(metrics.c_str());
}

}  // namespace duetime::test
