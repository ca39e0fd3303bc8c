// SPDX-License-Identifier: Apache-2.0
//
// StreamCount: one open stream, or one waiting Pull, of a limited number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace duetime::rpc {

// Counts while it lives. `open` outlives it. Thread-safe.
class StreamCount {
 public:
  StreamCount(std::atomic<uint64_t>* open, size_t max)
      : open_(open), max_(max), over_(open->fetch_add(1) >= max) {}
  ~StreamCount() { open_->fetch_sub(1); }
  StreamCount(const StreamCount&) = delete;
  StreamCount& operator=(const StreamCount&) = delete;

  // RESOURCE_EXHAUSTED STREAM_LIMIT if `max` others were open when it began.
  absl::Status status() const;

 private:
  std::atomic<uint64_t>* const open_;
  const size_t max_;
  const bool over_;
};

}  // namespace duetime::rpc
