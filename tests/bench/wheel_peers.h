// SPDX-License-Identifier: Apache-2.0
//
// The timing wheel and its competitors, each behind the same few calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"

#include "server/wheel/cancellable_wheel.h"
#include "server/wheel/slab_memory.h"
#include "server/wheel/timing_wheel.h"

#ifdef DUETIME_BENCH_LOOPS
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <ev.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <uv.h>
#endif

namespace duetime::bench {

// The interface of a peer:
//   kStep    how many ms the clock moves between two calls of Advance. An event loop makes a system
//            call each time it reads its timers, so its step is 100 ms.
//   Add(due, number)   number < capacity, and it is not pending
//   Advance(now)       calls fired(number) for each due timer
//   Cancel(number)     of a pending timer
//   NextDue()          the due time of the next timer, if the library can tell
// Time starts at kStart.
inline constexpr uint64_t kStart = 1'700'000'000'000;

// The smallest entry of the scheduler: a message id.
struct Entry16 {
  uint64_t number;
  uint64_t more;
};
struct Entry24 {
  uint64_t number;
  uint64_t more[2];
};

// Keeps every slab that was ever taken, because a wheel's owner keeps slabs ready, too.
class WarmSlabs final : public wheel::SlabMemory {
 public:
  WarmSlabs() = default;
  ~WarmSlabs() override {
    for (void* slab : ready_) wheel::HeapSlabs::Shared()->Give(slab);
  }
  void* Take() override {
    if (ready_.empty()) return wheel::HeapSlabs::Shared()->Take();
    void* const slab = ready_.back();
    ready_.pop_back();
    return slab;
  }
  void Give(void* slab) override { ready_.push_back(slab); }

 private:
  std::vector<void*> ready_;
};

template <typename Entry>
class WheelPeer {
 public:
  static constexpr uint64_t kStep = 1;
  static constexpr size_t kBudget = 1024;

  explicit WheelPeer(size_t) {}
  void Add(uint64_t due, uint64_t number) { wheel_.Add(due, Entry{number, {}}); }
  template <typename Fired>
  void Advance(uint64_t now, Fired fired) {
    while (!AdvanceOnce(now, fired)) continue;
  }
  template <typename Fired>
  bool AdvanceOnce(uint64_t now, Fired fired) {
    out_.clear();
    const bool done = wheel_.Advance(now, kBudget, &out_);
    for (const auto& expired : out_) fired(expired.entry.number);
    return done;
  }
  uint64_t NextDue() const { return wheel_.NextDue(); }
  size_t bytes() const { return wheel_.bytes(); }

 private:
  WarmSlabs slabs_;
  wheel::TimingWheel<Entry> wheel_{kStart, &slabs_};
  std::vector<typename wheel::TimingWheel<Entry>::Expired> out_;
};

class CancellablePeer {
 public:
  static constexpr uint64_t kStep = 1;

  explicit CancellablePeer(size_t capacity) : stamps_(capacity) {}
  void Add(uint64_t due, uint64_t number) {
    wheel_.Add(due, static_cast<uint32_t>(number), &stamps_[number]);
  }
  template <typename Fired>
  void Advance(uint64_t now, Fired fired) {
    while (!AdvanceOnce(now, fired)) continue;
  }
  template <typename Fired>
  bool AdvanceOnce(uint64_t now, Fired fired) {
    out_.clear();
    const bool done = wheel_.Advance(now, 1024, &out_);
    for (const auto& expired : out_) fired(expired.entry);
    return done;
  }
  void Cancel(uint64_t number) { wheel_.Cancel(&stamps_[number]); }
  uint64_t NextDue() const { return wheel_.NextDue(); }

 private:
  struct FindStamp {
    CancellablePeer* peer;
    wheel::TimerStamp* operator()(uint32_t number) const { return &peer->stamps_[number]; }
  };
  using Wheel = wheel::CancellableWheel<uint32_t, FindStamp>;

  std::vector<wheel::TimerStamp> stamps_;
  WarmSlabs slabs_;
  Wheel wheel_{kStart, FindStamp{this}, &slabs_};
  std::vector<Wheel::Expired> out_;
};

class PriorityQueuePeer {
 public:
  static constexpr uint64_t kStep = 1;

  explicit PriorityQueuePeer(size_t) {}
  void Add(uint64_t due, uint64_t number) { queue_.push({due, sequence_++, {number, 0}}); }
  template <typename Fired>
  void Advance(uint64_t now, Fired fired) {
    while (!queue_.empty() && queue_.top().due <= now) {
      fired(queue_.top().entry.number);
      queue_.pop();
    }
  }
  uint64_t NextDue() const { return queue_.empty() ? UINT64_MAX : queue_.top().due; }

 private:
  struct Timer {
    uint64_t due;
    // Orders the timers within a tick by insertion.
    uint64_t sequence;
    Entry16 entry;

    bool operator<(const Timer& other) const {
      return std::pair(due, sequence) > std::pair(other.due, other.sequence);
    }
  };
  std::priority_queue<Timer> queue_;
  uint64_t sequence_ = 0;
};

class MultimapPeer {
 public:
  static constexpr uint64_t kStep = 1;

  explicit MultimapPeer(size_t capacity) : places_(capacity) {}
  void Add(uint64_t due, uint64_t number) {
    places_[number] = map_.emplace(due, Entry16{number, 0});
  }
  template <typename Fired>
  void Advance(uint64_t now, Fired fired) {
    while (!map_.empty() && map_.begin()->first <= now) {
      const uint64_t number = map_.begin()->second.number;
      map_.erase(map_.begin());
      fired(number);
    }
  }
  void Cancel(uint64_t number) { map_.erase(places_[number]); }
  uint64_t NextDue() const { return map_.empty() ? UINT64_MAX : map_.begin()->first; }

 private:
  using Map = std::multimap<uint64_t, Entry16>;
  Map map_;
  std::vector<Map::iterator> places_;
};

class BtreePeer {
 public:
  static constexpr uint64_t kStep = 1;

  explicit BtreePeer(size_t capacity) : dues_(capacity) {}
  void Add(uint64_t due, uint64_t number) {
    dues_[number] = due;
    set_.insert({due, number});
  }
  template <typename Fired>
  void Advance(uint64_t now, Fired fired) {
    // Erases from the front in one call, because single erases would search for the front each
    // time.
    auto end = set_.begin();
    for (; end != set_.end() && end->first <= now; ++end) fired_.push_back(end->second);
    set_.erase(set_.begin(), end);
    for (const uint64_t number : fired_) fired(number);
    fired_.clear();
  }
  void Cancel(uint64_t number) { set_.erase({dues_[number], number}); }
  uint64_t NextDue() const { return set_.empty() ? UINT64_MAX : set_.begin()->first; }

 private:
  absl::btree_set<std::pair<uint64_t, uint64_t>> set_;
  std::vector<uint64_t> dues_;
  std::vector<uint64_t> fired_;
};

#ifdef DUETIME_BENCH_LOOPS

// The time that every clock shows, in ms since kStart, plus one hour. 0: the real clocks run. See
// wheel_peers.cc.
extern uint64_t virtual_ms;

// The libraries call back through C functions; `current` is the peer whose Advance is running.
template <typename Peer>
class LoopPeer {
 public:
  static constexpr uint64_t kStep = 100;

  template <typename Fired>
  void Advance(uint64_t now, Fired fired) {
    virtual_ms = 3'600'000 + now - kStart;
    fired_.clear();
    static_cast<Peer*>(this)->Poll();
    for (const uint64_t number : fired_) fired(number);
  }

 protected:
  LoopPeer() { virtual_ms = 3'600'000; }
  ~LoopPeer() { virtual_ms = 0; }
  static uint64_t Delay(uint64_t due) { return due - kStart + 3'600'000 - virtual_ms; }

  std::vector<uint64_t> fired_;
};

class LibeventPeer : public LoopPeer<LibeventPeer> {
 public:
  explicit LibeventPeer(size_t capacity) : timers_(capacity) {
    base_ = event_base_new();
    for (Timer& timer : timers_) {
      timer.peer = this;
      evtimer_assign(
          &timer.handle, base_,
          [](evutil_socket_t, short, void* argument) {
            auto* fired = static_cast<Timer*>(argument);
            fired->peer->fired_.push_back(
                static_cast<uint64_t>(fired - fired->peer->timers_.data()));
          },
          &timer);
    }
  }
  ~LibeventPeer() {
    for (Timer& timer : timers_) event_del(&timer.handle);
    event_base_free(base_);
  }
  void Add(uint64_t due, uint64_t number) {
    const uint64_t delay = Delay(due);
    const timeval time{.tv_sec = static_cast<time_t>(delay / 1000),
                       .tv_usec = static_cast<suseconds_t>(delay % 1000 * 1000)};
    event_add(&timers_[number].handle, &time);
  }
  void Cancel(uint64_t number) { event_del(&timers_[number].handle); }
  void Poll() { event_base_loop(base_, EVLOOP_NONBLOCK); }

 private:
  struct Timer {
    event handle;
    LibeventPeer* peer;
  };
  event_base* base_;
  std::vector<Timer> timers_;
};

class LibevPeer : public LoopPeer<LibevPeer> {
 public:
  explicit LibevPeer(size_t capacity) : timers_(capacity) {
    loop_ = ev_loop_new(EVFLAG_AUTO);
    for (size_t i = 0; i < capacity; ++i) {
      timers_[i].peer = this;
      ev_init(&timers_[i].timer, OnTimer);
      timers_[i].timer.data = &timers_[i];
    }
  }
  ~LibevPeer() {
    for (Timer& timer : timers_) ev_timer_stop(loop_, &timer.timer);
    ev_loop_destroy(loop_);
  }
  void Add(uint64_t due, uint64_t number) {
    ev_timer* const timer = &timers_[number].timer;
    ev_timer_set(timer, static_cast<double>(Delay(due)) / 1000, 0.);
    ev_timer_start(loop_, timer);
  }
  void Cancel(uint64_t number) { ev_timer_stop(loop_, &timers_[number].timer); }
  void Poll() { ev_run(loop_, EVRUN_NOWAIT); }

 private:
  struct Timer {
    ev_timer timer;
    LibevPeer* peer;
  };
  static void OnTimer(struct ev_loop*, ev_timer* timer, int) {
    auto* fired = static_cast<Timer*>(timer->data);
    fired->peer->fired_.push_back(static_cast<uint64_t>(fired - fired->peer->timers_.data()));
  }
  struct ev_loop* loop_;
  std::vector<Timer> timers_;
};

class LibuvPeer : public LoopPeer<LibuvPeer> {
 public:
  explicit LibuvPeer(size_t capacity) : timers_(capacity) {
    uv_loop_init(&loop_);
    for (Timer& timer : timers_) {
      timer.peer = this;
      uv_timer_init(&loop_, &timer.timer);
      timer.timer.data = &timer;
    }
  }
  ~LibuvPeer() {
    for (Timer& timer : timers_) uv_close(reinterpret_cast<uv_handle_t*>(&timer.timer), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }
  void Add(uint64_t due, uint64_t number) {
    uv_timer_start(
        &timers_[number].timer,
        [](uv_timer_t* timer) {
          auto* fired = static_cast<Timer*>(timer->data);
          fired->peer->fired_.push_back(static_cast<uint64_t>(fired - fired->peer->timers_.data()));
        },
        Delay(due), 0);
  }
  void Cancel(uint64_t number) { uv_timer_stop(&timers_[number].timer); }
  void Poll() { uv_run(&loop_, UV_RUN_NOWAIT); }

 private:
  struct Timer {
    uv_timer_t timer;
    LibuvPeer* peer;
  };
  uv_loop_t loop_;
  std::vector<Timer> timers_;
};

class AsioPeer : public LoopPeer<AsioPeer> {
 public:
  explicit AsioPeer(size_t capacity) {
    timers_.reserve(capacity);
    for (size_t i = 0; i < capacity; ++i) timers_.emplace_back(context_);
  }
  void Add(uint64_t due, uint64_t number) {
    timers_[number].expires_at(Clock::time_point(Clock::duration(due)));
    timers_[number].async_wait([this, number](const boost::system::error_code& error) {
      if (!error) fired_.push_back(number);
    });
  }
  void Cancel(uint64_t number) { timers_[number].cancel(); }
  void Poll() {
    context_.restart();
    context_.poll();
  }

 private:
  struct Clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<Clock, duration>;
    static constexpr bool is_steady = true;
    static time_point now() { return time_point(duration(kStart + virtual_ms - 3'600'000)); }
  };
  boost::asio::io_context context_;
  std::vector<boost::asio::basic_waitable_timer<Clock>> timers_;
};

#endif  // DUETIME_BENCH_LOOPS

}  // namespace duetime::bench
