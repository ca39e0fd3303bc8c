// SPDX-License-Identifier: Apache-2.0
//
// LeaseKeeper: decides when to extend the leases of unsettled deliveries, when to report that a
// handler has begun, and when to give a delivery back. Internal to the client library.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// One response of the server, and its deliveries that wait for a handler.
struct Frame {
  v1::SubscribeResponse response;

  // The keeper owns the fields below. `waits[i]`: response.deliveries(i) waits.
  std::vector<bool> waits;
  int waiting = 0;
  std::chrono::steady_clock::time_point received;
  // The leases end at this time, by the clock of this process.
  std::chrono::steady_clock::time_point lease_end;
  std::chrono::steady_clock::time_point extend_at;
  // The deliveries before this one are already in a request for this extension.
  int extend_from = 0;
  // True while the frame is in the keeper's list, at `place`.
  bool listed = false;
  std::list<Frame*>::iterator place;
};

// A delivery waits, then runs in a handler, then is settled. The lease of each is extended whenever
// a third of it has passed, so that a lost request or a slow server does not end it:
// - of a delivery that waits until `extend_max` after its arrival, then the keeper gives it back;
//   if no lease is extended, when two thirds of the lease have passed;
// - of a delivery that runs until `extend_max` after its handler's begin.
// A handler that runs for kReportAfter is reported with the next request, and for kReportAlone with
// a request of its own. So short handlers cost nothing.
//
// It has no clock, no thread and no lock: the caller passes the time. Cost: a bit per delivery and
// a list entry per frame that waits, and an entry per delivery that runs; only leases that were
// extended or reported are looked up by token. Thread safety: none. A frame with deliveries that
// wait or run must not move.
class LeaseKeeper {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kReportAfter{10};
  static constexpr std::chrono::milliseconds kReportAlone{100};

  // Handlers have the numbers [0, handlers). `extend_max` <= 0: no lease is extended.
  explicit LeaseKeeper(absl::Duration extend_max, int handlers = 1);

  // The server opened a stream with leases of this length.
  void Start(absl::Duration lease);
  // The stream and its leases have ended.
  void Clear();

  // ---- Deliveries that wait

  // Adds the deliveries of a frame.
  void Add(Frame* frame, SteadyTime now);
  // The delivery gets no handler. Returns false if it does not wait.
  bool Remove(Frame* frame, int index);

  // ---- Deliveries that run

  enum class Taken {
    kGone,  // given back
    kLost,  // its lease has ended; now it waits no more
    kYes
  };
  // The handler takes a delivery: it runs from now on. If the delivery asks for it
  // (confirm_begun), it is reported at once. REQUIRES: the handler has no delivery that asks for
  // it, and none at all if this one asks.
  Taken Take(int handler, Frame* frame, int index, SteadyTime now);
  enum class Confirmation { kPending, kYes, kLost };
  // Whether the server has confirmed the report. REQUIRES: the handler has one delivery, which asks
  // for it.
  Confirmation ConfirmationOf(int handler) const;
  // The handler has returned, or the stream of its delivery has ended. `nth`: the delivery's number
  // among those that the handler took, from 0. A handler that took several ends all of them,
  // in their order, before it takes another one. Returns false if the delivery ran and was not
  // reported, although the server takes reports and the lease is not lost.
  bool End(int handler, size_t nth = 0);

  // ---- Requests

  // Adds to `request` what is due at `now`: reports, releases of deliveries that it gives back, and
  // extensions, with those that are due soon. Adds at most `room` elements, and
  // the others stay due. `sends`: the request is sent in any case. Returns the tokens of the
  // deliveries that it gives back.
  std::vector<std::string> Collect(SteadyTime now, bool sends, int room,
                                   v1::SubscribeRequest* request);
  // When to call Collect next, as of `now`. A frame that is added later is not due before this
  // time, and a handler that begins later is due no more than kReportAlone after its begin. Absent:
  // nothing is due before.
  std::optional<SteadyTime> NextCollect(SteadyTime now);

  // A caller sends the report of this lease.
  void OnReport(const std::string& lease_token) {
    Asked& asked = asked_[lease_token];
    ++asked.requests;
    asked.ended = true;
  }
  // The server extended the lease.
  void OnExtended(const std::string& lease_token);
  // The server confirmed the report. If the handler waits for this, its time begins now.
  void OnBegun(const std::string& lease_token, SteadyTime now);
  // The server confirmed a settlement. It answers a report before, unless it is older and answers
  // none: then nothing more is reported.
  void OnSettled(const std::string& lease_token);
  // The server refused a request for this lease. Returns true if it refused an extension or a
  // report, so that the lease is lost.
  bool OnRefused(const std::string& lease_token);

  // Leases that ended before their time, as far as this side knows.
  int64_t lost_count() const { return lost_count_; }

 private:
  // A delivery of a handler.
  struct Running {
    // Null: it has ended.
    Frame* frame = nullptr;
    int index = 0;
    SteadyTime begun;
    SteadyTime extend_at;
    bool reported = false;
    bool confirmed = false;

    const v1::Delivery& delivery() const { return frame->response.deliveries(index); }
  };

  // Extensions and reports of a lease that are not answered.
  struct Asked {
    int requests = 0;
    // The delivery neither waits nor runs any more.
    bool ended = false;
  };

  bool IsLost(const std::string& lease_token) const {
    return !lost_.empty() && lost_.count(lease_token) > 0;
  }
  // The delivery waits no more. Returns false if it did not wait.
  bool Unwait(Frame* frame, int index);
  // The delivery neither waits nor runs any more.
  void Forget(const std::string& lease_token);
  using AskedMap = std::unordered_map<std::string, Asked>;
  void OnAnswer(AskedMap::iterator asked);
  void Append(Frame* frame, SteadyTime extend_at);
  void Unlist(Frame* frame);
  void AddExtension(const std::string& lease_token, v1::SubscribeRequest* request);
  // Each returns the room left.
  int ExtendRunning(SteadyTime now, int room, v1::SubscribeRequest* request);
  // Extends the deliveries that wait, or gives them back.
  int KeepWaiting(SteadyTime now, int room, std::vector<std::string>* given_back,
                  v1::SubscribeRequest* request);
  void Report(SteadyTime now, bool sends, int room, v1::SubscribeRequest* request);
  // When a delivery that runs needs an extension, and a report of its own. Never: the greatest
  // time.
  SteadyTime ExtensionDue(const Running& running) const;
  SteadyTime ReportDue(const Running& running, bool sends) const;

  const std::chrono::nanoseconds extend_max_;
  // 0: the length of the leases is not known.
  std::chrono::nanoseconds interval_{0};
  absl::Duration lease_;
  // Leases are extended on this stream.
  bool extends_ = false;
  // Ordered by extend_at, because every frame is appended with the same distance from now.
  std::list<Frame*> frames_;
  // By handler. The last delivery of each runs.
  std::vector<std::vector<Running>> running_;
  // A handler has begun since the last NextCollect.
  bool begins_ = false;
  // False: the server is older, and answers no report.
  bool reports_ = true;
  AskedMap asked_;
  // Deliveries whose extension or report was refused, until they have ended and all is answered.
  std::unordered_set<std::string> lost_;
  int64_t lost_count_ = 0;
};

}  // namespace duetime::client
