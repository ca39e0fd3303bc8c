// SPDX-License-Identifier: Apache-2.0
//
// Client: schedules, cancels and reads messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "client/backoff.h"
#include "client/channel.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

struct ClientOptions {
  ServerAddress server;
  // For each call, its retries included. Zero or less fails every call with DEADLINE_EXCEEDED.
  absl::Duration deadline = absl::Seconds(10);
  // Tries of a call that may be tried again; 1 never tries again.
  int attempts_max = 4;
  // Between tries. A delay that the server asks for is kept as well.
  BackoffOptions backoff;
};

// What to deliver, and when.
struct NewMessage {
  std::string topic{};
  std::string payload{};
  std::map<std::string, std::string> attributes{};
  // Absolute, or relative to the arrival at the server. What is finer than a nanosecond is rounded
  // up, and the server rounds up to milliseconds: never early. The past and zero mean at once. A
  // negative or infinite duration, and a time out of the server's range, are refused by the server.
  std::variant<absl::Duration, absl::Time> when = absl::ZeroDuration();
};

// A message as the server holds it.
struct Message {
  std::string id;
  std::string topic;
  // Empty unless read with View::kFull.
  std::string payload;
  std::map<std::string, std::string> attributes;
  absl::Time deliver_time;
  absl::Time accept_time;
  v1::Message::State state = v1::Message::STATE_UNSPECIFIED;
  int attempts = 0;
  int64_t payload_bytes = 0;
};

// What a cancel found; see CancelResponse in the proto for each outcome.
struct CancelResult {
  v1::CancelResponse::Outcome outcome = v1::CancelResponse::OUTCOME_UNSPECIFIED;
  v1::Message::State state = v1::Message::STATE_UNSPECIFIED;
  bool redelivery_stopped = false;
  bool delivery_uncertain = false;
  // True if an earlier try of this call ended without an answer. NOT_FOUND may then be that try's
  // own doing.
  bool tried_before = false;
};

enum class View { kBasic, kFull };

// A client of one server, over one connection.
//
// A call blocks until its answer or its deadline. Errors carry the server's code, text and details
// (GetErrorInfo).
//
// Retries: only after UNAVAILABLE, within the call's deadline, and only where a repeat does no
// harm: Cancel, Get and ServerInfo. Schedule and ScheduleBatch are tried again only with
// Repeat::kAllowDuplicates, because the server cannot tell a repeat from a second message: a try
// whose answer was lost may have been accepted. After UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED
// the outcome is unknown; any other error means that nothing changed.
//
// Thread-safe; calls of several threads share the connection.
class Client {
 public:
  enum class Repeat { kNever, kAllowDuplicates };

  // Does not connect; the first call does. Errors as OpenChannel.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The message as accepted, durable when this returns. Payload and attributes are not echoed.
  absl::StatusOr<Message> Schedule(const NewMessage& message, Repeat repeat = Repeat::kNever);

  // One result per message, in order; some may be errors while others are accepted. The call's own
  // error means that nothing is known to be accepted. An empty span is OK and gives no results.
  absl::StatusOr<std::vector<absl::StatusOr<Message>>> ScheduleBatch(
      absl::Span<const NewMessage> messages, Repeat repeat = Repeat::kNever);

  // Any outcome is OK; NOT_FOUND is an outcome. With `stop_redelivery` a message that was delivered
  // and not settled is ended.
  absl::StatusOr<CancelResult> Cancel(absl::string_view message_id, bool stop_redelivery = false);

  // NOT_FOUND if there is none, or none any more.
  absl::StatusOr<Message> Get(absl::string_view message_id, View view = View::kBasic);

  // What server this is, its limits and how it is.
  absl::StatusOr<v1::ServerInfoResponse> ServerInfo();

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
