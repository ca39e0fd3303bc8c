// SPDX-License-Identifier: Apache-2.0
//
// SubscriberState: the state that the threads of a subscriber share. Internal to the client
// library.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"

#include "client/cpp/lease_keeper.h"
#include "client/cpp/subscriber.h"
#include "duetime/v1/messages.pb.h"
#include "server/base/mutex.h"

namespace duetime::client {

// Deliveries [begin, end) of a frame, assigned to one handler thread, which handles the first.
struct Work {
  std::shared_ptr<Frame> frame;
  int begin = 0;
  int end = 0;
  uint64_t stream = 0;
  int handler = 0;

  const v1::Delivery& delivery() const { return frame->response.deliveries(begin); }
};

// The deliveries of one call of a batch handler, in the order of the stream.
struct Batch {
  struct Place {
    std::shared_ptr<Frame> frame;
    int index = 0;

    const v1::Delivery& delivery() const { return frame->response.deliveries(index); }
  };
  std::vector<Place> places;
  uint64_t stream = 0;
  int handler = 0;
};

// Connects a subscriber's reader, writer, handler and connection threads: deliveries wait here for
// handlers, settlements wait here for the writer.
//
// It does no network calls and owns no thread. It reuses frames, so that their strings keep their
// memory. Invariants: (1) every queued delivery belongs to the open stream; (2) `unconfirmed_`
// settlements are in `outgoing_`, or were sent on the open stream and are not answered yet; (3) a
// settled delivery is neither extended nor reported. Thread safety: a monitor. Every public
// function takes the one lock and calls no callback while it holds it.
class SubscriberState {
 public:
  // `extend_max` and `max_deliveries` as in SubscriberOptions.
  SubscriberState(int handler_threads, absl::Duration extend_max, int64_t max_deliveries = 0)
      : handler_threads_(handler_threads),
        max_deliveries_(max_deliveries),
        leases_(extend_max, handler_threads) {}

  // ---- Connection thread ----

  // Call before a new stream is opened. Returns how many deliveries the stream may bring, 0: any
  // number. With max_deliveries, waits for the handlers of an earlier stream, because they count.
  // Returns nullopt if the subscriber has ended, or a stop was requested meanwhile.
  std::optional<int64_t> BeginStream();
  // The stream has ended: drops its deliveries and settlements.
  void EndStream();
  enum class StreamEvent { kOver, kSilent, kClose };
  // Waits until the reader has seen the end, no frame came for `silence_max`, or Close was called.
  StreamEvent WatchStream(absl::Duration silence_max);
  // False once a stop was requested.
  bool Running() const;
  // Waits before the next stream. Returns false as soon as a stop is requested.
  bool Pause(absl::Duration wait);
  // Ends the subscriber if the handler has got all that it should get. Returns true if it has.
  bool EndIfDone();
  // Ends the subscriber with the error `status`.
  void Fail(const absl::Status& status);

  // ---- Reader thread ----

  std::shared_ptr<Frame> NewFrame();
  void OnFrame(std::shared_ptr<Frame> frame);
  void OnReadEnd();

  // ---- Handler threads ----

  // Blocks until there is a delivery to handle, the first one of the work. Its handler has begun,
  // and the server has confirmed this if it wants to. Returns nullopt after a stop request.
  // REQUIRES: 0 <= handler < handler_threads, and the handler has no work.
  std::optional<Work> TakeWork(int handler);
  // The handler returned from the first delivery of `work`. Makes the next delivery to handle the
  // first one, as TakeWork does. Returns false if there is none; then the handler has no work.
  bool Settle(Work* work, const Settlement& settlement);

  // Blocks until there is a delivery to handle. Returns the deliveries that wait then, at most
  // `max`, without those whose leases have ended. A delivery whose begin the server must confirm is
  // alone, and confirmed. Returns nullopt after a stop request. REQUIRES: as TakeWork; max > 0.
  std::optional<Batch> TakeBatch(int handler, int max);
  // The handler returned from the batch. Settles each delivery, and drops its frame. REQUIRES:
  // `settlements` has one for each delivery, or is empty, which acks all.
  void SettleBatch(Batch* batch, const std::vector<Settlement>& settlements);

  // ---- Writer thread ----

  enum class WriteTask { kWrite, kHalfClose, kEnd };
  // Blocks until there are settlements to send or leases to extend, and moves them into `request`.
  // Also returns when the stream has nothing more to send.
  WriteTask NextWrite(v1::SubscribeRequest* request);

  // ---- Callers ----

  // Stops handing out work.
  void RequestStop();
  // Waits for running handlers. Returns true if all have returned. REQUIRES: RequestStop was
  // called.
  bool WaitHandled(absl::Duration timeout);
  // Waits until the server has confirmed the settlements. Returns true if it confirmed all of them,
  // and none was lost since RequestStop. REQUIRES: RequestStop was called.
  bool WaitConfirmed(absl::Duration timeout);
  // Makes WatchStream return, so that the stream is closed.
  void Close();
  bool WaitUntilEnded(absl::Duration timeout);
  absl::Status status() const;
  SubscriberCounts counts() const;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  void Confirm(const v1::SubscribeResponse& response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnRefused(const v1::SettleRefusal& refusal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves as many settlements as fit from `outgoing_` into `request`, which is empty. Returns the
  // room left.
  int TakeSettlements(v1::SubscribeRequest* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddOutgoing(const std::string& lease_token, Settlement settlement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins the first delivery of `work` that may be handled, and makes it the first one. Returns
  // false if there is none.
  bool BeginNext(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves waiting deliveries into the empty `batch`, as TakeBatch says.
  void FillBatch(size_t max, Batch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until the server has confirmed that the handler begins. Returns false if the handler must
  // not be called.
  bool AwaitConfirmation(uint64_t stream, int handler) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `reported`: as LeaseKeeper::End returns it.
  void SettleOne(const std::string& lease_token, const Settlement& settlement, bool open,
                 bool reported) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops this use of the frame.
  void Release(std::shared_ptr<Frame>* frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A handler has no delivery any more.
  void OnHandlerFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The handler handles no more of `work`.
  void FinishWork(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops those of the deliveries [begin, end) of the frame that wait for a handler.
  void Skip(Frame* frame, int begin, int end, uint64_t stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops a delivery that got no handler. Releases it if the subscriber stops and `stream` is open.
  void SkipOne(const v1::Delivery& delivery, uint64_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts deliveries that the keeper has given back, because they waited too long.
  void OnGivenBack(std::vector<std::string> tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the deliveries that wait for handlers.
  void ClearQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Recycle(std::shared_ptr<Frame> frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOpen(uint64_t stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stream_open_ && stream == stream_;
  }

  bool Done() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return max_deliveries_ > 0 && counts_.delivered >= max_deliveries_;
  }
  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int handler_threads_;
  const int64_t max_deliveries_;

  mutable base::Mutex mutex_;
  base::CondVar work_ready_;
  base::CondVar write_ready_;
  // Notified by every other change that a thread may wait for.
  base::CondVar changed_;

  uint64_t stream_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stream_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // No delivery comes any more: the server drains, or the stream has brought its number.
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // How many deliveries the stream may still bring. Meaningful only with max_deliveries_.
  int64_t stream_left_ ABSL_GUARDED_BY(mutex_) = 0;
  SteadyTime last_frame_ ABSL_GUARDED_BY(mutex_);
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Frame>> free_frames_ ABSL_GUARDED_BY(mutex_);
  // The leases of queued deliveries and of deliveries that a handler works on.
  LeaseKeeper leases_ ABSL_GUARDED_BY(mutex_);
  // The writer waits until this time. Past: it does not wait.
  SteadyTime writer_wakes_ ABSL_GUARDED_BY(mutex_);
  int busy_handlers_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::SubscribeRequest outgoing_ ABSL_GUARDED_BY(mutex_);
  // The most settlements and extensions in one request: the stream's credit. The server ends a
  // stream that exceeds a limit, and no credit is greater than this limit. Unsettled deliveries may
  // be more than the credit, because the server no longer counts those whose leases have ended.
  int request_max_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int>::max();
  int64_t unconfirmed_ ABSL_GUARDED_BY(mutex_) = 0;
  // The unconfirmed settlements that are not acks, by lease token.
  std::unordered_map<std::string, Settlement::Kind> not_acks_ ABSL_GUARDED_BY(mutex_);
  // The releases of skipped deliveries that are not answered.
  std::unordered_set<std::string> skipped_ ABSL_GUARDED_BY(mutex_);

  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t lost_before_stop_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  SubscriberCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::client
