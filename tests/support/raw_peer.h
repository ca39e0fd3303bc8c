// SPDX-License-Identifier: Apache-2.0
//
// RawPeer: a connection over which a test sends any bytes, with or without TLS.
#pragma once

#include <arpa/inet.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace duetime::test {

// Connects to "unix:PATH" in plaintext, or to "127.0.0.1:PORT" with TLS. Checks no certificate, and
// never reads. The kernel buffers little, so a peer that sends much soon finds out if the server
// has closed the connection. Thread safety: one thread at a time.
class RawPeer {
 public:
  explicit RawPeer(const std::string& target) {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    connected_ = target.starts_with("unix:") ? ConnectUnix(target.substr(5)) : ConnectTls(target);
  }
  ~RawPeer() {
    ssl_.reset();
    if (fd_ >= 0) close(fd_);
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }

  // Returns false once the connection is closed.
  bool Send(const std::string& bytes) {
    if (ssl_ != nullptr) return SSL_write(ssl_.get(), bytes.data(), Size(bytes)) == Size(bytes);
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == Size(bytes);
  }

 private:
  static constexpr int kSendBufferBytes = 16 << 10;

  static int Size(const std::string& bytes) { return static_cast<int>(bytes.size()); }

  template <typename Address>
  bool Connect(const Address& address) {
    fd_ = socket(reinterpret_cast<const sockaddr*>(&address)->sa_family, SOCK_STREAM | SOCK_CLOEXEC,
                 0);
    setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
    return connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool ConnectUnix(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    return Connect(address);
  }

  bool ConnectTls(const std::string& target) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int port = std::atoi(target.substr(target.rfind(':') + 1).c_str());
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (!Connect(address)) return false;
    context_.reset(SSL_CTX_new(TLS_client_method()));
    ssl_.reset(SSL_new(context_.get()));
    const unsigned char protocol[] = {2, 'h', '2'};
    return SSL_set_alpn_protos(ssl_.get(), protocol, sizeof(protocol)) == 0 &&
           SSL_set_fd(ssl_.get(), fd_) == 1 && SSL_connect(ssl_.get()) == 1;
  }

  int fd_ = -1;
  bool connected_ = false;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

}  // namespace duetime::test
