// SPDX-License-Identifier: Apache-2.0
//
// SlabMemory: where the memory of the wheel comes from.
#pragma once

#include <cstddef>
#include <new>

namespace duetime::wheel {

// Gives out memory in slabs of one size and takes them back.
//
// The wheel grows and shrinks by a slab. What a slab costs depends on who asks the system for it:
// memory that nobody has written to yet is found by the machine page by page as it is written to,
// 0.4 to 8 us for each page of 4 KiB (a cold huge page: up to 3.3 ms), and giving it back costs as
// much again. So a thread that must not wait has the slabs made ready by another one, behind this
// interface; the wheel itself knows no threads. Thread safety: as the implementation says.
class SlabMemory {
 public:
  static constexpr size_t kSlabBytes = 256 << 10;
  static constexpr size_t kAlignment = 4096;

  virtual ~SlabMemory() = default;

  // Returns kSlabBytes bytes, aligned to kAlignment, that hold anything. Dies if there is no
  // memory.
  virtual void* Take() = 0;
  // Takes a slab back. REQUIRES: it came from Take of the same object.
  virtual void Give(void* slab) = 0;
};

// Slabs from the allocator, for who does not mind the wait. Thread safety: any thread.
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
