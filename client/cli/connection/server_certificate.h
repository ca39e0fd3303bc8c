// SPDX-License-Identifier: Apache-2.0
//
// The certificate that a server shows.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace duetime::cli {

// When the certificate of the server at `target` ("host:port") expires. Makes a TLS handshake and
// verifies nothing, so that it also reads a certificate that has expired. UNAVAILABLE if there is
// no answer with a certificate within `timeout`.
absl::StatusOr<absl::Time> ReadCertificateEnd(const std::string& target, absl::Duration timeout);

}  // namespace duetime::cli
