// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/exporter.h"

#include <chrono>
#include <exception>
#include <netdb.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/base/check.h"
#include "server/base/mutex.h"

namespace duetime::metrics {
namespace {

constexpr char kLocalhost[] = "localhost:";
constexpr std::chrono::milliseconds kKnockEvery{10};

// Makes a TCP connection and closes it. It does not matter whether that succeeds.
void Knock(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host(absl::StripPrefix(absl::StripSuffix(address.substr(0, colon), "]"), "["));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) return;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    static_cast<void>(connect(fd, found->ai_addr, found->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Start(const std::string& listen,
                                                          std::shared_ptr<Collector> collector) {
  // The HTTP library takes numeric addresses only.
  std::string address = listen;
  if (absl::StartsWith(listen, kLocalhost)) {
    address = absl::StrCat("127.0.0.1:", listen.substr(sizeof(kLocalhost) - 1));
  }
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/1);
    exposer->RegisterCollectable(collector);
    return std::unique_ptr<Exporter>(new Exporter(address.substr(0, address.rfind(':')),
                                                  std::move(exposer), std::move(collector)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on metrics_listen = ", listen, ": ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::StartIfWanted(
    const ExporterOptions& options, std::shared_ptr<Collector> collector) {
  if (options.listen.empty()) return nullptr;
  return Start(options.listen, std::move(collector));
}

Exporter::Exporter(std::string host, std::unique_ptr<prometheus::Exposer> exposer,
                   std::shared_ptr<Collector> collector)
    : host_(std::move(host)), collector_(std::move(collector)), exposer_(std::move(exposer)) {}

Exporter::~Exporter() {
  // The HTTP library checks for its stop only every 2 seconds, or when a connection comes. A
  // restart should not take that long, so this thread opens connections until the library has
  // stopped.
  const std::string own_address = address();
  base::Mutex mutex;
  base::CondVar changed;
  bool stopped = false;
  std::thread stopper([&] {
    exposer_.reset();
    base::MutexLock lock(&mutex);
    stopped = true;
    changed.NotifyOne();
  });
  for (bool done = false; !done;) {
    Knock(own_address);
    base::MutexLock lock(&mutex);
    if (!stopped) changed.WaitFor(&mutex, kKnockEvery);
    done = stopped;
  }
  stopper.join();
}

std::string Exporter::address() const { return absl::StrCat(host_, ":", port()); }

uint16_t Exporter::port() const {
  const std::vector<int> ports = exposer_->GetListeningPorts();
  DT_CHECK(!ports.empty());
  return static_cast<uint16_t>(ports[0]);
}

}  // namespace duetime::metrics
