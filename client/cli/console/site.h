// SPDX-License-Identifier: Apache-2.0
//
// Site: the pages and calls of one console.
#pragma once

#include <httplib.h>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "client/cli/command.h"
#include "client/cli/console/assets.h"
#include "client/cli/console/console_address.h"
#include "client/cli/console/history.h"
#include "client/cli/console/http_gate.h"
#include "client/cli/console/login.h"
#include "client/cli/console/rpc_bridge.h"

namespace duetime::cli {

// Answers the requests that the gate has let through. The files of the page are for everybody; all
// else needs a token if there is a login. Constant after construction, so thread-safe.
class Site {
 public:
  // The pointers outlive the site.
  struct Parts {
    Settings settings;
    Assets assets;
    std::optional<ConsoleAddress> metrics;
    std::shared_ptr<grpc::Channel> channel;
    // Null: every call has the rights of `channel`.
    Login* login = nullptr;
    // Null if the console keeps none.
    const History* history = nullptr;
    bool read_only = false;
  };

  explicit Site(Parts parts)
      : parts_(std::move(parts)),
        bridge_(parts_.channel, parts_.settings.deadline, parts_.read_only) {}

  // Makes the server answer with this site. Both outlive the server.
  void Route(const HttpGate* gate, httplib::Server* server) const;

 private:
  void Get(const httplib::Request& request, httplib::Response* response) const;
  void Post(const httplib::Request& request, httplib::Response* response) const;
  absl::Status GetAbout(const httplib::Request& request, httplib::Response* response) const;
  absl::Status GetMetrics(const httplib::Request& request, httplib::Response* response) const;
  absl::Status GetHistory(const httplib::Request& request, httplib::Response* response) const;
  // OK without a login, and for a person who may operate the server. `what` begins the error:
  // "the metrics need".
  absl::Status CheckOperator(const httplib::Request& request, absl::string_view what) const;

  const Parts parts_;
  const RpcBridge bridge_;
};

}  // namespace duetime::cli
