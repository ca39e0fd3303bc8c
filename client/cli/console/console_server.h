// SPDX-License-Identifier: Apache-2.0
//
// ConsoleServer: serves the page of one server, by threads of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/cli/command.h"
#include "client/cli/console/assets.h"
#include "client/cli/console/console_address.h"
#include "client/cli/terminal/signals.h"

namespace duetime::cli {

struct ConsoleOptions {
  // On all addresses, without a public host, browsers of this machine reach the console.
  ConsoleAddress listen{};
  std::optional<ConsoleAddress> metrics{};
  // The values of Host that others than this machine send.
  std::vector<std::string> public_hosts{};
  bool login = false;
  bool read_only = false;
  std::string cert_file{};
  std::string key_file{};

  bool tls() const { return !cert_file.empty(); }
  absl::string_view scheme() const { return tls() ? "https://" : "http://"; }
};

// Used by one thread.
class ConsoleServer {
 public:
  // Listens and serves. `signals` outlives the console; they were made before gRPC started threads.
  //
  //   FAILED_PRECONDITION   it cannot listen, the certificate cannot be read, or with `login` the
  //                         server has no access control
  //   other errors          the server cannot be asked about its access control
  static absl::StatusOr<std::unique_ptr<ConsoleServer>> Start(const Settings& settings,
                                                              ConsoleOptions options, Assets assets,
                                                              Signals* signals);
  // Ends the open requests.
  ~ConsoleServer();
  ConsoleServer(const ConsoleServer&) = delete;
  ConsoleServer& operator=(const ConsoleServer&) = delete;

  // What a person opens: "http://127.0.0.1:7790/".
  std::string url() const;
  // The addresses of the sockets: "127.0.0.1:7790, [::1]:7790".
  std::string addresses() const;

  // Reads the server for the history of the page. Call it every History::kPeriod. Takes at most a
  // few seconds.
  void Record();

 private:
  struct Parts;
  explicit ConsoleServer(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace duetime::cli
