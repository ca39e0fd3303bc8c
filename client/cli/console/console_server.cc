// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/console_server.h"

#include <chrono>
#include <future>
#include <httplib.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/console/connection_limits.h"
#include "client/cli/console/recorder.h"
#include "client/cli/console/site.h"
#include "client/cpp/channel.h"
#include "server/base/listen_sockets.h"

namespace duetime::cli {
namespace {

// Between two packets.
constexpr int kRequestTimeoutSeconds = 5;

absl::StatusOr<std::unique_ptr<httplib::Server>> MakeServer(const ConsoleOptions& options) {
  if (!options.tls()) return std::make_unique<httplib::Server>();
  auto server =
      std::make_unique<httplib::SSLServer>(options.cert_file.c_str(), options.key_file.c_str());
  if (!server->is_valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("not a certificate and its key, or they cannot be read: ", options.cert_file,
                     ", ", options.key_file));
  }
  SSL_CTX_ctrl(server->ssl_context(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
  LimitConnections(server->ssl_context());
  return server;
}

// Listens on one address; completes the port.
absl::Status Bind(ConsoleAddress* listen, httplib::Server* server) {
  // Not the library's options, with which a second console would listen on the same port.
  server->set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  bool bound = true;
  if (listen->port == 0) {
    listen->port = server->bind_to_any_port(listen->host);
    bound = listen->port > 0;
  } else {
    bound = server->bind_to_port(listen->host, listen->port);
  }
  if (bound) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", listen->Text(), ": is another program using the port?"));
}

// One server of the library for each address, because each has one socket.
struct Listeners {
  std::vector<std::unique_ptr<httplib::Server>> servers;
  // "127.0.0.1:7790", "[::1]:7790".
  std::vector<std::string> addresses;
};

// Listens on all addresses of `options->listen`; completes its port.
absl::StatusOr<Listeners> Listen(ConsoleOptions* options) {
  const auto addresses = base::AddressesOf(options->listen.host);
  if (!addresses.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", options->listen.Text(),
                                                      ": ", addresses.status().message()));
  }
  Listeners listeners;
  for (const std::string& host : *addresses) {
    absl::StatusOr<std::unique_ptr<httplib::Server>> server = MakeServer(*options);
    if (!server.ok()) return server.status();
    ConsoleAddress address{.host = host, .port = options->listen.port};
    if (absl::Status status = Bind(&address, server->get()); !status.ok()) return status;
    options->listen.port = address.port;
    listeners.servers.push_back(*std::move(server));
    listeners.addresses.push_back(address.Text());
  }
  return listeners;
}

// The values of Host that mean this console. The first is the address to show.
std::vector<std::string> HostsOf(const ConsoleOptions& options,
                                 const std::vector<std::string>& addresses) {
  std::vector<std::string> hosts = options.public_hosts;
  const bool open = options.listen.IsWildcard();
  const bool for_this_machine = options.listen.IsLoopback() || (open && hosts.empty());
  if (open && hosts.empty()) hosts.push_back(absl::StrCat("127.0.0.1:", options.listen.port));
  if (!open) {
    hosts.insert(hosts.begin(), options.listen.Text());
    hosts.insert(hosts.end(), addresses.begin(), addresses.end());
  }
  if (for_this_machine) hosts.push_back(absl::StrCat("localhost:", options.listen.port));
  return hosts;
}

}  // namespace

struct ConsoleServer::Parts {
  Parts(Recorder::Sources sources, Signals* signals)
      : recorder(std::move(sources), signals, &history) {}

  std::unique_ptr<Login> login;
  History history;
  Recorder recorder;
  std::unique_ptr<const Site> site;
  std::unique_ptr<const HttpGate> gate;
  Listeners listeners;
  std::string url;
  std::vector<std::future<bool>> served{};
};

ConsoleServer::ConsoleServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<ConsoleServer>> ConsoleServer::Start(const Settings& settings,
                                                                    ConsoleOptions options,
                                                                    Assets assets,
                                                                    Signals* signals) {
  const auto channel = client::OpenChannel(settings.server);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<Login> login;
  if (options.login) {
    login = std::make_unique<Login>(*channel, settings.deadline);
    if (absl::Status status = login->CheckServer(); !status.ok()) return status;
  }
  absl::StatusOr<Recorder::Sources> sources =
      Recorder::SourcesOf(settings, options.login, options.metrics);
  if (!sources.ok()) return sources.status();
  auto parts = std::make_unique<Parts>(*std::move(sources), signals);
  parts->login = std::move(login);
  const bool keeps_history = !options.login || options.metrics.has_value();
  parts->site =
      std::make_unique<const Site>(Site::Parts{.settings = settings,
                                               .assets = std::move(assets),
                                               .metrics = options.metrics,
                                               .channel = *channel,
                                               .login = parts->login.get(),
                                               .history = keeps_history ? &parts->history : nullptr,
                                               .read_only = options.read_only});
  absl::StatusOr<Listeners> listeners = Listen(&options);
  if (!listeners.ok()) return listeners.status();
  parts->listeners = *std::move(listeners);
  const std::vector<std::string> hosts = HostsOf(options, parts->listeners.addresses);
  const std::string scheme(options.scheme());
  parts->url = absl::StrCat(scheme, hosts.front(), "/");
  parts->gate = std::make_unique<const HttpGate>(scheme, hosts);
  for (const auto& server : parts->listeners.servers) {
    server->new_task_queue = NewTaskQueue;
    server->set_read_timeout(kRequestTimeoutSeconds);
    server->set_write_timeout(kRequestTimeoutSeconds);
    parts->site->Route(parts->gate.get(), server.get());
    parts->served.push_back(
        std::async(std::launch::async, [&server] { return server->listen_after_bind(); }));
  }
  return std::unique_ptr<ConsoleServer>(new ConsoleServer(std::move(parts)));
}

ConsoleServer::~ConsoleServer() {
  for (size_t i = 0; i < parts_->served.size(); ++i) {
    // A server that does not listen yet would not notice the stop.
    constexpr std::chrono::milliseconds kPause{1};
    const auto& server = parts_->listeners.servers[i];
    while (!server->is_running() &&
           parts_->served[i].wait_for(kPause) != std::future_status::ready) {
    }
    server->stop();
  }
}

std::string ConsoleServer::url() const { return parts_->url; }

std::string ConsoleServer::addresses() const {
  return absl::StrJoin(parts_->listeners.addresses, ", ");
}

void ConsoleServer::Record() { parts_->recorder.Record(); }

}  // namespace duetime::cli
