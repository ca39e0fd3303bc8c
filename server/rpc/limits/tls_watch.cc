// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/tls_watch.h"

#include <cstddef>
#include <dlfcn.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace duetime::rpc {
namespace {

// Guards every WatchedTls. One lock for all, because it is held for much less time than OpenSSL
// needs to decrypt the same bytes. (gRPC holds a lock of its own while it reads a connection, but
// ThreadSanitizer cannot see it.) Never destroyed, like gRPC's threads.
base::Mutex& WatchedMutex() {
  static base::Mutex* const mutex = new base::Mutex;
  return *mutex;
}

// One connection.
class WatchedTls {
 public:
  WatchedTls(int fd, uint64_t cookie, const WatchTerms& terms)
      : fd_(fd), terms_(terms), budget_(terms.limits), requests_(terms.watchdog, fd, cookie) {}

  // True if the connection may go on after these bytes. Once false, always false.
  bool Take(absl::string_view bytes) {
    if (cut_) return false;
    const size_t before = budget_.unfinished_requests();
    const FrameBudget::Excess excess = budget_.Take(bytes, base::ReadMicros());
    cut_ = excess != FrameBudget::Excess::kNone;
    const size_t after = cut_ ? 0 : budget_.unfinished_requests();
    if (after != before) requests_.Set(after);
    if (cut_) ReportExcess(terms_, fd_, excess);
    return !cut_;
  }

 private:
  const int fd_;
  const WatchTerms terms_;
  FrameBudget budget_;
  RequestWatchdog::Connection requests_;
  bool cut_ = false;
};

// The connection that gRPC takes from an acceptor on this thread.
struct Accepted {
  int fd = -1;
  uint64_t cookie = 0;
  const WatchTerms* terms = nullptr;
  bool watched = false;
};
thread_local Accepted* t_accepted = nullptr;

class WatchingTlsAcceptor final : public ConnectionAcceptor {
 public:
  WatchingTlsAcceptor(std::unique_ptr<ConnectionAcceptor> acceptor, const WatchTerms& terms)
      : acceptor_(std::move(acceptor)), terms_(terms) {}

  void HandleNewConnection(NewConnectionParameters* connection) override { Accept(connection); }

  // Stops the process if gRPC takes a connection past SSL_new. The connection is a pair of sockets
  // whose other end closes at once.
  void Try() {
    int ends[2];
    DT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    NewConnectionParameters connection;
    connection.fd = ends[0];
    DT_CHECK(Accept(&connection));
    close(ends[1]);
  }

 private:
  // True if the connection is watched.
  bool Accept(NewConnectionParameters* connection) {
    const std::optional<uint64_t> cookie = CookieOf(connection->fd);
    Accepted accepted{.fd = connection->fd, .cookie = cookie.value_or(0), .terms = &terms_};
    if (cookie.has_value()) t_accepted = &accepted;
    acceptor_->HandleNewConnection(connection);
    t_accepted = nullptr;
    return accepted.watched;
  }

  const std::unique_ptr<ConnectionAcceptor> acceptor_;
  const WatchTerms terms_;
};

void FreeWatched(void*, void* watched, CRYPTO_EX_DATA*, int, long, void*) {
  const base::MutexLock lock(&WatchedMutex());
  delete static_cast<WatchedTls*>(watched);
}

// The place of a WatchedTls in its SSL object, which deletes it.
int WatchedIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeWatched);
  return index;
}

// Returns whether the connection is watched from now on.
bool Watch(SSL* ssl, const Accepted& accepted) {
  const base::MutexLock lock(&WatchedMutex());
  auto watched = std::make_unique<WatchedTls>(accepted.fd, accepted.cookie, *accepted.terms);
  if (SSL_set_ex_data(ssl, WatchedIndex(), watched.get()) != 1) return false;
  static_cast<void>(watched.release());
  return true;
}

// True if the connection may go on after these bytes.
bool MayGoOn(SSL* ssl, absl::string_view bytes) {
  const base::MutexLock lock(&WatchedMutex());
  auto* const watched = static_cast<WatchedTls*>(SSL_get_ex_data(ssl, WatchedIndex()));
  return watched == nullptr || watched->Take(bytes);
}

using NewTls = SSL* (*)(SSL_CTX*);
using ReadTls = int (*)(SSL*, void*, int);

SSL* NewWatched(SSL_CTX* context, NewTls next) {
  SSL* const ssl = next(context);
  if (ssl != nullptr && t_accepted != nullptr) t_accepted->watched = Watch(ssl, *t_accepted);
  return ssl;
}

int ReadWatched(SSL* ssl, void* buffer, int size, ReadTls next) {
  const int taken = next(ssl, buffer, size);
  if (taken <= 0) return taken;
  const absl::string_view bytes(static_cast<const char*>(buffer), static_cast<size_t>(taken));
  if (MayGoOn(ssl, bytes)) return taken;
  // SSL_get_error makes an I/O error of this, and gRPC closes the connection.
  return -1;
}

#ifndef DUETIME_STATIC
// OpenSSL's function of this name.
template <typename Function>
Function Next(const char* name) {
  const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  DT_CHECK(next != nullptr);
  return next;
}
#endif

}  // namespace

std::unique_ptr<ConnectionAcceptor> WatchTlsConnections(
    std::unique_ptr<ConnectionAcceptor> acceptor, const WatchTerms& terms) {
  auto watching = std::make_unique<WatchingTlsAcceptor>(std::move(acceptor), terms);
#ifndef DUETIME_STATIC
  // Shared libraries find ours first. With DUETIME_STATIC, the program would not link otherwise.
  DT_CHECK(dlsym(RTLD_DEFAULT, "SSL_read") == reinterpret_cast<void*>(&SSL_read));
#endif
  watching->Try();
  return watching;
}

}  // namespace duetime::rpc

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): OpenSSL's names
#ifdef DUETIME_STATIC
// With --wrap, the linker turns the calls of SSL_x to __wrap_SSL_x, and those of __real_SSL_x to
// OpenSSL.
extern "C" {
SSL* __real_SSL_new(SSL_CTX* context);
SSL* __wrap_SSL_new(SSL_CTX* context);
int __real_SSL_read(SSL* ssl, void* buffer, int size);
int __wrap_SSL_read(SSL* ssl, void* buffer, int size);
}
SSL* __wrap_SSL_new(SSL_CTX* context) { return duetime::rpc::NewWatched(context, __real_SSL_new); }
int __wrap_SSL_read(SSL* ssl, void* buffer, int size) {
  return duetime::rpc::ReadWatched(ssl, buffer, size, __real_SSL_read);
}
#else
// These take the place of OpenSSL's functions in this program and in its shared libraries.
extern "C" SSL* SSL_new(SSL_CTX* context) {
  static const auto next = duetime::rpc::Next<duetime::rpc::NewTls>("SSL_new");
  return duetime::rpc::NewWatched(context, next);
}
extern "C" int SSL_read(SSL* ssl, void* buffer, int size) {
  static const auto next = duetime::rpc::Next<duetime::rpc::ReadTls>("SSL_read");
  return duetime::rpc::ReadWatched(ssl, buffer, size, next);
}
#endif
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
