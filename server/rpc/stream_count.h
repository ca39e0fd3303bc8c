// SPDX-License-Identifier: Apache-2.0
//
// OpenCount: one open call of a kind, of a limited number. StreamCount: one open stream, or one
// waiting Pull.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::rpc {

// Counts while it lives. `open` outlives it. Thread-safe.
class OpenCount {
 public:
  OpenCount(std::atomic<uint64_t>* open, size_t max)
      : open_(open), max_(max), over_(open->fetch_add(1) >= max) {}
  ~OpenCount() { open_->fetch_sub(1); }
  OpenCount(const OpenCount&) = delete;
  OpenCount& operator=(const OpenCount&) = delete;

  // RESOURCE_EXHAUSTED OVERLOADED if `max` others were open when it began. `calls` names them.
  absl::Status Admit(absl::string_view calls) const;

 protected:
  size_t max() const { return max_; }
  bool over() const { return over_; }

 private:
  std::atomic<uint64_t>* const open_;
  const size_t max_;
  const bool over_;
};

class StreamCount : public OpenCount {
 public:
  using OpenCount::OpenCount;

  // RESOURCE_EXHAUSTED STREAM_LIMIT if `max` others were open when it began.
  absl::Status status() const;
};

}  // namespace duetime::rpc
