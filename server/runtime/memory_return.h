// SPDX-License-Identifier: Apache-2.0
//
// MemoryReturn: gives memory that a burst of work has freed back to the system.
#pragma once

#include <cstdint>
#include <functional>

namespace duetime::runtime {

// Decides when to return memory. malloc keeps most of what is freed, and would hold the peak for
// ever. Returning memory locks each arena in turn, so it happens seldom, and only if much is free
// and the process has grown since the last time: malloc counts returned memory as free, too.
//
// Thread safety: confined.
class MemoryReturn {
 public:
  // With less free memory, or after less growth, nothing is returned.
  static constexpr uint64_t kFreeBytesMin = 64 << 20;
  static constexpr uint64_t kPeriodMs = 10'000;

  struct Allocator {
    // The bytes that the allocator holds and the program does not use.
    std::function<uint64_t()> free_bytes;
    // The memory of the process.
    std::function<uint64_t()> resident_bytes;
    std::function<void()> give_back;
  };

  explicit MemoryReturn(Allocator allocator);
  // For malloc.
  MemoryReturn();

  // Call about once a second. Returns true if it has returned memory.
  bool Look(uint64_t now_ms);

 private:
  const Allocator allocator_;
  // Not earlier than this.
  uint64_t next_ms_ = 0;
  // The least memory of the process since the last return.
  uint64_t resident_min_ = 0;
};

}  // namespace duetime::runtime
