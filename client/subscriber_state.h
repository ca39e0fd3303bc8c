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
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"

#include "client/lease_keeper.h"
#include "client/subscriber.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// Deliveries [begin, end) of a frame, for one handler thread.
struct Work {
  std::shared_ptr<Frame> frame;
  int begin = 0;
  int end = 0;
  uint64_t stream = 0;
};

// The meeting place of a subscriber's reader, writer, handler and connection threads: deliveries
// wait here for handlers, settlements for the writer.
//
// What it does not do: no network, no thread. Frames are reused: their strings keep their memory.
// Invariants: (1) whatever waits belongs to the open stream; (2) `unconfirmed` settlements are in
// `outgoing` or were sent on the open stream and not answered; (3) what is settled is not prolonged
// any more, so no token is in a request twice. Thread safety: a monitor. Every
// public function takes the one lock; nothing is called back under it.
class SubscriberState {
 public:
  // `extend_max` as in SubscriberOptions.
  SubscriberState(int handler_threads, absl::Duration extend_max)
      : handler_threads_(handler_threads), leases_(extend_max) {}

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

  std::shared_ptr<Frame> NewFrame();
  void OnFrame(std::shared_ptr<Frame> frame);
  void OnReadEnd();

  // ---- Handler threads ----

  // Blocks until there is work; nothing means that the thread is to end.
  std::optional<Work> TakeWork();
  // The handler returned from delivery `index` of the frame. False: the rest of this work is not
  // wanted any more.
  bool Settle(const Work& work, int index, const Settlement& settlement);
  // Done with the work, of which `handled` deliveries were given to the handler.
  void FinishWork(Work work, int handled);

  // ---- Writer thread ----

  enum class WriteTask { kWrite, kHalfClose, kEnd };
  // Blocks until settlements are ready or leases have to be prolonged, and moves all of it into
  // `request`, or until the stream has nothing more to say.
  WriteTask NextWrite(v1::SubscribeRequest* request);

  // ---- Callers ----

  // No work is begun from now on.
  void RequestStop();
  // Waits for the handlers that run; true if none does any more. REQUIRES: RequestStop was called.
  bool WaitHandled(absl::Duration timeout);
  // Waits for the answers to what was settled; true if all came, and none was lost since
  // RequestStop. REQUIRES: the same.
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
  void OnRefused(const v1::SettleRefusal& refusal);
  void AddOutgoing(uint64_t lease_token, const Settlement& settlement);
  // Drops what waits for handlers.
  void ClearQueue();
  void Recycle(std::shared_ptr<Frame> frame);
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
  std::vector<std::shared_ptr<Frame>> free_frames_;
  // What waits for handlers or is with them.
  LeaseKeeper leases_;
  int busy_handlers_ = 0;
  v1::SubscribeRequest outgoing_;
  int64_t unconfirmed_ = 0;
  // How the unconfirmed were settled that are no acks.
  std::unordered_map<uint64_t, Settlement::Kind> not_acks_;

  bool stopping_ = false;
  int64_t lost_before_stop_ = 0;
  bool closing_ = false;
  bool ended_ = false;
  absl::Status status_;
  SubscriberCounts counts_;
};

}  // namespace duetime::client
