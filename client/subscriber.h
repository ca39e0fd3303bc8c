// SPDX-License-Identifier: Apache-2.0
//
// Subscriber: receives a topic's due messages, hands them to a function, and settles them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/backoff.h"
#include "client/channel.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// A view of one delivered message. Valid only while the handler runs: copy what is to be kept.
class Delivery {
 public:
  explicit Delivery(const v1::Delivery& proto) : proto_(proto) {}

  absl::string_view message_id() const { return proto_.message_id(); }
  absl::string_view payload() const { return proto_.payload(); }
  // 1 for the first delivery, as far as the server knows.
  int attempt() const { return proto_.attempt(); }
  // True if this message may have been delivered before, to anyone.
  bool maybe_redelivered() const { return proto_.maybe_redelivered(); }
  absl::Time deliver_time() const;
  absl::Time accept_time() const;
  // How much later than deliver_time the server handed it over.
  absl::Duration lateness() const;
  // Of a dead letter: what it was, and why it was put aside. Null for all others.
  const v1::DeadLetter* dead_letter() const {
    return proto_.has_dead_letter() ? &proto_.dead_letter() : nullptr;
  }
  // Everything, as it came off the wire.
  const v1::Delivery& proto() const { return proto_; }

 private:
  const v1::Delivery& proto_;
};

// What a handler made of a delivery.
struct Settlement {
  enum class Kind : uint8_t {
    kAck,         // done with it: never again
    kNack,        // give it out again, not before `delay`
    kDeadLetter,  // never give it out again, keep it as a dead letter
    kLeave,       // say nothing: it stays leased, and keeps its credit, until the lease or the
                  // stream ends
  };
  static Settlement Ack() { return {}; }
  // Again when the retry policy of the subscription says: by default at once.
  static Settlement Nack(std::string reason = "") {
    return {.kind = Kind::kNack, .delay = std::nullopt, .reason = std::move(reason)};
  }
  // Again after this delay, whatever the policy says.
  static Settlement NackAfter(absl::Duration delay, std::string reason = "") {
    return {.kind = Kind::kNack, .delay = delay, .reason = std::move(reason)};
  }
  static Settlement DeadLetter(std::string reason = "") {
    return {.kind = Kind::kDeadLetter, .delay = std::nullopt, .reason = std::move(reason)};
  }
  static Settlement Leave() { return {.kind = Kind::kLeave, .delay = std::nullopt, .reason = ""}; }
  // For handlers whose work returns a status: Ack if it is OK, else Nack with its text.
  static Settlement FromStatus(const absl::Status& status) {
    return status.ok() ? Ack() : Nack(std::string(status.message()));
  }

  Kind kind = Kind::kAck;
  // Of kNack. Absent: by the retry policy.
  std::optional<absl::Duration> delay;
  // Why, in UTF-8; kept with the dead letter that the message is now or becomes by this. Cut to 255
  // bytes.
  std::string reason;
};

// Called for each delivery, by `handler_threads` threads at once. Must not throw, and must not stop
// the subscriber.
using Handler = std::function<Settlement(const Delivery&)>;

struct SubscriberOptions {
  ServerAddress server;
  std::string topic;
  // Which of the topic's subscriptions to read; empty means "default". It is made when it is first
  // used, unless the server was told not to. Subscribers of one subscription share its messages.
  std::string subscription;
  // Names this subscriber in the server's logs.
  std::string client_id;
  // Credit: what may be delivered and not settled. 0 takes the server's default (1,000 messages, 64
  // MiB).
  int max_outstanding_messages = 0;
  int64_t max_outstanding_bytes = 0;
  // How long a delivery is leased; zero takes the subscription's (by default 30 s). It says how
  // soon a message is given to somebody else when this program dies without a word; handlers may
  // take longer, see extend_max.
  absl::Duration lease;
  // For how long after it came a delivery is kept: as long as it waits for a handler or is with
  // one, its lease is prolonged whenever a third of it has passed. After that, and with zero from
  // the beginning, the lease ends by itself and the message goes to somebody else.
  absl::Duration extend_max = absl::Hours(1);
  // How many handlers may run at once.
  int handler_threads = 1;
  BackoffOptions backoff;
  // A stream on which the server, which sends a heartbeat every 15 s by default, is silent for this
  // long is given up. It finds peers that vanished without closing the connection.
  absl::Duration silence_max = absl::Minutes(1);
  // Told why a stream ended, each time it will be opened again; on an internal thread, so be brief.
  // May be empty.
  std::function<void(const absl::Status&)> on_disconnect;
};

// Since the start. A delivery ends in one of acked, nacked, dead_lettered, left, refused, lost or
// skipped.
struct SubscriberCounts {
  // Given to the handler.
  int64_t delivered = 0;
  // Confirmed by the server.
  int64_t acked = 0;
  int64_t nacked = 0;
  int64_t dead_lettered = 0;
  // The handler said Leave.
  int64_t left = 0;
  // Settled too late or wrongly: the server refused it.
  int64_t refused = 0;
  // Settled, but the stream ended before the server confirmed: the message may come again, or not.
  int64_t lost = 0;
  // Received but never given to the handler, because the stream ended or Stop was called. It comes
  // again.
  int64_t skipped = 0;
  // Streams that the server opened.
  int64_t streams = 0;
  // Requests that held settlements. Far fewer than settlements under load.
  int64_t settle_requests = 0;
  // Leases that the server prolonged, and that it did not because they had ended: somebody else may
  // have been given the message while a handler was at it.
  int64_t extended = 0;
  int64_t leases_lost = 0;
};

// Keeps one stream open to the server until it is stopped, or refused for a reason that trying
// again cannot mend.
//
// Model: a reader thread takes frames of deliveries off the stream, handler threads work through
// them in order, and a writer thread sends everything that was settled since its last request as
// one request: batches come from load, not from a timer. It also prolongs the leases of what is not
// settled yet. When a stream ends, what was received on
// it and not begun is dropped (the server gives it out again) and a new stream is opened after a
// backoff. After a drain notice what was received is finished and settled first.
//
// Guarantees: (1) the handler gets deliveries in the order they came off the stream, if there is
// one handler thread; (2) a settlement is never sent on another stream than its delivery came from;
// (3) memory is bounded by the credit. What it does not do: recognise repeats, or interrupt a
// handler whose lease is lost. A message can come more than once. Thread-safe, but Stop and the
// destructor are not for the handler or on_disconnect.
class Subscriber {
 public:
  // Starts to connect. Errors as OpenChannel; a server that cannot be reached is no error, it is
  // tried until it is there.
  static absl::StatusOr<std::unique_ptr<Subscriber>> Start(const SubscriberOptions& options,
                                                           Handler handler);
  // As Stop().
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // Waits until the subscriber has ended by itself, for at most `timeout`; true if it has. See
  // status().
  bool WaitUntilEnded(absl::Duration timeout);

  // OK while it runs and after Stop; otherwise why it ended by itself, for example
  // INVALID_ARGUMENT.
  absl::Status status() const;

  // Ends it: begins no further message, waits for the handlers that run, for at most
  // `handlers_timeout`, then for the server to confirm what they settled, for at most
  // `confirm_timeout`, then closes the stream, which gives the rest back. OK if every handler
  // returned and all was confirmed, else DEADLINE_EXCEEDED: those messages come again. A handler
  // that still runs then is not interrupted; what it says is not sent any more, and the destructor
  // waits for it. Idempotent.
  absl::Status Stop(absl::Duration confirm_timeout = absl::Seconds(5),
                    absl::Duration handlers_timeout = absl::InfiniteDuration());

  SubscriberCounts counts() const;

 private:
  class Impl;
  explicit Subscriber(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
