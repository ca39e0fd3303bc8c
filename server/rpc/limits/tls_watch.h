// SPDX-License-Identifier: Apache-2.0
//
// TlsWatch: what gRPC decrypts on its TLS connections passes a FrameBudget.
#pragma once

#include <memory>

#include "server/rpc/limits/socket_watch.h"

namespace duetime::rpc {

// As WatchConnections, for connections with TLS.
//
// The socket shows only encrypted bytes, and gRPC 1.51 offers no hook behind the decryption. But
// gRPC calls OpenSSL's shared library, so this program defines SSL_new and SSL_read: they call
// OpenSSL's. With DUETIME_STATIC, the linker puts ours between gRPC and OpenSSL. gRPC makes the SSL
// object of a connection while it takes the connection from the acceptor, on the same thread;
// SSL_read looks at the decrypted bytes. This function stops the process if gRPC does not call our
// SSL_new. A test with a hostile client fails if gRPC ever reads in another way.
std::unique_ptr<ConnectionAcceptor> WatchTlsConnections(
    std::unique_ptr<ConnectionAcceptor> acceptor, const WatchTerms& terms);

}  // namespace duetime::rpc
