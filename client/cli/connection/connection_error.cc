// SPDX-License-Identifier: Apache-2.0
#include "client/cli/connection/connection_error.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/cli/connection/server_certificate.h"
#include "client/cpp/error.h"

namespace duetime::cli {

absl::Status NamedConnectionError(const client::ServerAddress& server, const absl::Status& error) {
  // What the server says is clear.
  if (error.ok() || !client::GetErrorInfo(error).reason.empty()) return error;
  if (absl::StrContains(error.message(), "metadata size exceeds limit")) {
    return absl::Status(
        error.code(),
        absl::StrCat("the headers of the call are larger than the server takes: is the token of ",
                     server.token_file.empty() ? "the command" : server.token_file,
                     " a token, and whole?"));
  }
  const bool over_network =
      !absl::StartsWith(server.target, "unix:") && !absl::StrContains(server.target, ',');
  if (!absl::IsUnavailable(error) || !over_network) return error;
  if (!server.tls_ca_file.empty() || !server.tls_cert_file.empty()) {
    // What OpenSSL says of an answer that is no TLS. BoringSSL writes it in capitals.
    if (!absl::StrContains(error.message(), "wrong version number") &&
        !absl::StrContains(error.message(), "WRONG_VERSION_NUMBER")) {
      return error;
    }
    return absl::UnavailableError(
        "it does not speak TLS: leave out --tls-ca, --tls-cert and --tls-key, which a context or "
        "the environment may give, too");
  }
  // Where nothing listens, the question would only take its time.
  for (const char* text :
       {"Failed to connect to remote host", "Connection refused", "resolution"}) {
    if (absl::StrContains(error.message(), text)) return error;
  }
  if (!ReadCertificateEnd(server.target, absl::Seconds(1)).ok()) return error;
  return absl::UnavailableError(
      "it speaks TLS: give --tls-ca FILE with the authority of its certificate, or a context that "
      "has it");
}

}  // namespace duetime::cli
