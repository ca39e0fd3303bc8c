// SPDX-License-Identifier: Apache-2.0
//
// ScheduleStream: schedules many messages on one stream. After a break it knows which of the
// messages have an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/cpp/channel.h"
#include "client/cpp/new_message.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

struct ScheduleStreamOptions {
  ServerAddress server;
  // The most frames without an answer; at least 1. With that many, Send waits. The server handles
  // up to 16 frames at once.
  int frames_max = 8;
  // The stream ends if frames wait and the server answers none of them for this long.
  absl::Duration answer_timeout = absl::Seconds(30);
};

// A writer of messages, in frames of many, over one stream and connection.
//
// Model: Send writes a frame to the connection. A thread of this class reads the answers, which
// come in the order of the frames, and calls `on_result` for each message. Messages are numbered
// from 0 over all frames, in the order of sending.
//
// Guarantees: (1) every message below answered() has its on_result: accepted durably, or refused;
// (2) the outcome of messages from answered() to sent() is unknown once the stream has ended.
// TakeUnanswered returns these with their request ids. The server remembers the ids for an hour, so
// sending the messages again on another stream makes no second message. It does not reconnect.
//
// Memory: the messages of at most frames_max frames. Thread safety: one thread at a time may call
// Send, Finish and TakeUnanswered; any thread may call Cancel, sent and answered.
class ScheduleStream {
 public:
  // Gets the result of the message with this number. One internal thread calls it, in order. It may
  // call only Cancel, sent and answered of the stream. An exception is logged to standard error.
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

  // Sends one frame. A message without a request_id gets a random one. Waits while frames_max
  // frames have no answer, and while the connection takes no more bytes. OK means sent, not
  // accepted.
  //
  // An error means that the stream has ended; TakeUnanswered then returns this frame too.
  // DEADLINE_EXCEEDED after answer_timeout; FAILED_PRECONDITION after Finish; otherwise as the
  // server ended it, for example INVALID_ARGUMENT BATCH_TOO_LARGE.
  absl::Status Send(std::vector<NewMessage> messages);

  // Ends the sending and waits for all answers. Returns OK if the server answered all frames and
  // ended the stream with OK; otherwise why the stream ended. Idempotent.
  absl::Status Finish();

  // Breaks the stream, so that Send and Finish return soon.
  void Cancel();

  // The number of messages that Send got, and the number of these that have a result.
  int64_t sent() const;
  int64_t answered() const;

  // Removes and returns the messages without a result, in order. Ends the stream if it is open.
  std::vector<NewMessage> TakeUnanswered();

 private:
  class Impl;
  explicit ScheduleStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
