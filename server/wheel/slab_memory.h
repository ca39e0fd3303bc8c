// SPDX-License-Identifier: Apache-2.0
//
// SlabMemory: the source of the wheel's memory.
#pragma once

#include <cstddef>
#include <new>

namespace duetime::wheel {

// Allocates memory in slabs of one size.
//
// The wheel grows and shrinks by one slab. The system maps fresh memory page by page when it is
// first written: 0.4 to 8 us per page of 4 KiB (a cold huge page: up to 3.3 ms), and unmapping
// costs as much again. A thread that must not wait therefore gets slabs that another thread has
// prepared, behind this interface; the wheel itself has no threads. Thread safety: each
// implementation states its own.
class SlabMemory {
 public:
  static constexpr size_t kSlabBytes = 256 << 10;
  static constexpr size_t kAlignment = 4096;

  virtual ~SlabMemory() = default;

  // Returns kSlabBytes uninitialised bytes, aligned to kAlignment. Dies if there is no memory.
  virtual void* Take() = 0;
  // Takes a slab back. REQUIRES: it came from Take of the same object.
  virtual void Give(void* slab) = 0;
};

// Slabs from the allocator, for callers that may wait. Thread safety: any thread.
class HeapSlabs final : public SlabMemory {
 public:
  void* Take() override { return ::operator new (kSlabBytes, std::align_val_t{kAlignment}); }
  void Give(void* slab) override { ::operator delete (slab, std::align_val_t{kAlignment}); }

  static HeapSlabs* Shared() {
    static HeapSlabs shared;
    return &shared;
  }
};

}  // namespace duetime::wheel
