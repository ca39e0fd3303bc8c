// SPDX-License-Identifier: Apache-2.0
//
// NodeSlab: storage for the wheel's nodes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/slab_memory.h"

namespace duetime::wheel {

// Storage for many small nodes of one type, named by 32-bit indices that stay valid until the node
// is freed.
//
//   slabs_   [0] 256 nodes   [1] 256 nodes   [2] given back   ...
//   index    = number of the slab * 256 + place in the slab
//
// Slabs never move, so growth costs one slab and copies nothing. A slab hands out its nodes in
// order first, so that untouched memory stays untouched, and reuses freed nodes after that. An
// empty slab is given back, except for one, so that a size that varies around the edge of a slab
// does not allocate all the time.
//
// Not included: construction and destruction of nodes (a Node must not need them), and a check that
// a freed index is not used again. Cost: O(1) each. 32 bytes of bookkeeping per slab. A slab with
// one node in use stays whole. REQUIRES of Node: a field `uint32_t next`, which NodeSlab uses while
// the node is free. Thread safety: the caller locks (in duetime: confined to the engine thread).
template <typename Node>
class NodeSlab {
 public:
  static constexpr uint32_t kNone = 0xffff'ffff;
  static constexpr uint32_t kSlabNodes = SlabMemory::kSlabBytes / sizeof(Node);
  static_assert(std::has_single_bit(sizeof(Node)) && alignof(Node) <= SlabMemory::kAlignment);

  // REQUIRES: `memory` outlives the slab.
  explicit NodeSlab(SlabMemory* memory) : memory_(memory) {
    // Enough for 64 MiB of nodes, a few million entries: until then these vectors do not grow.
    slabs_.reserve(kSlabsReserved);
    vacant_.reserve(kSlabsReserved);
  }
  ~NodeSlab() {
    for (const Slab& slab : slabs_) {
      if (slab.nodes != nullptr) memory_->Give(slab.nodes);
    }
  }
  NodeSlab(const NodeSlab&) = delete;
  NodeSlab& operator=(const NodeSlab&) = delete;

  // Returns the index of a node whose fields are unspecified. Dies at 2^32 - kSlabNodes nodes,
  // which would be over 30 GB.
  uint32_t Allocate() {
    if (available_ == kNone) AddSlab();
    const uint32_t number = available_;
    Slab& slab = slabs_[number];
    if (slab.live == 0) --empty_slabs_;
    uint32_t place = slab.free_head;
    if (place != kNone) {
      slab.free_head = slab.nodes[place].next;
    } else {
      place = slab.used++;
    }
    if (++slab.live == kSlabNodes) RemoveAvailable(number);
    ++live_;
    return number * kSlabNodes + place;
  }

  // Gives a node back. REQUIRES: `index` came from Allocate and was not freed since.
  void Free(uint32_t index) {
    const uint32_t number = index / kSlabNodes;
    const uint32_t place = index % kSlabNodes;
    Slab& slab = slabs_[number];
    DT_CHECK_GT(slab.live, 0u);
    slab.nodes[place].next = slab.free_head;
    slab.free_head = place;
    if (slab.live == kSlabNodes) AddAvailable(number);
    --live_;
    if (--slab.live != 0) return;
    // An empty slab starts afresh: its nodes come in order again.
    slab.free_head = kNone;
    slab.used = 0;
    if (empty_slabs_ == 0) {
      ++empty_slabs_;
    } else {
      RemoveAvailable(number);
      GiveBack(number);
    }
  }

  // Frees all nodes, and gives all slabs back but one.
  void Clear() {
    vacant_.clear();
    available_ = kNone;
    empty_slabs_ = 0;
    live_ = 0;
    for (uint32_t number = 0; number < slabs_.size(); ++number) {
      Slab& slab = slabs_[number];
      slab.free_head = kNone;
      slab.used = slab.live = 0;
      if (slab.nodes != nullptr && empty_slabs_ == 0) {
        ++empty_slabs_;
        AddAvailable(number);
      } else {
        GiveBack(number);
      }
    }
  }

  // REQUIRES: Contains(index).
  Node& operator[](uint32_t index) { return slabs_[index / kSlabNodes].nodes[index % kSlabNodes]; }
  const Node& operator[](uint32_t index) const {
    return slabs_[index / kSlabNodes].nodes[index % kSlabNodes];
  }

  // True if `index` names existing memory: a node in use, or a freed node, whose fields but `next`
  // are unchanged. `index` may have any value.
  bool Contains(uint32_t index) const {
    const uint32_t number = index / kSlabNodes;
    return number < slabs_.size() && index % kSlabNodes < slabs_[number].used;
  }

  // Nodes in use.
  size_t live() const { return live_; }

  // Memory held, in bytes, without this object.
  size_t bytes() const {
    return slabs_.capacity() * sizeof(Slab) + vacant_.capacity() * sizeof(uint32_t) +
           (slabs_.size() - vacant_.size()) * SlabMemory::kSlabBytes;
  }

 private:
  static constexpr size_t kSlabsReserved = 256;

  struct Slab {
    // Null while the slab is given back.
    Node* nodes = nullptr;
    // First freed node, as a place in this slab, or kNone.
    uint32_t free_head = kNone;
    // Places below this were handed out at some time.
    uint32_t used = 0;
    // Nodes in use.
    uint32_t live = 0;
    // Neighbours in the list of slabs that have a free node.
    uint32_t next = kNone;
    uint32_t prev = kNone;
  };

  void AddSlab() {
    uint32_t number = 0;
    if (vacant_.empty()) {
      number = static_cast<uint32_t>(slabs_.size());
      // The last number is left out so that no index equals kNone.
      DT_CHECK_LT(number, kNone / kSlabNodes);
      slabs_.emplace_back();
    } else {
      number = vacant_.back();
      vacant_.pop_back();
    }
    slabs_[number].nodes = static_cast<Node*>(memory_->Take());
    ++empty_slabs_;
    AddAvailable(number);
  }

  void GiveBack(uint32_t number) {
    Slab& slab = slabs_[number];
    if (slab.nodes != nullptr) memory_->Give(slab.nodes);
    slab.nodes = nullptr;
    vacant_.push_back(number);
  }

  void AddAvailable(uint32_t number) {
    Slab& slab = slabs_[number];
    slab.prev = kNone;
    slab.next = available_;
    if (available_ != kNone) slabs_[available_].prev = number;
    available_ = number;
  }

  void RemoveAvailable(uint32_t number) {
    Slab& slab = slabs_[number];
    if (slab.prev == kNone) {
      DT_CHECK_EQ(available_, number);
      available_ = slab.next;
    } else {
      slabs_[slab.prev].next = slab.next;
    }
    if (slab.next != kNone) slabs_[slab.next].prev = slab.prev;
  }

  SlabMemory* const memory_;
  std::vector<Slab> slabs_;
  // Numbers of the slabs that were given back.
  std::vector<uint32_t> vacant_;
  // Head of the list of slabs that have a free node.
  uint32_t available_ = kNone;
  // Slabs with memory and no node in use: 0 or 1.
  size_t empty_slabs_ = 0;
  size_t live_ = 0;
};

}  // namespace duetime::wheel
