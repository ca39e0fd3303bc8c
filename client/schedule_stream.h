// SPDX-License-Identifier: Apache-2.0
//
// ScheduleStream: schedules many messages on one stream, and knows after a break which of them were
// answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/channel.h"
#include "client/new_message.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

struct ScheduleStreamOptions {
  ServerAddress server;
  // Frames that may wait for their answer; Send waits when there are that many. The server works on
  // up to 16 at once. At least 1.
  int frames_max = 8;
  // A server that answers no frame for this long, while some wait, is given up.
  absl::Duration answer_timeout = absl::Seconds(30);
};

// A writer of messages, in frames of many, over one stream and connection.
//
// Model: Send hands a frame to the connection; a thread of this class takes the answers, which come
// in the order of the frames, and calls `on_result` for each message. Messages count from 0 over
// all frames, in the order in which they were sent.
//
// Guarantees: (1) every message below answered() has had its on_result: accepted durably, or
// refused; (2) those from answered() to sent() have an unknown fate once the stream is over:
// TakeUnanswered returns them with the request ids they were sent with, so sending them again, on
// another stream, makes no second message within the hour that the server remembers them. What it
// does not do: connect again by itself.
//
// Memory: the messages of at most frames_max frames. Thread safety: Send, Finish and TakeUnanswered
// are for one thread at a time; Cancel, sent and answered for any.
class ScheduleStream {
 public:
  // For the message with this number; called by one internal thread at a time, in order. Must not
  // call back into the stream, except Cancel, sent and answered.
  using OnResult =
      std::function<void(int64_t number, const absl::StatusOr<v1::ScheduleResponse>& result)>;

  // Starts to connect. Errors as OpenChannel; a server that cannot be reached ends the stream with
  // UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<ScheduleStream>> Open(const ScheduleStreamOptions& options,
                                                              OnResult on_result);
  // As Cancel, and waits for on_result to return.
  ~ScheduleStream();
  ScheduleStream(const ScheduleStream&) = delete;
  ScheduleStream& operator=(const ScheduleStream&) = delete;

  // Sends one frame; each message without a request_id gets a random one. Waits while frames_max
  // frames wait for their answer, and as long as the connection takes no more bytes. OK means sent,
  // not accepted.
  //
  // An error means that the stream is over; this frame is then among what TakeUnanswered returns.
  // DEADLINE_EXCEEDED after answer_timeout; FAILED_PRECONDITION after Finish; otherwise as the
  // server ended it, for example INVALID_ARGUMENT BATCH_TOO_LARGE.
  absl::Status Send(std::vector<NewMessage> messages);

  // No more frames: waits for the answers to all of them. OK if all were answered and the server
  // agrees; otherwise why the stream ended. Idempotent.
  absl::Status Finish();

  // Breaks the stream: what waits in Send or Finish returns soon.
  void Cancel();

  // How many messages were handed to Send, and how many of those have their result.
  int64_t sent() const;
  int64_t answered() const;

  // The messages without a result, in order, to be sent again; then forgotten here. Ends the stream
  // if it is not over.
  std::vector<NewMessage> TakeUnanswered();

 private:
  class Impl;
  explicit ScheduleStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
