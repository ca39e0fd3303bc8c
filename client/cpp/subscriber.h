// SPDX-License-Identifier: Apache-2.0
//
// Subscriber: receives the due messages of a topic, hands them to a function, and settles them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "client/cpp/backoff.h"
#include "client/cpp/channel.h"
#include "client/cpp/log_function.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// A view of one delivered message. Valid only while the handler runs.
class Delivery {
 public:
  explicit Delivery(const v1::Delivery& proto) : proto_(proto) {}

  absl::string_view message_id() const { return proto_.message_id(); }
  absl::string_view payload() const { return proto_.payload(); }
  // 1 for the first delivery, as far as the server knows.
  int attempt() const { return proto_.attempt(); }
  // True if this message may have been delivered before.
  bool maybe_redelivered() const { return proto_.maybe_redelivered(); }
  absl::Time deliver_time() const;
  absl::Time accept_time() const;
  // How much later than deliver_time the server delivered it.
  absl::Duration lateness() const;
  // The origin of a dead letter, and why it became one. Null for other messages.
  const v1::DeadLetter* dead_letter() const {
    return proto_.has_dead_letter() ? &proto_.dead_letter() : nullptr;
  }
  // The delivery as the server sent it.
  const v1::Delivery& proto() const { return proto_; }

 private:
  const v1::Delivery& proto_;
};

// How a handler settles a delivery.
struct Settlement {
  enum class Kind : uint8_t {
    kAck,         // the message is done
    kNack,        // deliver it again, not before `delay`
    kDeadLetter,  // never deliver it again, keep it as a dead letter
    kRelease,     // not begun: deliver it again, not before `delay`; no failed attempt
    kLeave,       // no answer: the message keeps its lease and its credit until the lease or the
                  // stream ends
  };
  static Settlement Ack() { return {}; }
  // Delivers the message again by the retry policy of the subscription.
  static Settlement Nack(std::string reason = "") {
    return {.kind = Kind::kNack, .delay = std::nullopt, .reason = std::move(reason)};
  }
  // Delivers the message again after this delay, without regard to the policy.
  static Settlement NackAfter(absl::Duration delay, std::string reason = "") {
    return {.kind = Kind::kNack, .delay = delay, .reason = std::move(reason)};
  }
  static Settlement DeadLetter(std::string reason = "") {
    return {.kind = Kind::kDeadLetter, .delay = std::nullopt, .reason = std::move(reason)};
  }
  // Gives the message back, as if the handler had not got it.
  static Settlement Release(absl::Duration delay = absl::ZeroDuration()) {
    return {.kind = Kind::kRelease, .delay = delay, .reason = ""};
  }
  static Settlement Leave() { return {.kind = Kind::kLeave, .delay = std::nullopt, .reason = ""}; }
  // Ack if `status` is OK, else Nack with its text.
  static Settlement FromStatus(const absl::Status& status) {
    return status.ok() ? Ack() : Nack(std::string(status.message()));
  }

  Kind kind = Kind::kAck;
  // How long the next delivery waits at least. Without a value, a nack waits as the retry policy
  // says, and a release does not wait.
  std::optional<absl::Duration> delay;
  // Why. Kept with the dead letter if the message becomes one now. Cut to 255 bytes; in a text that
  // is not UTF-8, bytes beyond ASCII become "?".
  std::string reason;
};

// Returns the settlement of this lease, for Client::Settle. The server refuses a reason over 255
// bytes, and a kLeave, which settles nothing.
v1::Settlement ToProto(const Settlement& settlement, std::string lease_token);

// Settles a delivery. `handler_threads` threads call it at once. It must not stop the subscriber.
// If it throws an exception, the settlement is a Nack with the exception's text.
using Handler = std::function<Settlement(const Delivery&)>;

// Handles up to SubscriberOptions::batch_max deliveries in one call, in the order of the stream.
// Returns one settlement for each delivery, in their order. An empty vector acks all. Any other
// number of settlements nacks all, and is logged. If the function throws an exception, the
// exception is logged, and all are nacked with its text. In all else it is like a Handler.
//
// A batch holds the deliveries that have arrived when the handler is free. No delivery waits for
// others, so a batch may hold only one. If a batch ends this program, its messages come again one
// by one, so that the message that ends it again becomes a dead letter alone. The first end counts
// as a failed attempt of each message if the call lasted longer than about 100 ms.
using BatchHandler = std::function<std::vector<Settlement>(absl::Span<const Delivery>)>;

struct SubscriberOptions {
  ServerAddress server;
  std::string topic;
  // The subscription to read; empty means "default". The first use creates it, unless the server is
  // configured otherwise. Subscribers of one subscription share its messages.
  std::string subscription;
  // Names this subscriber in the server's logs.
  std::string client_id;
  // Credit: the most messages and bytes that are delivered and not settled. 0: the server's default
  // (1,000 messages, 64 MiB).
  int max_outstanding_messages = 0;
  int64_t max_outstanding_bytes = 0;
  // The subscriber ends by itself, with status OK, when the handler has got this many deliveries
  // and each is settled, or its stream is lost. The server delivers no more than these. After a
  // disconnect, the subscriber waits for running handlers. 0: it runs until Stop.
  int64_t max_deliveries = 0;
  // The lease of a delivery. Zero: that of the subscription (by default 30 s). When this program
  // dies, other subscribers get its messages after this time. Handlers may take longer, see
  // extend_max.
  absl::Duration lease;
  // For how long after its handler's begin the subscriber extends the lease of a delivery, each
  // time that a third of the lease has passed. Afterwards the lease ends, and the message goes to
  // another subscriber. A delivery that waits for a handler is extended for as long after its
  // arrival, and then given back. Zero: the subscriber extends no lease, and gives a delivery back
  // that has waited for two thirds of its lease.
  absl::Duration extend_max = absl::Hours(1);
  // How many handlers may run at once.
  int handler_threads = 1;
  // The most deliveries in one call of a BatchHandler. Less than 1: one. The credit bounds a batch
  // as well.
  int batch_max = 100;
  BackoffOptions backoff;
  // A stream ends if the server is silent for this long; the server sends a heartbeat every 15 s by
  // default. This detects peers that vanish without closing the connection.
  absl::Duration silence_max = absl::Minutes(1);
  // Gets the status of a stream that ended and will be opened again. Runs on an internal thread, so
  // it must be brief. May be empty. An exception is logged.
  std::function<void(const absl::Status&)> on_disconnect;
  // Called when the server has opened a stream: the first one, and each after a disconnect. As
  // on_disconnect.
  std::function<void(const v1::SubscribeStarted&)> on_connect;
  // Gets a line when the subscriber is connected, cannot reach the server, loses it, has it back or
  // is refused, and when a callback throws an exception. While nothing changes, the line comes
  // again after a minute, then ever more rarely. Empty: standard error. An exception is ignored.
  LogFunction log;
};

// Counts since the start. Each delivery ends in one of acked, nacked, dead_lettered, released,
// left, refused, lost or skipped.
struct SubscriberCounts {
  // Deliveries that the handler got.
  int64_t delivered = 0;
  // Settlements that the server confirmed.
  int64_t acked = 0;
  int64_t nacked = 0;
  int64_t dead_lettered = 0;
  int64_t released = 0;
  // The handler returned Leave.
  int64_t left = 0;
  // Settlements that the server refused: too late, or invalid.
  int64_t refused = 0;
  // The same by reason.
  std::map<v1::SettleRefusal::Reason, int64_t> refusals = {};
  // Settlements without confirmation when the stream ended. The message may come again.
  int64_t lost = 0;
  // Deliveries that the handler did not get: the stream ended, Stop was called, they waited for too
  // long, or their lease had ended. The messages come again, and this is no failed attempt.
  int64_t skipped = 0;
  // Streams that the server opened.
  int64_t streams = 0;
  // Requests with settlements. Under load far fewer than settlements.
  int64_t settle_requests = 0;
  // Leases that the server extended; and leases that had ended before, so that another subscriber
  // may have the message while a handler works on it. No handler begins after that.
  int64_t extended = 0;
  int64_t leases_lost = 0;
};

// Keeps one stream to the server open until Stop, or until the server refuses it for a permanent
// reason.
//
// Model: a reader thread reads frames of deliveries. Handler threads process them in order. A
// writer thread sends all settlements since its last request as one request, so that load makes
// batches and no timer is needed; it also extends the leases of unsettled deliveries, and reports
// handlers that run for more than a moment. When a stream ends, deliveries without a handler are
// dropped (the server delivers them again), and a new stream opens after a backoff. After a drain
// notice the subscriber first handles and settles its deliveries.
//
// Guarantees: (1) with one handler thread, the handler gets deliveries in the order of the stream;
// (2) a settlement is sent only on the stream of its delivery; (3) the credit bounds the memory;
// (4) no handler begins for a delivery whose lease is known to have ended; (5) only a delivery
// whose handler has begun is a failed attempt. It neither recognises repeats nor interrupts a
// handler that lost its lease. A message can come more than once. Thread-safe, but the handler,
// on_connect and on_disconnect must not call Stop or the destructor.
class Subscriber {
 public:
  // Starts to connect. Errors as OpenChannel. An unreachable server is no error, because the
  // subscriber tries until it connects.
  static absl::StatusOr<std::unique_ptr<Subscriber>> Start(const SubscriberOptions& options,
                                                           Handler handler);
  // As Start, with a handler of several deliveries. `handler_threads` counts its calls.
  static absl::StatusOr<std::unique_ptr<Subscriber>> StartBatch(const SubscriberOptions& options,
                                                                BatchHandler handler);
  // As Stop().
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // Waits for at most `timeout` until the subscriber ends by itself. Returns true if it has. See
  // status().
  bool WaitUntilEnded(absl::Duration timeout);

  // OK while the subscriber runs, after Stop, and after max_deliveries. Otherwise the error that
  // ended the subscriber, for example INVALID_ARGUMENT.
  absl::Status status() const;

  // Ends the subscriber. Starts no further handler, and releases the deliveries without one; waits
  // for running handlers, for at most `handlers_timeout`; waits for the server to confirm the
  // settlements, for at most `confirm_timeout`; then closes the stream. OK if every
  // handler returned and every settlement was confirmed, else DEADLINE_EXCEEDED: those messages
  // come again. A handler that still runs is not interrupted. Its settlement is not sent, and the
  // destructor waits for it. Idempotent.
  absl::Status Stop(absl::Duration confirm_timeout = absl::Seconds(5),
                    absl::Duration handlers_timeout = absl::InfiniteDuration());

  SubscriberCounts counts() const;

 private:
  class Impl;
  explicit Subscriber(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
