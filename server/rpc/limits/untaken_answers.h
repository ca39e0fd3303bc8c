// SPDX-License-Identifier: Apache-2.0
//
// UntakenAnswers: limits the memory of answers that clients do not read.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/base/check.h"

namespace duetime::rpc {

class UnaryCall;

// The answers of one worker that gRPC has not sent completely, in the order in which they were
// given. gRPC keeps an answer until the client reads it, for any time. A thousand unread answers of
// 1 MiB, on one connection, cost 1 GiB.
//
// The rule: if the answers of all workers have more bytes than allowed, and those of this one more
// than its share, drop the oldest one of this worker until that is over. The drop hits the call
// whose answer has waited for the longest time. The newest answer stays, however large it is. So
// beside the newest ones, all workers together keep less than twice the limit: one worker may have
// all of it when the others begin to fill their shares. All operations are O(1). Thread safety:
// confined to the worker's thread.
class UntakenAnswers {
 public:
  // What the workers of a server share. Thread-safe.
  struct Limit {
    Limit(uint64_t max, uint64_t workers) : bytes_max(max), share(max / workers) {}

    const uint64_t bytes_max;
    const uint64_t share;
    // Of all workers.
    std::atomic<uint64_t> bytes{0};
    std::atomic<int64_t> stream_bytes{0};
  };

  // A member of the list, part of its call.
  class Answer {
   public:
    explicit Answer(UnaryCall* call) : call_(call) {}
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    UnaryCall* call() const { return call_; }

   private:
    friend class UntakenAnswers;
    UnaryCall* const call_;
    uint64_t bytes_ = 0;
    Answer* older_ = nullptr;
    Answer* newer_ = nullptr;
    bool listed_ = false;
  };

  // REQUIRES: `limit` outlives the object.
  explicit UntakenAnswers(Limit* limit) : limit_(limit) {}

  // REQUIRES: `answer` is not in the list.
  void Add(Answer* answer, uint64_t bytes) {
    answer->bytes_ = bytes;
    answer->listed_ = true;
    answer->older_ = newest_;
    answer->newer_ = nullptr;
    (newest_ == nullptr ? oldest_ : newest_->newer_) = answer;
    newest_ = answer;
    bytes_ += bytes;
    limit_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }

  // Nothing happens if `answer` is not in the list.
  void Remove(Answer* answer) {
    if (!answer->listed_) return;
    answer->listed_ = false;
    (answer->older_ == nullptr ? oldest_ : answer->older_->newer_) = answer->newer_;
    (answer->newer_ == nullptr ? newest_ : answer->newer_->older_) = answer->older_;
    bytes_ -= answer->bytes_;
    limit_->bytes.fetch_sub(answer->bytes_, std::memory_order_relaxed);
  }

  // Counts answers that travel on streams, apart from the others and with the same limit. They are
  // in no list: the streams look at TooManyOfStreams and end. Negative bytes have been sent.
  void AddOfStreams(int64_t bytes) {
    stream_bytes_ += bytes;
    DT_CHECK_GE(stream_bytes_, 0);
    limit_->stream_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  // True if the streams of all workers have too many bytes, and those of this one more than its
  // share.
  bool TooManyOfStreams() const {
    return stream_bytes_ > static_cast<int64_t>(limit_->share) &&
           limit_->stream_bytes.load(std::memory_order_relaxed) >
               static_cast<int64_t>(limit_->bytes_max);
  }

  // Removes and returns the oldest answer if it must be dropped, else returns nullptr.
  Answer* TakeExcess() {
    if (bytes_ <= limit_->share || oldest_ == newest_) return nullptr;
    if (limit_->bytes.load(std::memory_order_relaxed) <= limit_->bytes_max) return nullptr;
    Answer* const oldest = oldest_;
    Remove(oldest);
    return oldest;
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t bytes_max() const { return limit_->bytes_max; }

 private:
  Limit* const limit_;
  uint64_t bytes_ = 0;
  int64_t stream_bytes_ = 0;
  Answer* oldest_ = nullptr;
  Answer* newest_ = nullptr;
};

}  // namespace duetime::rpc
