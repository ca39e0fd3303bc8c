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
#include "client/cli/console/http_gate.h"
#include "client/cli/console/login.h"
#include "client/cli/console/rpc_bridge.h"

namespace duetime::cli {

// Answers the requests that the gate has let through. The files of the page are for everybody; all
// else needs a token if there is a login. Constant after construction, so thread-safe.
class Site {
 public:
  // `login` may be null: then every call has the rights of `channel`. It outlives the site.
  Site(const Settings& settings, Assets assets, std::optional<ConsoleAddress> metrics,
       const std::shared_ptr<grpc::Channel>& channel, Login* login)
      : settings_(settings),
        assets_(std::move(assets)),
        metrics_(std::move(metrics)),
        bridge_(channel, settings.deadline),
        login_(login) {}

  // Makes the server answer with this site. Both outlive the server.
  void Route(const HttpGate* gate, httplib::Server* server) const;

 private:
  void Get(const httplib::Request& request, httplib::Response* response) const;
  void Post(const httplib::Request& request, httplib::Response* response) const;
  absl::Status GetAbout(const httplib::Request& request, httplib::Response* response) const;
  absl::Status GetMetrics(const httplib::Request& request, httplib::Response* response) const;

  const Settings settings_;
  const Assets assets_;
  const std::optional<ConsoleAddress> metrics_;
  const RpcBridge bridge_;
  Login* const login_;
};

}  // namespace duetime::cli
