// SPDX-License-Identifier: Apache-2.0
//
// HttpGate: which requests of a browser the console takes.
#pragma once

#include <httplib.h>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::cli {

// Every request that changes something carries this header. A page of another site can send it only
// after a permission (CORS) that the console never gives.
inline constexpr char kConsoleHeader[] = "X-Duetime-Console";
inline constexpr size_t kBodyBytesMax = 2 << 20;

// A refused request: a status of HTTP and the error for the body.
struct Refusal {
  int http_status = 0;
  absl::Status error;
};

// Judges the head of a request, before its body is read. Any web page that the user opens can make
// the user's browser send requests to the console's address, and can point a name of its own at it
// (DNS rebinding). So the request must name an address of the console, in Host and, if there is
// one, in Origin. Constant after construction, so thread-safe.
class HttpGate {
 public:
  // `scheme`: "http://" or "https://". `hosts`: the values of Host that mean this console, such as
  // "127.0.0.1:7790".
  HttpGate(std::string scheme, std::vector<std::string> hosts)
      : scheme_(std::move(scheme)), hosts_(std::move(hosts)) {}

  // Returns nullopt if the request may be served.
  std::optional<Refusal> Check(const httplib::Request& request) const;

 private:
  bool IsOurs(absl::string_view host) const;
  std::optional<Refusal> CheckPost(const httplib::Request& request) const;

  const std::string scheme_;
  const std::vector<std::string> hosts_;
};

}  // namespace duetime::cli
