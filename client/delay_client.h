// SPDX-License-Identifier: Apache-2.0
//
// Client: schedules, finds, moves and cancels messages, and receives them call by call. What
// belongs to operators (topics, subscriptions, forecasts, operations on many messages, recurrences)
// is in admin_client.h; a stream of many messages in schedule_stream.h, one of deliveries in
// subscriber.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "client/client_options.h"
#include "client/new_message.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// What a cancel found; see CancelResponse in the proto for each outcome.
struct CancelResult {
  v1::CancelResponse answer;
  // True if an earlier try of this call ended without an answer. ALREADY_CANCELLED (and NOT_FOUND,
  // in a topic that remembers no fates) may then be that try's own doing.
  bool tried_before = false;
};

// What became of settlements; see SettleResponse in the proto.
struct SettleResult {
  v1::SettleResponse answer;
  // True if an earlier try of this call ended without an answer. LEASE_LOST may then be that try's
  // own doing.
  bool tried_before = false;
};

enum class View { kBasic, kFull };

// What Schedule does about an answer that is lost.
enum class Repeat {
  // Gives a request_id to what has none and tries again on UNAVAILABLE: the server recognises the
  // repeat, so there is one message. It costs the server a small record per message for an hour.
  kSafely,
  // Sends the request as it is, once.
  kNever,
  // Sends the request as it is and tries again on UNAVAILABLE: without key and request_id there may
  // be two messages.
  kAllowDuplicates,
};

// A client of one server, over one connection.
//
// A call blocks until its answer or its deadline. Answers are the proto's own types, documented
// there; FromProto (convert.h) reads their times. Errors carry the server's code, text and details
// (GetErrorInfo in error.h); which there are stands beside each call in messages.proto.
//
// Retries: after UNAVAILABLE only, within the call's deadline, and only where a repeat does no harm
// and its answer does not mislead. After UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED the outcome is
// unknown; any other error means that nothing changed.
//
// Thread-safe; calls of several threads share the connection.
class Client {
 public:
  // Does not connect; the first call does. Errors as OpenChannel.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The message as accepted, durable when this returns, and what the call did. Payload and
  // attributes are not echoed.
  absl::StatusOr<v1::ScheduleResponse> Schedule(const NewMessage& message,
                                                Repeat repeat = Repeat::kSafely);

  // One result per message, in order; some may be errors while others are accepted. The call's own
  // error means that nothing is known to be accepted. An empty span is OK and gives no results.
  absl::StatusOr<std::vector<absl::StatusOr<v1::ScheduleResponse>>> ScheduleBatch(
      absl::Span<const NewMessage> messages, Repeat repeat = Repeat::kSafely);

  // Any outcome is OK; NOT_FOUND is an outcome. With `stop_redelivery` a message that was delivered
  // and not settled is ended.
  absl::StatusOr<CancelResult> Cancel(const Target& target, bool stop_redelivery = false);

  // The same for many: one result per target, in order.
  absl::StatusOr<std::vector<absl::StatusOr<CancelResult>>> CancelBatch(
      absl::Span<const Target> targets, bool stop_redelivery = false);

  // Moves a pending message; any outcome is OK, as with Cancel. With an `etag` (Message.etag) only
  // if the message is still as it was then, else ABORTED; it is then not tried again, since the
  // first try's own change would look like somebody else's.
  absl::StatusOr<v1::RescheduleResponse> Reschedule(const Target& target, const When& when,
                                                    absl::string_view etag = "");

  // A pending message and how far its subscriptions are with it, or what is remembered of one that
  // ended. NOT_FOUND if there is none, or none any more.
  absl::StatusOr<v1::GetResponse> Get(const Target& target, View view = View::kBasic);

  // Its story, and where its lateness came from. NOT_FOUND as Get.
  absl::StatusOr<v1::ExplainResponse> Explain(const Target& target);

  // One page of a topic's pending messages. MessageReader (pager.h) reads all pages.
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request);

  // Due messages, each a lease to settle with Settle. Waits for as long as the request says beside
  // the deadline. Not tried again: what the first try had leased would be out of reach until its
  // leases end. No message in time is OK and empty.
  absl::StatusOr<v1::PullResponse> Pull(const v1::PullRequest& request);

  // Settles leases, from Pull or elsewhere; the answer says which settlements took effect. Tried
  // again on UNAVAILABLE: what the first try had settled is then refused as LEASE_LOST, and
  // `tried_before` says so.
  absl::StatusOr<SettleResult> Settle(const v1::SettleRequest& request);

  // What server this is, its limits and how it is.
  absl::StatusOr<v1::ServerInfoResponse> ServerInfo();

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
