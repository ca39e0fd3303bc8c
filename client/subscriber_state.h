// SPDX-License-Identifier: Apache-2.0
//
// SubscriberState: what the threads of a subscriber share. Internal to the client library.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"

#include "client/subscriber.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// Deliveries [begin, end) of a frame, for one handler thread.
struct Work {
  std::shared_ptr<v1::SubscribeResponse> frame;
  int begin = 0;
  int end = 0;
  uint64_t stream = 0;
};

// The meeting place of a subscriber's reader, writer, handler and connection threads: deliveries
// wait here for handlers, settlements for the writer.
//
// What it does not do: no network, no thread. Frames are reused: their strings keep their memory.
// Invariants: (1) whatever waits belongs to the open stream; (2) `unconfirmed` settlements are in
// `outgoing` or were sent on the open stream and not answered. Thread safety: a monitor. Every
// public function takes the one lock; nothing is called back under it.
class SubscriberState {
 public:
  explicit SubscriberState(int handler_threads) : handler_threads_(handler_threads) {}

  // ---- Connection thread ----

  // A new stream is being opened.
  void BeginStream();
  // The stream is over: drops what belongs to it.
  void EndStream();
  enum class StreamFate { kOver, kSilent, kClose };
  // Waits until the reader saw the end, or no frame came for `silence_max`, or Close was called.
  StreamFate WatchStream(absl::Duration silence_max);
  // False once a stop was requested.
  bool Running() const;
  // Waits before the next stream; false if the subscriber is to end instead.
  bool Pause(absl::Duration wait);
  // The subscriber has ended by itself.
  void Fail(const absl::Status& status);

  // ---- Reader thread ----

  std::shared_ptr<v1::SubscribeResponse> NewFrame();
  void OnFrame(std::shared_ptr<v1::SubscribeResponse> frame);
  void OnReadEnd();

  // ---- Handler threads ----

  // Blocks until there is work; nothing means that the thread is to end.
  std::optional<Work> TakeWork();
  // The handler returned. False: the rest of this work is not wanted any more.
  bool Settle(const Work& work, uint64_t lease_token, const Settlement& settlement);
  // Done with the work, of which `handled` deliveries were given to the handler.
  void FinishWork(Work work, int handled);

  // ---- Writer thread ----

  enum class WriteTask { kWrite, kHalfClose, kEnd };
  // Blocks until settlements are ready and swaps them all into `request`, or the stream has nothing
  // more to say.
  WriteTask NextWrite(v1::SubscribeRequest* request);

  // ---- Callers ----

  // No work is begun from now on.
  void RequestStop();
  // Waits for the answers to what was settled; true if all came, and none was lost since
  // RequestStop. REQUIRES: the handler threads have ended.
  bool WaitConfirmed(absl::Duration timeout);
  // The stream is to be closed now.
  void Close();
  bool WaitUntilEnded(absl::Duration timeout);
  absl::Status status() const;
  SubscriberCounts counts() const;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // These require that mutex_ is held.
  void Confirm(const v1::SubscribeResponse& response);
  void Recycle(std::shared_ptr<v1::SubscribeResponse> frame);
  bool WantsWork() const { return !stopping_ && stream_open_; }

  const int handler_threads_;

  mutable std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable write_ready_;
  // Anything else that somebody waits for.
  std::condition_variable changed_;

  // All below is guarded by mutex_.
  uint64_t stream_ = 0;
  bool stream_open_ = false;
  bool read_ended_ = false;
  bool draining_ = false;
  SteadyTime last_frame_;
  std::deque<Work> queue_;
  std::vector<std::shared_ptr<v1::SubscribeResponse>> free_frames_;
  int busy_handlers_ = 0;
  v1::SubscribeRequest outgoing_;
  int64_t unconfirmed_ = 0;
  // Which of the unconfirmed are nacks.
  std::unordered_set<uint64_t> nacks_;

  bool stopping_ = false;
  int64_t lost_before_stop_ = 0;
  bool closing_ = false;
  bool ended_ = false;
  absl::Status status_;
  SubscriberCounts counts_;
};

}  // namespace duetime::client
