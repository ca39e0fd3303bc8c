// SPDX-License-Identifier: Apache-2.0
//
// StreamDirectory: finds the receiver of a StreamId on a worker.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// The receiver of deliveries and of confirmations of settlements: a stream, or a call.
class StreamSink {
 public:
  virtual ~StreamSink() = default;

  // Take effects of the shards. Pump follows once for all effects of one wake-up.
  virtual void AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries) = 0;
  virtual void AddSettles(const protocol::SettleReply& reply) = 0;
  // Acts on the added deliveries and confirmations.
  virtual void Pump() = 0;

 private:
  friend class StreamDirectory;
  // True if Pump is still to be called.
  bool touched_ = false;
};

// Gives out ids, finds their sinks, and pumps the sinks that received something. Thread safety:
// confined to the worker's thread.
class StreamDirectory {
 public:
  // `base`: the bits that all ids of this worker have.
  explicit StreamDirectory(uint64_t base) : base_(base) {}
  StreamDirectory(const StreamDirectory&) = delete;
  StreamDirectory& operator=(const StreamDirectory&) = delete;

  // A new id without a sink.
  protocol::StreamId NewId() { return protocol::StreamId{base_ | next_++}; }
  // Returns a new id, under which `sink` is found until Remove. REQUIRES: `sink` outlives Remove.
  protocol::StreamId Add(StreamSink* sink) {
    const protocol::StreamId id = NewId();
    DT_CHECK(sinks_.emplace(static_cast<uint64_t>(id), sink).second);
    return id;
  }
  void Remove(protocol::StreamId id) {
    const auto found = sinks_.find(static_cast<uint64_t>(id));
    if (found == sinks_.end()) return;
    if (found->second->touched_) std::erase(touched_, found->second);
    sinks_.erase(found);
  }

  // The sink of an id, which will be pumped. Null if the sink was removed; effects for it are void.
  StreamSink* Touch(protocol::StreamId id) {
    StreamSink* const sink = Find(id);
    if (sink != nullptr && !std::exchange(sink->touched_, true)) touched_.push_back(sink);
    return sink;
  }
  // The same without a Pump.
  StreamSink* Find(protocol::StreamId id) const {
    const auto found = sinks_.find(static_cast<uint64_t>(id));
    return found == sinks_.end() ? nullptr : found->second;
  }

  void PumpTouched() {
    while (!touched_.empty()) {
      StreamSink* const sink = touched_.back();
      touched_.pop_back();
      sink->touched_ = false;
      sink->Pump();
    }
  }

 private:
  const uint64_t base_;
  uint64_t next_ = 1;
  absl::flat_hash_map<uint64_t, StreamSink*> sinks_;
  std::vector<StreamSink*> touched_;
};

}  // namespace duetime::api
