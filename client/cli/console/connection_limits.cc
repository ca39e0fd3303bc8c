// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/connection_limits.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <utility>

#include "client/cli/console/http_gate.h"

namespace duetime::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRequestsMax = 32;
constexpr size_t kConnectionsMax = 64;
// With the handshake of TLS.
constexpr uint64_t kHeadBytesMax = 64 << 10;
// TLS adds 22 bytes or more to each record, and a record may be short.
constexpr uint64_t kBodyOverheadMax = 1 << 20;
constexpr std::chrono::seconds kReadTimeMax{15};
// The page itself waits 60 s for an answer.
constexpr std::chrono::seconds kTotalTimeMax{90};

struct ServedConnection {
  Clock::time_point begin;
  uint64_t bytes_max = 0;
};
// The connection that this thread serves.
thread_local ServedConnection served_connection;

// OpenSSL calls this before and after each operation on the socket, and does not read or write if
// the answer is 0.
long CheckSocketUse(BIO* bio, int operation, int result) {
  const bool reads = operation == BIO_CB_READ;
  if (!reads && operation != BIO_CB_WRITE) return result;
  const auto age = Clock::now() - served_connection.begin;
  const bool within = reads
                          ? age < kReadTimeMax && BIO_number_read(bio) < served_connection.bytes_max
                          : age < kTotalTimeMax;
  if (within) return result;
  // A flag that an earlier operation left would make the HTTP library try again.
  BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  return 0;
}

// bool, or void in older versions of the library.
using Enqueued = decltype(std::declval<httplib::TaskQueue>().enqueue({}));

class BoundedTaskQueue : public httplib::TaskQueue {
 public:
  // Called by the thread that accepts connections.
  Enqueued enqueue(std::function<void()> serve) override {
    slots_.acquire();
    return threads_.enqueue([this, serve = std::move(serve)] {
      serve();
      slots_.release();
    });
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  std::counting_semaphore<> slots_{kConnectionsMax};
  httplib::ThreadPool threads_{kRequestsMax};
};

}  // namespace

void LimitConnections(SSL_CTX* context) {
  // A second handshake would be a second beginning.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_info_callback(context, [](const SSL* ssl, int where, int /*result*/) {
    BIO* bio = SSL_get_rbio(ssl);
    if ((where & SSL_CB_HANDSHAKE_START) == 0 || BIO_get_callback_ex(bio) != nullptr) return;
    served_connection = {.begin = Clock::now(), .bytes_max = kHeadBytesMax};
    BIO_set_callback_ex(bio, [](BIO* socket, int operation, const char* /*data*/, size_t /*size*/,
                                int /*argi*/, long /*argl*/, int result, size_t* /*processed*/) {
      return CheckSocketUse(socket, operation, result);
    });
  });
}

void AllowBody() { served_connection.bytes_max = kHeadBytesMax + kBodyBytesMax + kBodyOverheadMax; }

httplib::TaskQueue* NewTaskQueue() { return new BoundedTaskQueue; }

}  // namespace duetime::cli
