// SPDX-License-Identifier: Apache-2.0
#include "client/cli/connection/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <google/protobuf/util/json_util.h>
#include <sstream>
#include <stdlib.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cpp/convert.h"
#include "server/base/write_all.h"

namespace duetime::cli {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& path, const std::string& reason) {
  return absl::InternalError(absl::StrCat("cannot write ", path, ": ", reason));
}

// The context that the command line or the environment names, else the current one, else none.
absl::StatusOr<Context> ChooseContext(const std::string& name) {
  if (name == kNoContext) return Context();
  absl::StatusOr<ContextFile> file = ReadContexts();
  if (!file.ok()) return file.status();
  if (!name.empty()) {
    const Context* named = FindContext(name, &*file);
    if (named != nullptr) return *named;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no context \"", name, "\"; see duetime context list"));
  }
  for (const Context& context : file->contexts()) {
    if (context.current()) return context;
  }
  return Context();
}

}  // namespace

std::string EnvironmentOf(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe) nothing sets it
  return value == nullptr ? "" : value;
}

Rows ConnectionRows() {
  return {
      Row("server", "--server",
          "The server: host:port, or unix:/path/to.sock; the usual port is 7788 (default: "
          "127.0.0.1:7788)",
          {NotEmpty(), Environment(), Line("server", "127.0.0.1:7788"), Column("SERVER", "-")}),
      Row("tls_ca", "--tls-ca",
          "Use TLS, and trust the servers that these certificates (PEM) vouch for",
          {NotEmpty(), Environment(), Line("tls ca"), Column("TLS CA", "-")}),
      Row("tls_cert", "--tls-cert", "Use TLS, and show this certificate (PEM)",
          {NotEmpty(), Environment(), Line("tls cert"), Column("TLS CERT", "-")}),
      Row("tls_key", "--tls-key", "The key of --tls-cert (PEM)",
          {NotEmpty(), Environment(), Line("tls key")}),
      Row("token_file", "--token-file", "Show the token in this file with each call; only with TLS",
          {NotEmpty(), Environment(), Line("token file")}),
      Row("timeout", "--timeout", "Wait this long for an answer (default: 10s)",
          {Environment(), Line("timeout", "10s"), Column("TIMEOUT", "-")}),
  };
}

const Command& GlobalOptions() {
  static const auto& command = *new Command{
      .words = "",
      .help = "",
      .note = "",
      .examples = {},
      .rows = Join({ConnectionRows(),
                    {Row("", "--context",
                         "Take what the options leave open from this context, and nothing from the "
                         "environment; none: from no context (default: the one of duetime context "
                         "use, after the environment)",
                         {NotEmpty(), Environment()}),
                     Row("", "--utc",
                         "Show times in UTC, and read times without an offset as UTC (default: "
                         "this machine's time zone)",
                         {Type(Row::Type::kFlag)}),
                     Row("", "--json", "Print JSON, for scripts", {Type(Row::Type::kFlag)}),
                     Row("", "--no-color,--no-colour", "Print no colours; so does NO_COLOR=1",
                         {Type(Row::Type::kFlag)})}}),
      .action = {.request = &Context::default_instance()}};
  return command;
}

absl::StatusOr<Settings> MakeSettings(const Input& global, bool needs_server) {
  Settings settings;
  settings.json = global.Has("--json");
  settings.no_colours = global.Has("--no-color,--no-colour");
  if (!global.Has("--utc")) {
    const LocalZone local = LocalZoneOf(EnvironmentOf("TZ"));
    settings.zone = local.zone;
    settings.unknown_tz = local.unknown_tz;
  }
  if (!needs_server) return settings;
  absl::StatusOr<Context> context = ChooseContext(global.Text("--context"));
  if (!context.ok()) return context.status();
  context->MergeFrom(global.As<Context>());
  if (!context->server().empty()) settings.server.target = context->server();
  settings.server.tls_ca_file = context->tls_ca();
  settings.server.tls_cert_file = context->tls_cert();
  settings.server.tls_key_file = context->tls_key();
  settings.server.token_file = context->token_file();
  if (context->has_timeout()) settings.deadline = client::FromProto(context->timeout());
  const absl::Status status = CompleteTarget(&settings.server.target);
  if (!status.ok()) return status;
  return settings;
}

absl::Status CompleteTarget(std::string* target) {
  // ":7788"
  const std::string usual = client::ServerAddress().target;
  const std::string port = usual.substr(usual.rfind(':'));
  if (absl::StartsWith(*target, "https://")) {
    return absl::InvalidArgumentError(
        "--server is host:port; for TLS give --tls-ca, and leave https:// out");
  }
  absl::string_view host = *target;
  if (absl::ConsumePrefix(&host, "http://")) absl::ConsumeSuffix(&host, "/");
  // unix:/path, dns:///name and others are addresses of gRPC.
  if (absl::StrContains(host, '/')) {
    if (host.size() == target->size()) return absl::OkStatus();
    return absl::InvalidArgumentError("--server is host:port, without a path");
  }
  const auto colons = std::count(host.begin(), host.end(), ':');
  const bool ipv6 =
      colons > 1 && host.find_first_not_of("0123456789abcdefABCDEF:.") == absl::string_view::npos;
  if (ipv6) {
    *target = absl::StrCat("[", host, "]", port);
  } else if (!host.empty() && (colons == 0 || absl::EndsWith(host, "]"))) {
    *target = absl::StrCat(host, port);
  } else {
    *target = std::string(host);
  }
  return absl::OkStatus();
}

std::string ContextPath() {
  fs::path folder = EnvironmentOf("XDG_CONFIG_HOME");
  // The XDG specification ignores a relative path.
  if (!folder.is_absolute()) {
    const std::string home = EnvironmentOf("HOME");
    if (home.empty()) return "";
    folder = fs::path(home) / ".config";
  }
  return folder / "duetime" / "contexts.json";
}

absl::StatusOr<ContextFile> ReadContexts() {
  const std::string path = ContextPath();
  ContextFile file;
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return file;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  in.peek();
  if (!in.is_open() || in.bad() || (in.good() && !(text << in.rdbuf()))) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  }
  const auto read = google::protobuf::util::JsonStringToMessage(text.str(), &file);
  if (read.ok()) return file;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is not a file of contexts: ", std::string(read.message()), "; repair or remove it"));
}

absl::Status WriteContexts(const ContextFile& file) {
  const fs::path path = ContextPath();
  if (path.empty()) {
    return absl::InternalError("neither XDG_CONFIG_HOME nor HOME says where to keep contexts");
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for a duration out of protobuf's range, which no option can have.
  const auto printed = google::protobuf::util::MessageToJsonString(file, &text, options);
  if (!printed.ok()) return CannotWrite(path, printed.ToString());
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return CannotWrite(path, error.message());
  // mkstemp makes a file that only its owner can read.
  std::string draft = path.string() + ".XXXXXX";
  const int out = mkstemp(draft.data());
  if (out < 0) return CannotWrite(path, std::generic_category().message(errno));
  const bool written = base::WriteAll(out, text) && fsync(out) == 0;
  const bool closed = close(out) == 0;
  if (written && closed && std::rename(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const std::string reason = std::generic_category().message(errno);
  std::remove(draft.c_str());
  return CannotWrite(path, reason);
}

Context* FindContext(const std::string& name, ContextFile* file) {
  for (Context& context : *file->mutable_contexts()) {
    if (context.name() == name) return &context;
  }
  return nullptr;
}

}  // namespace duetime::cli
