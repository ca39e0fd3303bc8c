// SPDX-License-Identifier: Apache-2.0
//
// CallStream: one CallStream call, on which many calls travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

#include "server/access/caller.h"
#include "server/api/request_limits.h"
#include "server/api/streamed_call.h"
#include "server/rpc/bidi_stream.h"
#include "server/rpc/methods.h"

namespace duetime::api {

// Gives each call of a frame to the handler of its method, which sees no difference to a call of
// its own, and sends the answers that are ready together as one frame.
//
// The stream reads nothing while call_stream_calls_max calls, or the bytes of one batch, have
// no answer, or while kAnswerBytesMax of answers wait for the client. So a client that reads slowly
// occupies bounded memory. It also reads nothing for a while after access control refused a call
// with a delay. The object stays until its last call is finished, also when the stream has ended.
// Thread safety: confined to the worker's thread.
class CallStream : public rpc::BidiStream, private StreamedCall::Owner {
 public:
  // `methods`: the handlers. `methods` and `limits` outlive the stream.
  CallStream(rpc::WorkerApp* app, rpc::CqWorker* worker, const StreamedMethods* methods,
             const RequestLimits* limits)
      : rpc::BidiStream(worker), app_(app), methods_(methods), limits_(limits) {}
  ~CallStream() override;

  void OnServingState() override;
  void Flush() override;
  void AbandonCalls() override;

 protected:
  // Whether the stream may begin.
  virtual absl::Status Open() = 0;
  // The client of the stream's calls. Null if access control is off.
  virtual access::CallerPtr Caller() { return nullptr; }
  // Looks about once a second whether the stream may go on.
  virtual absl::Status Recheck(base::Now now) = 0;
  // Not OK if the stream must end because of the serving state.
  virtual absl::Status Serving() = 0;
  virtual size_t streams_max() const = 0;
  // The number of calls so far.
  int64_t taken() const { return taken_; }
  // The stream ends with this error, which no call has caused.
  virtual void OnRefused(const absl::Status& status) = 0;

 private:
  // The stream reads no more calls while so many bytes of answers wait. Also the least size at
  // which a response takes no further answer.
  static constexpr size_t kAnswerBytesMax = 1 << 20;
  // With less, a stream is not ended to make room for the answers of others.
  static constexpr size_t kAnswerBytesMin = 64 << 10;
  // The time for the last answers when the server ends.
  static constexpr uint64_t kEndingTimeoutMs = 500;
  // Objects of calls that an idle stream keeps.
  static constexpr size_t kIdleCallsMax = 256;

  void OnOpened() override;
  void OnMessage(grpc::ByteBuffer* buffer) override;
  void OnReadsDone() override;
  void OnWritten() override;
  void OnEnded() override;
  void OnSweep(base::Now now) override;
  bool Busy() const override { return open_ > 0; }

  const grpc::ServerContext& context() const override { return *server_context(); }
  void OnAnswer(StreamedCall* call, int field, const google::protobuf::Message& answer) override;

  // Starts the calls of a frame. An error ends the stream, and starts none.
  absl::Status HandleFrame(grpc::ByteBuffer* buffer);
  // Reads no more, and ends with `status` when every open call is answered.
  void Close(const absl::Status& status);
  void Pump();
  void ReadOn();
  // The last response of those that wait, with room for one more answer.
  std::string* OpenResponse();
  // Counts bytes that were added to the answers.
  void CountAnswers(size_t bytes);
  // Ends the stream of a client that does not read, because answers take too much memory.
  void DropIfTooLarge();

  rpc::WorkerApp* const app_;
  const StreamedMethods* const methods_;
  const RequestLimits* const limits_;
  std::deque<StreamedCall> calls_;
  std::vector<StreamedCall*> free_;
  std::vector<ParsedCall> parsed_;
  absl::flat_hash_set<int64_t> numbers_;
  // The calls without an answer, and the bytes of their requests.
  size_t open_ = 0;
  size_t open_bytes_ = 0;
  int64_t taken_ = 0;
  // The responses that wait, encoded, and their bytes.
  std::deque<std::string> responses_;
  size_t waiting_bytes_ = 0;
  // The bytes of the response that gRPC sends.
  size_t sending_bytes_ = 0;
  bool touched_ = false;
  // The stream reads nothing before the first sweep from this time on. 0: it reads.
  uint64_t read_from_mono_ms_ = 0;
  std::optional<absl::Status> closing_;
  bool told_taken_ = false;
  uint64_t close_by_mono_ms_ = UINT64_MAX;
};

}  // namespace duetime::api
