// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/console.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <httplib.h>
#include <memory>
#include <openssl/ssl.h>
#include <optional>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/console/assets.h"
#include "client/cli/console/connection_limits.h"
#include "client/cli/console/console_address.h"
#include "client/cli/console/recorder.h"
#include "client/cli/console/site.h"
#include "client/cli/show.h"
#include "client/cli/terminal/signals.h"
#include "client/cpp/channel.h"
#include "server/base/listen_sockets.h"

namespace duetime::cli {
namespace {

// Between two packets.
constexpr int kRequestTimeoutSeconds = 5;

// What the command line asks for.
struct ConsoleOptions {
  ConsoleAddress listen;
  std::optional<ConsoleAddress> metrics;
  // The values of Host that others than this machine send.
  std::vector<std::string> public_hosts;
  bool login = false;
  bool read_only = false;
  std::string cert_file;
  std::string key_file;

  bool tls() const { return !cert_file.empty(); }
  absl::string_view scheme() const { return tls() ? "https://" : "http://"; }
};

absl::Status CheckListen(const ConsoleOptions& options, absl::string_view text) {
  if (!options.listen.IsLoopback() && !(options.login && options.tls())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "without --login and a certificate (--serve-cert, --serve-key), --listen must be a "
        "loopback address, such as 127.0.0.1:7790: anyone who reaches ",
        text,
        " could read and change all messages. From another machine, use ssh -L "
        "7790:127.0.0.1:7790"));
  }
  if (options.listen.IsWildcard() && options.public_hosts.empty()) {
    return absl::InvalidArgumentError(
        "--listen on all addresses needs --public-host: the names by which browsers reach the "
        "console");
  }
  return absl::OkStatus();
}

// Tokens of people pass the console, so it must have no rights of its own to lend them.
absl::Status CheckLogin(const client::ServerAddress& server) {
  if (!server.token.empty() || !server.token_file.empty()) {
    return absl::InvalidArgumentError(
        "with --login each person gives a token of their own: the console itself must have none "
        "(--token-file, DUETIME_TOKEN_FILE, or that of a context)");
  }
  if (!IsPrivateWay(server)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--login passes tokens to ", server.target,
                     ": use TLS (--tls-ca), so that nobody on the way reads them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ConsoleOptions> ReadOptions(const Settings& settings, const Input& input) {
  ConsoleOptions options;
  absl::StatusOr<ConsoleAddress> listen = ReadConsoleAddress("--listen", input.Text("--listen"));
  if (!listen.ok()) return listen.status();
  options.listen = *std::move(listen);
  if (input.Has("--metrics")) {
    absl::StatusOr<ConsoleAddress> metrics =
        ReadConsoleAddress("--metrics", input.Text("--metrics"));
    if (!metrics.ok()) return metrics.status();
    options.metrics = *std::move(metrics);
  }
  for (const std::string& text : input.List("--public-host")) {
    absl::StatusOr<std::string> host = ReadPublicHost("--public-host", text);
    if (!host.ok()) return host.status();
    options.public_hosts.push_back(*std::move(host));
  }
  options.login = input.Has("--login");
  options.read_only = input.Has("--read-only");
  options.cert_file = input.Text("--serve-cert");
  options.key_file = input.Text("--serve-key");
  absl::Status status = CheckListen(options, input.Text("--listen"));
  if (status.ok() && options.login) status = CheckLogin(settings.server);
  if (!status.ok()) return status;
  return options;
}

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
  if (!options.listen.IsWildcard()) {
    hosts.insert(hosts.begin(), options.listen.Text());
    hosts.insert(hosts.end(), addresses.begin(), addresses.end());
  }
  if (options.listen.IsLoopback()) hosts.push_back(absl::StrCat("localhost:", options.listen.port));
  return hosts;
}

absl::Status Serve(const Settings& settings, const Input& input) {
  absl::StatusOr<ConsoleOptions> options = ReadOptions(settings, input);
  if (!options.ok()) return options.status();
  absl::StatusOr<Assets> assets = ReadAssets(input.Text("--assets"));
  if (!assets.ok()) return assets.status();
  // Before gRPC starts threads.
  Signals signals;
  const auto channel = client::OpenChannel(settings.server);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<Login> login;
  if (options->login) {
    login = std::make_unique<Login>(*channel, settings.deadline);
    if (absl::Status status = login->CheckServer(); !status.ok()) return status;
  }

  absl::StatusOr<Recorder::Sources> sources =
      Recorder::SourcesOf(settings, options->login, options->metrics);
  if (!sources.ok()) return sources.status();
  History history;
  Recorder recorder(*std::move(sources), &signals, &history);

  const Site site({.settings = settings,
                   .assets = *std::move(assets),
                   .metrics = options->metrics,
                   .channel = *channel,
                   .login = login.get(),
                   .history = options->login && !options->metrics.has_value() ? nullptr : &history,
                   .read_only = options->read_only});
  absl::StatusOr<Listeners> listeners = Listen(&*options);
  if (!listeners.ok()) return listeners.status();
  const std::vector<std::string> hosts = HostsOf(*options, listeners->addresses);
  const HttpGate gate(std::string(options->scheme()), hosts);
  for (const auto& server : listeners->servers) {
    server->new_task_queue = NewTaskQueue;
    server->set_read_timeout(kRequestTimeoutSeconds);
    server->set_write_timeout(kRequestTimeoutSeconds);
    site.Route(&gate, server.get());
  }
  const std::string on = absl::StrJoin(listeners->addresses, ", ");
  // Nobody can use a console whose address, perhaps with a port of its own, was not written.
  if (!Print(absl::StrCat("console of ", settings.server.target, ": ", options->scheme(),
                          hosts.front(), "/", on == hosts.front() ? "" : absl::StrCat(" on ", on),
                          "\n"))) {
    return absl::OkStatus();
  }
  std::vector<std::future<bool>> served;
  for (const auto& server : listeners->servers) {
    served.push_back(
        std::async(std::launch::async, [&server] { return server->listen_after_bind(); }));
  }
  do {
    recorder.Record();
  } while (signals.Wait(History::kPeriod) == 0);
  for (size_t i = 0; i < served.size(); ++i) {
    // A server that does not listen yet would not notice the stop.
    constexpr std::chrono::milliseconds kPause{1};
    while (!listeners->servers[i]->is_running() &&
           served[i].wait_for(kPause) != std::future_status::ready) {
    }
    listeners->servers[i]->stop();
  }
  return absl::OkStatus();
}

ExitCode RunConsole(const Settings& settings, const Input& input) {
  const absl::Status status = Serve(settings, input);
  if (status.ok()) return kDone;
  PrintError(settings.json ? ErrorJson(status)
                           : absl::StrCat("duetime: ", std::string(status.message()), "\n"));
  return status.code() == absl::StatusCode::kInvalidArgument ? kBadUsage : kRefused;
}

}  // namespace

Command ConsoleCommand() {
  return {
      "console",
      "Serve a web page to watch and manage the server",
      "Without --login the page is for a browser on this machine: it has the rights of this "
      "command, and the console listens on the loopback only. With --login each person gives "
      "a token of the server, whose rights they then have; with a certificate, too, the "
      "console may listen on any address. It keeps the rates and the lateness of the last six "
      "hours. Ctrl-C ends it.",
      {"", "--listen 127.0.0.1:8080 --server 10.0.0.7:7788 --tls-ca ca.pem",
       "--metrics 127.0.0.1:7789 --read-only",
       "--login --listen 0.0.0.0:443 --serve-cert tls.crt --serve-key tls.key --public-host "
       "duetime.example.com"},
      {Row("", "--listen",
           "The address and port to listen on; port 0: any free one. Other than loopback: with "
           "--login and a certificate",
           {Default("127.0.0.1:7790")}),
       Row("", "--login",
           "Ask each person for a token. The server must have access control, and the console "
           "no token of its own",
           {Type(Row::Type::kFlag)}),
       Row("", "--read-only",
           "Change nothing: refuse every call that does more than read, also of people with rights",
           {Type(Row::Type::kFlag)}),
       Row("", "--serve-cert", "The certificate of the console (PEM, with its chain), for HTTPS",
           {Needs({"--serve-key"})}),
       Row("", "--serve-key", "Its key (PEM). The files are read at the start",
           {Needs({"--serve-cert"})}),
       Row("", "--public-host",
           "A name by which browsers reach the console, NAME or NAME:PORT, besides the listen "
           "address; may be repeated",
           {Type(Row::Type::kList)}),
       Row("", "--assets",
           "The directory of the page's files, if they are not where the program is installed"),
       Row("", "--metrics",
           "The server's metrics_listen, host:port: the page then shows lateness, memory and "
           "disk")},
      {.run = RunConsole}};
}

}  // namespace duetime::cli
