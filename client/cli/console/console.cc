// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/console.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/cli/console/assets.h"
#include "client/cli/console/console_address.h"
#include "client/cli/console/console_server.h"
#include "client/cli/console/history.h"
#include "client/cli/show.h"
#include "client/cli/terminal/signals.h"

namespace duetime::cli {
namespace {

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

absl::Status Serve(const Settings& settings, const Input& input) {
  absl::StatusOr<ConsoleOptions> options = ReadOptions(settings, input);
  if (!options.ok()) return options.status();
  absl::StatusOr<Assets> assets = ReadAssets(input.Text("--assets"));
  if (!assets.ok()) return assets.status();
  // Before gRPC starts threads.
  Signals signals;
  const auto console =
      ConsoleServer::Start(settings, *std::move(options), *std::move(assets), &signals);
  if (!console.ok()) return console.status();
  const std::string url = (*console)->url();
  const std::string on = (*console)->addresses();
  const bool same = absl::StrContains(url, absl::StrCat("//", on, "/"));
  // Nobody can use a console whose address, perhaps with a port of its own, was not written.
  if (!Print(absl::StrCat("console of ", settings.server.target, ": ", url,
                          same ? "" : absl::StrCat(" on ", on), "\n"))) {
    return absl::OkStatus();
  }
  do {
    (*console)->Record();
  } while (signals.Wait(History::kPeriod) == 0);
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
