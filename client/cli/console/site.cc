// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/site.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/connection/connection.h"
#include "client/cli/console/connection_limits.h"
#include "client/cli/console/http_error.h"
#include "client/cli/console/metrics.h"
#include "client/cli/json.h"

namespace duetime::cli {
namespace {

constexpr char kJsonType[] = "application/json; charset=utf-8";
constexpr char kApi[] = "/api/";
constexpr char kAbout[] = "/console.json";
constexpr char kMetrics[] = "/metrics";
constexpr char kHistory[] = "/history.json";

// The options of the command line that lead to this server from any shell, so that the page can
// show whole commands.
nlohmann::json ServerOptions(const client::ServerAddress& server, bool login) {
  nlohmann::json words = {"--server", server.target};
  // With a login, the person has a token of their own in a file that only they know.
  const std::string token_file = login ? "TOKEN_FILE" : server.token_file;
  for (const auto& [option, value] :
       {std::pair{"--tls-ca", &server.tls_ca_file}, std::pair{"--tls-cert", &server.tls_cert_file},
        std::pair{"--tls-key", &server.tls_key_file}, std::pair{"--token-file", &token_file}}) {
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

void Fail(int http_status, const absl::Status& error, httplib::Response* response) {
  response->status = http_status;
  response->set_content(ErrorJson(error), kJsonType);
}

void Fail(const absl::Status& error, httplib::Response* response) {
  Fail(HttpStatusOf(error.code()), error, response);
}

absl::Status NoSuchPath(absl::string_view message) {
  return MakeError(absl::StatusCode::kNotFound, "PATH_UNKNOWN", message);
}

}  // namespace

void Site::Route(const HttpGate* gate, httplib::Server* server) const {
  server->set_default_headers(SecurityHeaders());
  // One request for each connection: a refused request may leave its body unread, and nothing after
  // it may be taken for a request.
  server->set_keep_alive_max_count(1);
  server->set_payload_max_length(kBodyBytesMax);
  server->set_pre_routing_handler(
      [gate](const httplib::Request& request, httplib::Response& response) {
        const std::optional<Refusal> refusal = gate->Check(request);
        if (!refusal.has_value()) {
          AllowBody();
          return httplib::Server::HandlerResponse::Unhandled;
        }
        Fail(refusal->http_status, refusal->error, &response);
        return httplib::Server::HandlerResponse::Handled;
      });
  server->Get(".*", [this](const auto& request, auto& response) { Get(request, &response); });
  server->Post(".*", [this](const auto& request, auto& response) { Post(request, &response); });
}

void Site::Get(const httplib::Request& request, httplib::Response* response) const {
  absl::Status status;
  if (request.path == kAbout) {
    status = GetAbout(request, response);
  } else if (request.path == kMetrics && parts_.metrics.has_value()) {
    status = GetMetrics(request, response);
  } else if (request.path == kHistory && parts_.history != nullptr) {
    status = GetHistory(request, response);
  } else if (const auto asset = parts_.assets.find(request.path); asset != parts_.assets.end()) {
    response->set_content(asset->second.content, asset->second.content_type);
  } else {
    status = NoSuchPath("there is no such file");
  }
  if (!status.ok()) Fail(status, response);
}

void Site::Post(const httplib::Request& request, httplib::Response* response) const {
  absl::string_view method = request.path;
  if (!absl::ConsumePrefix(&method, kApi))
    return Fail(NoSuchPath("calls are below /api/"), response);
  std::string token;
  if (parts_.login != nullptr) {
    absl::StatusOr<std::string> shown = parts_.login->TokenFor(request);
    if (!shown.ok()) return Fail(shown.status(), response);
    token = *std::move(shown);
  }
  const absl::StatusOr<std::string> answer = bridge_.Call(method, request.body, token);
  if (parts_.login != nullptr) parts_.login->OnAnswer(request, token, answer.status());
  if (answer.ok()) return response->set_content(*answer, kJsonType);
  Fail(answer.status(), response);
}

absl::Status Site::GetAbout(const httplib::Request& request, httplib::Response* response) const {
  nlohmann::json about;
  bool may_operate = true;
  if (parts_.login != nullptr) {
    const absl::StatusOr<v1::CheckAccessResponse> person = parts_.login->Identify(request);
    if (!person.ok()) return person.status();
    about["principal"] = person->principal();
    may_operate = person->allowed();
  }
  about["metrics"] = parts_.metrics.has_value() && may_operate;
  about["history"] = parts_.history != nullptr && may_operate;
  about["read_only"] = parts_.read_only;
  about["version"] = DUETIME_VERSION;
  about["server"] = parts_.settings.server.target;
  about["options"] = ServerOptions(parts_.settings.server, parts_.login != nullptr);
  response->set_content(about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                        kJsonType);
  return absl::OkStatus();
}

absl::Status Site::CheckOperator(const httplib::Request& request, absl::string_view what) const {
  if (parts_.login == nullptr) return absl::OkStatus();
  const absl::StatusOr<v1::CheckAccessResponse> person = parts_.login->Identify(request);
  if (!person.ok()) return person.status();
  if (person->allowed()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied, "PERMISSION_DENIED",
                   absl::StrCat(what, " the right to operate the server"));
}

// A page of this console cannot read the address of the metrics itself: it is another origin.
absl::Status Site::GetMetrics(const httplib::Request& request, httplib::Response* response) const {
  // They name every topic.
  absl::Status status = CheckOperator(request, "the metrics need");
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> text = FetchMetrics(*parts_.metrics);
  if (text.ok()) response->set_content(*text, "text/plain; charset=utf-8");
  return text.status();
}

absl::Status Site::GetHistory(const httplib::Request& request, httplib::Response* response) const {
  absl::Status status = CheckOperator(request, "the history needs");
  if (!status.ok()) return status;
  response->set_content(request.has_param("topic")
                            ? parts_.history->TopicJson(request.get_param_value("topic"))
                            : parts_.history->ServerJson(),
                        kJsonType);
  return status;
}

}  // namespace duetime::cli
