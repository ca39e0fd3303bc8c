// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/console.h"

#include <arpa/inet.h>
#include <cstdio>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/connection.h"
#include "client/cli/console/assets.h"
#include "client/cli/console/http_error.h"
#include "client/cli/console/http_gate.h"
#include "client/cli/console/rpc_bridge.h"
#include "client/cli/json.h"
#include "client/cli/show.h"
#include "client/cli/signals.h"
#include "client/cpp/channel.h"

namespace duetime::cli {
namespace {

constexpr char kJsonType[] = "application/json; charset=utf-8";
constexpr char kApi[] = "/api/";
constexpr char kMetrics[] = "/metrics";
constexpr int kMetricsTimeoutSeconds = 3;
constexpr size_t kMetricsBytesMax = 8 << 20;

// Where to listen, or where the metrics are.
struct Address {
  std::string host;
  int port = 0;
  bool ipv6() const { return absl::StrContains(host, ':'); }
  std::string Text() const {
    return ipv6() ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
  }
};

// "host:port", with brackets around an address of IPv6.
absl::StatusOr<Address> ReadAddress(const std::string& option, absl::string_view text) {
  const size_t colon = text.rfind(':');
  Address address;
  absl::string_view host = text.substr(0, colon);
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65'535) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " is host:port, such as 127.0.0.1:7790"));
  }
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) host = "";
  address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  return address;
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<Address> ReadListen(const std::string& text) {
  absl::StatusOr<Address> address = ReadAddress("--listen", text);
  if (!address.ok() || IsLoopback(address->host)) return address;
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen must be a loopback address, such as 127.0.0.1:7790: the console has no login, so "
      "anyone "
      "who reaches ",
      text,
      " could read and change all messages. From another machine, use ssh -L 7790:127.0.0.1:7790"));
}

// The options of the command line that lead to this server from any shell, so that the page can
// show whole commands.
nlohmann::json ServerOptions(const client::ServerAddress& server) {
  nlohmann::json words = {"--server", server.target};
  for (const auto& [option, value] :
       {std::pair{"--tls-ca", &server.tls_ca_file}, std::pair{"--tls-cert", &server.tls_cert_file},
        std::pair{"--tls-key", &server.tls_key_file},
        std::pair{"--token-file", &server.token_file}}) {
    if (!value->empty()) words.insert(words.end(), {option, *value});
  }
  // A context could add what the options leave open.
  const absl::StatusOr<ContextFile> contexts = ReadContexts();
  const bool has_contexts = !contexts.ok() || contexts->contexts_size() > 0;
  if (has_contexts) words.insert(words.end(), {"--context", kNoContext});
  return words;
}

// What the page may load and who may frame it. Trusted types make the browser refuse text as HTML.
httplib::Headers SecurityHeaders() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
           "'self'; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
           "require-trusted-types-for 'script'; trusted-types 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

// The pages and calls of one console.
class Site {
 public:
  Site(const Settings& settings, Assets assets, std::optional<Address> metrics,
       const std::shared_ptr<grpc::Channel>& channel)
      : settings_(settings),
        assets_(std::move(assets)),
        metrics_(std::move(metrics)),
        bridge_(channel, settings.deadline) {}

  void Get(const httplib::Request& request, httplib::Response* response) const {
    if (request.path == kMetrics && metrics_.has_value()) return GetMetrics(response);
    if (request.path == "/console.json") {
      const nlohmann::json about = {{"version", DUETIME_VERSION},
                                    {"server", settings_.server.target},
                                    {"options", ServerOptions(settings_.server)},
                                    {"metrics", metrics_.has_value()}};
      response->set_content(about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                            kJsonType);
      return;
    }
    const auto asset = assets_.find(request.path);
    if (asset == assets_.end()) {
      return Fail(404,
                  MakeError(absl::StatusCode::kNotFound, "PATH_UNKNOWN", "there is no such file"),
                  response);
    }
    response->set_content(asset->second.content, asset->second.content_type);
  }

  void Post(const httplib::Request& request, httplib::Response* response) const {
    absl::string_view method = request.path;
    if (!absl::ConsumePrefix(&method, kApi)) {
      return Fail(404,
                  MakeError(absl::StatusCode::kNotFound, "PATH_UNKNOWN", "calls are below /api/"),
                  response);
    }
    const absl::StatusOr<std::string> answer = bridge_.Call(method, request.body);
    if (!answer.ok()) return Fail(HttpStatusOf(answer.status().code()), answer.status(), response);
    response->set_content(*answer, kJsonType);
  }

  static void Fail(int http_status, const absl::Status& error, httplib::Response* response) {
    response->status = http_status;
    response->set_content(ErrorJson(error), kJsonType);
  }

 private:
  // A page of this console cannot read the address of the metrics itself: it is another origin.
  void GetMetrics(httplib::Response* response) const {
    httplib::Client client(metrics_->host, metrics_->port);
    client.set_connection_timeout(kMetricsTimeoutSeconds);
    client.set_read_timeout(kMetricsTimeoutSeconds);
    std::string text;
    const httplib::Result result = client.Get(kMetrics, [&text](const char* data, size_t size) {
      text.append(data, size);
      return text.size() <= kMetricsBytesMax;
    });
    if (!result || result->status != 200) {
      return Fail(503,
                  MakeError(absl::StatusCode::kUnavailable, "METRICS_UNAVAILABLE",
                            absl::StrCat("no metrics at ", metrics_->Text())),
                  response);
    }
    response->set_content(text, "text/plain; charset=utf-8");
  }

  const Settings settings_;
  const Assets assets_;
  const std::optional<Address> metrics_;
  const RpcBridge bridge_;
};

void Route(const Site* site, const HttpGate* gate, httplib::Server* server) {
  server->set_default_headers(SecurityHeaders());
  // One request for each connection: a refused request may leave its body unread, and nothing after
  // it may be taken for a request.
  server->set_keep_alive_max_count(1);
  server->set_payload_max_length(kBodyBytesMax);
  server->set_pre_routing_handler(
      [gate](const httplib::Request& request, httplib::Response& response) {
        const std::optional<Refusal> refusal = gate->Check(request);
        if (!refusal.has_value()) return httplib::Server::HandlerResponse::Unhandled;
        Site::Fail(refusal->http_status, refusal->error, &response);
        return httplib::Server::HandlerResponse::Handled;
      });
  server->Get(".*", [site](const auto& request, auto& response) { site->Get(request, &response); });
  server->Post(".*",
               [site](const auto& request, auto& response) { site->Post(request, &response); });
}

absl::Status Serve(const Settings& settings, const Input& input) {
  absl::StatusOr<Address> listen = ReadListen(input.Text("--listen"));
  if (!listen.ok()) return listen.status();
  std::optional<Address> metrics;
  if (input.Has("--metrics")) {
    const absl::StatusOr<Address> address = ReadAddress("--metrics", input.Text("--metrics"));
    if (!address.ok()) return address.status();
    metrics = *address;
  }
  absl::StatusOr<Assets> assets = ReadAssets(input.Text("--assets"));
  if (!assets.ok()) return assets.status();
  // Before gRPC starts threads.
  Signals signals;
  const auto channel = client::OpenChannel(settings.server);
  if (!channel.ok()) return channel.status();

  httplib::Server server;
  // Not the library's options, with which a second console would listen on the same port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  const Site site(settings, *std::move(assets), metrics, *channel);
  if (listen->port == 0) {
    listen->port = server.bind_to_any_port(listen->host);
  } else if (!server.bind_to_port(listen->host, listen->port)) {
    listen->port = -1;
  }
  if (listen->port < 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", input.Text("--listen"),
                                                      ": is another program using the port?"));
  }
  const HttpGate gate({listen->Text(), absl::StrCat("localhost:", listen->port)});
  Route(&site, &gate, &server);
  std::thread listener([&server] { server.listen_after_bind(); });
  Print(absl::StrCat("console of ", settings.server.target, ": http://", listen->Text(), "/\n"));
  // A program that waits for the address reads it from a pipe.
  std::fflush(stdout);
  while (signals.Wait(absl::Hours(1)) == 0) {
  }
  server.stop();
  listener.join();
  return absl::OkStatus();
}

ExitCode RunConsole(const Settings& settings, const Input& input) {
  const absl::Status status = Serve(settings, input);
  if (status.ok()) return kDone;
  PrintError(absl::StrCat("duetime: ", std::string(status.message()), "\n"));
  return status.code() == absl::StatusCode::kInvalidArgument ? kBadUsage : kRefused;
}

}  // namespace

Command ConsoleCommand() {
  return {"console",
          "Serve a web page to watch and manage the server",
          "The page is for a browser on this machine: the console listens on the loopback only, "
          "because "
          "it has no login. It talks to the server as every command does. Ctrl-C ends it.",
          {"", "--listen 127.0.0.1:8080 --server 10.0.0.7:7788 --tls-ca ca.pem",
           "--metrics 127.0.0.1:7789"},
          {Row("", "--listen", "The loopback address and port to listen on; port 0: any free one",
               {Default("127.0.0.1:7790")}),
           Row("", "--assets",
               "The directory of the page's files, if they are not where the program is installed"),
           Row("", "--metrics",
               "The server's metrics_listen, host:port: the page then shows lateness, memory and "
               "disk")},
          {.run = RunConsole}};
}

}  // namespace duetime::cli
