// SPDX-License-Identifier: Apache-2.0
//
// Client: schedules, finds, moves and cancels messages, and receives them call by call.
// admin_client.h has the calls for operators. schedule_stream.h schedules messages on a stream, and
// subscriber.h receives deliveries on a stream.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "client/cpp/client_options.h"
#include "client/cpp/new_message.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// The result of a cancel. CancelResponse in the proto explains each outcome.
struct CancelResult {
  v1::CancelResponse answer;
  // True if an earlier try of this call ended without an answer. ALREADY_CANCELLED may then be the
  // effect of that try; so may NOT_FOUND, in a topic without retention of ended messages.
  bool tried_before = false;
};

// The result of settlements. See SettleResponse in the proto.
struct SettleResult {
  v1::SettleResponse answer;
  // True if an earlier try of this call ended without an answer. LEASE_LOST may then be the effect
  // of that try.
  bool tried_before = false;
};

enum class View { kBasic, kFull };

// What Schedule does if an answer is lost.
enum class Repeat {
  // Gives each message without a request_id a random one and tries again on UNAVAILABLE. The server
  // recognises the repeat, so there is one message. This costs the server a small record per
  // message for an hour.
  kSafely,
  // Sends the request as it is, once.
  kNever,
  // Sends the request as it is and tries again on UNAVAILABLE. Without key and request_id there may
  // be two messages.
  kAllowDuplicates,
};

// A client of one server, over one connection. Pulls that wait have another one, so that no other
// call waits behind them.
//
// A call blocks until its answer or its deadline. Answers are the proto's own types; FromProto
// (convert.h) reads their times. Errors carry the server's code, text and details (GetErrorInfo in
// error.h); messages.proto lists them beside each call. A call with a proto request sends it as it
// is; the other forms build the request.
//
// Retries: after UNAVAILABLE only, within the call's deadline, and only where a repeat does no harm
// and its answer does not mislead. After UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED the outcome is
// unknown; any other error means that nothing changed.
//
// Thread-safe; calls of several threads share the connection. Schedule, Cancel, Reschedule and Get
// share a stream on it (ClientOptions::separate_calls).
class Client {
 public:
  // Does not connect; the first call does. Errors as OpenChannel.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns the message as accepted, without payload and attributes, and the outcome. The message
  // is durable when the call returns. If message_ended is true, the call was a repeat, and nothing
  // is pending: the message has ended, as its state says.
  absl::StatusOr<v1::ScheduleResponse> Schedule(const NewMessage& message,
                                                Repeat repeat = Repeat::kSafely);
  absl::StatusOr<v1::ScheduleResponse> Schedule(v1::ScheduleRequest request,
                                                Repeat repeat = Repeat::kSafely);

  // Returns one result per message, in order. Some may be errors while others are accepted. After
  // an error of the call itself, the outcome of all messages is unknown. No messages give no
  // results.
  absl::StatusOr<std::vector<absl::StatusOr<v1::ScheduleResponse>>> ScheduleBatch(
      absl::Span<const NewMessage> messages, Repeat repeat = Repeat::kSafely);
  absl::StatusOr<std::vector<absl::StatusOr<v1::ScheduleResponse>>> ScheduleBatch(
      v1::ScheduleBatchRequest request, Repeat repeat = Repeat::kSafely);

  // Any outcome is OK; NOT_FOUND is an outcome. `stop_redelivery` also ends a message that was
  // delivered and is not settled.
  absl::StatusOr<CancelResult> Cancel(const Target& target, bool stop_redelivery = false);

  // Cancels several messages. Returns one result per target, in order.
  absl::StatusOr<std::vector<absl::StatusOr<CancelResult>>> CancelBatch(
      absl::Span<const Target> targets, bool stop_redelivery = false);

  // Moves a pending message. Any outcome is OK, as with Cancel. With an `etag` (Message.etag) that
  // is no longer current the call returns ABORTED. A call with an etag is not tried again, because
  // the change of the first try would look like another client's.
  absl::StatusOr<v1::RescheduleResponse> Reschedule(const Target& target, const When& when,
                                                    absl::string_view etag = "");
  absl::StatusOr<v1::RescheduleResponse> Reschedule(const v1::RescheduleRequest& request);

  // Returns a pending message and its state in each subscription, or the record of an ended
  // message. NOT_FOUND if there is neither.
  absl::StatusOr<v1::GetResponse> Get(const Target& target, View view = View::kBasic);
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request);

  // Returns the history of a message and the causes of its lateness. NOT_FOUND as with Get.
  absl::StatusOr<v1::ExplainResponse> Explain(const Target& target);
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);

  // One page of a topic's pending messages. MessageReader (pager.h) reads all pages.
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request);

  // Returns due messages, each with a lease for Settle. The wait of the request extends the
  // deadline. Not tried again: messages that the first try leased stay leased until their leases
  // end. If no message comes in time, the answer is OK and empty.
  absl::StatusOr<v1::PullResponse> Pull(const v1::PullRequest& request);

  // Settles leases of Pull or of streams. The answer says which settlements took effect. After a
  // repeat on UNAVAILABLE, leases that the first try settled are refused as LEASE_LOST; see
  // `tried_before`.
  absl::StatusOr<SettleResult> Settle(const v1::SettleRequest& request);

  // Returns the version, state, counts and limits of the server.
  absl::StatusOr<v1::ServerInfoResponse> ServerInfo();

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
