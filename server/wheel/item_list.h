// SPDX-License-Identifier: Apache-2.0
//
// ItemPool: first-in-first-out lists of small items, in chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "server/base/check.h"
#include "server/wheel/node_slab.h"

namespace duetime::wheel {

// The pool that many lists of items share. Items lie in chunks of 1,024 bytes, one after the other:
//
//   list  head ---> [next | begin end | item item item ...] ---> [next | ... | item item .  .]
//         write --------------------------------------------------------------------------^
//
// An append is one store through `write`, and reading runs through memory in order; no item has a
// node or a link of its own. A list is any struct with `Item* write` and `uint32_t head`, null and
// kNone while the list is empty. The pool does not know its lists.
//
// The address of the write position within its 1,024 bytes shows whether the chunk is full, so an
// append reads only the list and writes one place.
//
// Not included: counting of items, destruction (items are trivial). Cost: O(1) per item. A
// non-empty list has at most one partly written chunk and one partly read chunk. Thread safety: the
// caller locks (in duetime: confined to the engine thread).
template <typename Item>
class ItemPool {
  static_assert(std::is_trivially_copyable_v<Item>, "items are copied as bytes");

 public:
  static constexpr size_t kChunkBytes = 1024;
  static constexpr size_t kHeaderBytes = 8;
  static constexpr uint32_t kItems = (kChunkBytes - kHeaderBytes) / sizeof(Item);
  static_assert(alignof(Item) <= kHeaderBytes && kItems >= 4);

  struct alignas(kChunkBytes) Chunk {
    // The next chunk of the list, kNone in the last one. Used by the slab while the chunk is free.
    uint32_t next;
    // The chunk holds items [begin, end). In a list's last chunk the write position is the end, and
    // `end` stays kItems so that adding a chunk changes nothing here.
    uint16_t begin;
    uint16_t end;
    Item items[kItems];
  };
  static_assert(sizeof(Chunk) == kChunkBytes);

  // A slab has 256 chunks. The pool grows and shrinks by one slab.
  using Slab = NodeSlab<Chunk>;
  static constexpr uint32_t kNone = Slab::kNone;

  // REQUIRES: `memory` outlives the pool.
  explicit ItemPool(SlabMemory* memory) : slab_(memory) {}

  // Makes room for one more item at the end of a list and returns its address. The caller must
  // write the item before any other use of the list. Calls chunk_added() if the pool adds a chunk
  // (always for an empty list).
  template <typename List, typename ChunkAdded>
  __attribute__((always_inline)) Item* Append(List* list, ChunkAdded chunk_added) {
    if (PlaceOf(list->write) - kHeaderBytes >= kItems * sizeof(Item)) {
      AddChunk(list);
      chunk_added();
    }
    Item* const item = list->write++;
    __builtin_prefetch(reinterpret_cast<const char*>(item) + 64, 1);
    return item;
  }

  // Takes up to `count` items from the front: calls take(first, n) for runs of them. Returns the
  // number of items, which is below `count` only if the list is empty now. `take` may append to
  // other lists. Calls chunk_freed() after each chunk that was given back.
  template <typename List, typename Take, typename ChunkFreed>
  size_t Consume(List* list, size_t count, Take take, ChunkFreed chunk_freed) {
    size_t taken = 0;
    while (list->head != kNone && taken < count) {
      Chunk& chunk = slab_[list->head];
      const bool last = chunk.next == kNone;
      const uint32_t end = last ? WriteIndex(*list) : chunk.end;
      DT_CHECK_LT(chunk.begin, end);
      const auto run = static_cast<uint32_t>(std::min<size_t>(count - taken, end - chunk.begin));
      if (!last) PrefetchAfter(slab_[chunk.next]);
      take(static_cast<const Item*>(chunk.items + chunk.begin), size_t{run});
      taken += run;
      chunk.begin = static_cast<uint16_t>(chunk.begin + run);
      if (chunk.begin == end) {
        const uint32_t freed = list->head;
        list->head = chunk.next;
        if (last) list->write = nullptr;
        Free(freed);
        chunk_freed();
      }
    }
    return taken;
  }

  // Calls visit(item) for up to `count` items from the front. Returns true if the list has no more.
  template <typename List, typename Visitor>
  bool Visit(const List& list, size_t count, Visitor visit) const {
    for (uint32_t index = list.head; index != kNone; index = slab_[index].next) {
      const Chunk& chunk = slab_[index];
      const uint32_t end = chunk.next == kNone ? WriteIndex(list) : chunk.end;
      for (uint32_t i = chunk.begin; i < end; ++i) {
        if (count-- == 0) return false;
        visit(chunk.items[i]);
      }
    }
    return true;
  }

  // Removes items that are not alive(item) from one chunk of a list: the first chunk, or the one
  // after the last call's. Moves the other items into the previous chunk as far as there is room.
  // Returns true after the last chunk of the list. Calls chunk_freed() if it freed the chunk.
  // Between two calls the list may change in any way. REQUIRES: no other list is swept meanwhile.
  template <typename List, typename Alive, typename ChunkFreed>
  bool SweepChunk(List* list, Alive alive, ChunkFreed chunk_freed, size_t* removed) {
    const uint32_t index = swept_ == kNone ? list->head : slab_[swept_].next;
    if (index == kNone) {
      swept_ = kNone;
      return true;
    }
    Chunk* const before = swept_ == kNone ? nullptr : &slab_[swept_];
    Chunk& chunk = slab_[index];
    const bool last = chunk.next == kNone;
    const uint32_t end = last ? WriteIndex(*list) : chunk.end;
    uint16_t left = 0;
    for (uint32_t i = chunk.begin; i < end; ++i) {
      if (!alive(chunk.items[i])) {
        ++*removed;
      } else if (before != nullptr && before->end < kItems) {
        before->items[before->end++] = chunk.items[i];
      } else {
        chunk.items[left++] = chunk.items[i];
      }
    }
    chunk.begin = 0;
    if (left != 0) {
      if (last) {
        list->write = chunk.items + left;
      } else {
        chunk.end = left;
      }
      swept_ = index;
    } else {
      (before == nullptr ? list->head : before->next) = chunk.next;
      if (last) list->write = before == nullptr ? nullptr : Reopen(before);
      slab_.Free(index);
      chunk_freed();
    }
    if (last) swept_ = kNone;
    return last;
  }

  // Ends the sweep of a list, so that another list can be swept.
  void EndSweep() { swept_ = kNone; }

  // Frees every chunk. REQUIRES: the caller forgets all lists.
  void Clear() {
    slab_.Clear();
    swept_ = kNone;
  }

  size_t chunks() const { return slab_.live(); }
  size_t bytes() const { return slab_.bytes(); }

  // Dies unless the list is well formed. Returns its number of chunks.
  template <typename List>
  uint32_t CheckList(const List& list) const {
    uint32_t chunks = 0;
    DT_CHECK_EQ(list.head == kNone, list.write == nullptr);
    for (uint32_t index = list.head; index != kNone; index = slab_[index].next) {
      DT_CHECK(slab_.Contains(index));
      const Chunk& chunk = slab_[index];
      const bool last = chunk.next == kNone;
      if (last) {
        DT_CHECK(&chunk == ChunkOf(list.write - 1));
        DT_CHECK_EQ(uint32_t{chunk.end}, kItems);
      }
      const uint32_t end = last ? WriteIndex(list) : chunk.end;
      DT_CHECK_LT(chunk.begin, end);
      DT_CHECK_LE(end, kItems);
      if (index != list.head) DT_CHECK_EQ(chunk.begin, 0);
      ++chunks;
      DT_CHECK_LE(chunks, slab_.live());
    }
    return chunks;
  }

 private:
  static size_t PlaceOf(const Item* item) {
    return reinterpret_cast<uintptr_t>(item) & (kChunkBytes - 1);
  }
  static Chunk* ChunkOf(Item* item) {
    return reinterpret_cast<Chunk*>(reinterpret_cast<char*>(item) - PlaceOf(item));
  }
  // The number of places written in the last chunk of a list. REQUIRES: the list is not empty.
  template <typename List>
  static uint32_t WriteIndex(const List& list) {
    return static_cast<uint32_t>(list.write - ChunkOf(list.write - 1)->items);
  }
  // Prefetches the chunk after `chunk`, because reading a chunk takes about half as long as a
  // memory access. `chunk` itself was prefetched one chunk ago. Always inline, because GCC treats a
  // function that only prefetches as one without an effect and drops the calls.
  __attribute__((always_inline)) void PrefetchAfter(const Chunk& chunk) {
    if (chunk.next == kNone) return;
    const Chunk& after = slab_[chunk.next];
    for (size_t line = 0; line < kChunkBytes; line += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(&after) + line);
    }
  }

  void Free(uint32_t index) {
    if (swept_ == index) swept_ = kNone;
    slab_.Free(index);
  }

  // Makes a chunk the last one again, and returns its write position.
  static Item* Reopen(Chunk* chunk) {
    Item* const write = chunk->items + chunk->end;
    chunk->end = kItems;
    return write;
  }

  template <typename List>
  __attribute__((noinline)) void AddChunk(List* list) {
    const uint32_t index = slab_.Allocate();
    Chunk& chunk = slab_[index];
    chunk.next = kNone;
    chunk.begin = 0;
    chunk.end = kItems;
    if (list->write == nullptr) {
      list->head = index;
    } else {
      ChunkOf(list->write - 1)->next = index;
    }
    list->write = chunk.items;
  }

  Slab slab_;
  // SweepChunk continues behind this chunk; kNone: at the front of the list.
  uint32_t swept_ = kNone;
};

}  // namespace duetime::wheel
