// SPDX-License-Identifier: Apache-2.0
//
// NodeSlab: where the wheel's nodes live.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/check.h"

namespace duetime::wheel {

// Storage for many small nodes of one type, named by 32-bit indices that stay valid until the node
// is freed.
//
//   chunks_   [0] 4096 nodes   [1] 4096 nodes   [2] given back   ...
//   index     = chunk number * 4096 + place in the chunk
//
// Nodes live in chunks that never move, so that growth costs one chunk and never copies what is
// there. A chunk hands out its nodes in order first (untouched memory stays untouched) and freed
// ones after that. When all nodes of a chunk are free it is given back to the allocator, except for
// one, which is kept so that a size that swings about the edge of a chunk does not allocate and
// free all the time, and what was reserved.
//
// What it does not do: no construction or destruction of nodes (Node must be trivial enough not to
// need it), no check that a freed index is not used any more.
// Cost: O(1) each. 40 bytes of bookkeeping per chunk. A chunk with one node in use stays whole.
// REQUIRES of Node: a field `uint32_t next`, which the slab uses while the node is free.
// Thread safety: the caller locks (in duetime: confined to the engine thread).
template <typename Node, uint32_t kChunkBitsParameter = 12>
class NodeSlab {
 public:
  static constexpr uint32_t kNone = 0xffff'ffff;
  static constexpr uint32_t kChunkBits = kChunkBitsParameter;
  static constexpr uint32_t kChunkNodes = 1u << kChunkBits;

  // Returns the index of a node whose fields are unspecified. Dies at 2^32 - 4096 nodes, which
  // would be over 100 GB.
  uint32_t Allocate() {
    if (available_ == kNone) AddChunk(std::make_unique_for_overwrite<Node[]>(kChunkNodes));
    const uint32_t number = available_;
    Chunk& chunk = chunks_[number];
    if (chunk.live == 0) --empty_chunks_;
    uint32_t place = chunk.free_head;
    if (place != kNone) {
      chunk.free_head = chunk.nodes[place].next;
    } else {
      place = chunk.used++;
    }
    if (++chunk.live == kChunkNodes) RemoveAvailable(number);
    ++live_;
    return (number << kChunkBits) | place;
  }

  // Gives a node back. REQUIRES: `index` came from Allocate and was not freed since.
  void Free(uint32_t index) {
    const uint32_t number = index >> kChunkBits;
    const uint32_t place = index & (kChunkNodes - 1);
    Chunk& chunk = chunks_[number];
    DT_CHECK_GT(chunk.live, 0u);
    chunk.nodes[place].next = chunk.free_head;
    chunk.free_head = place;
    if (chunk.live == kChunkNodes) AddAvailable(number);
    --live_;
    if (--chunk.live != 0) return;
    // An empty chunk starts afresh: its nodes come in order again.
    chunk.free_head = kNone;
    chunk.used = 0;
    if (empty_chunks_ < kept_chunks_) {
      ++empty_chunks_;
    } else {
      RemoveAvailable(number);
      chunk.nodes.reset();
      vacant_.push_back(number);
    }
  }

  // Has room for `nodes` nodes from now on, in memory that has been written to: it is what Allocate
  // gives out first, and it is not given back.
  void Reserve(size_t nodes) {
    const size_t chunks = (nodes + kChunkNodes - 1) / kChunkNodes;
    while (chunks_.size() - vacant_.size() < chunks)
      AddChunk(std::make_unique<Node[]>(kChunkNodes));
    kept_chunks_ = std::max(kept_chunks_, chunks);
  }

  // Frees all nodes, and gives the chunks back that are not to be kept.
  void Clear() {
    std::vector<std::unique_ptr<Node[]>> kept;
    for (Chunk& chunk : chunks_) {
      if (chunk.nodes != nullptr && kept.size() < kept_chunks_) {
        kept.push_back(std::move(chunk.nodes));
      }
    }
    const size_t kept_chunks = kept_chunks_;
    *this = NodeSlab();
    kept_chunks_ = kept_chunks;
    for (std::unique_ptr<Node[]>& nodes : kept) AddChunk(std::move(nodes));
  }

  // REQUIRES: Contains(index).
  Node& operator[](uint32_t index) {
    return chunks_[index >> kChunkBits].nodes[index & (kChunkNodes - 1)];
  }
  const Node& operator[](uint32_t index) const {
    return chunks_[index >> kChunkBits].nodes[index & (kChunkNodes - 1)];
  }

  // True if `index` names memory that is there: a node in use, or a freed one with its fields as
  // they were left (but `next`). Any value may be asked.
  bool Contains(uint32_t index) const {
    const uint32_t number = index >> kChunkBits;
    return number < chunks_.size() && (index & (kChunkNodes - 1)) < chunks_[number].used;
  }

  // Nodes in use.
  size_t live() const { return live_; }

  // Memory held, in bytes, without the slab itself.
  size_t bytes() const {
    return chunks_.capacity() * sizeof(Chunk) + vacant_.capacity() * sizeof(uint32_t) +
           (chunks_.size() - vacant_.size()) * kChunkNodes * sizeof(Node);
  }

 private:
  struct Chunk {
    // Null while the chunk is given back.
    std::unique_ptr<Node[]> nodes;
    // First freed node, as a place in this chunk, or kNone.
    uint32_t free_head = kNone;
    // Places below this were handed out at some time.
    uint32_t used = 0;
    // Nodes in use.
    uint32_t live = 0;
    // Neighbours in the list of chunks that have a node to give.
    uint32_t next = kNone;
    uint32_t prev = kNone;
  };

  void AddChunk(std::unique_ptr<Node[]> nodes) {
    uint32_t number = 0;
    if (vacant_.empty()) {
      number = static_cast<uint32_t>(chunks_.size());
      // The last chunk number is left out so that no index equals kNone.
      DT_CHECK_LT(number, kNone >> kChunkBits);
      chunks_.emplace_back();
    } else {
      number = vacant_.back();
      vacant_.pop_back();
    }
    chunks_[number].nodes = std::move(nodes);
    ++empty_chunks_;
    AddAvailable(number);
  }

  void AddAvailable(uint32_t number) {
    Chunk& chunk = chunks_[number];
    chunk.prev = kNone;
    chunk.next = available_;
    if (available_ != kNone) chunks_[available_].prev = number;
    available_ = number;
  }

  void RemoveAvailable(uint32_t number) {
    Chunk& chunk = chunks_[number];
    if (chunk.prev == kNone) {
      DT_CHECK_EQ(available_, number);
      available_ = chunk.next;
    } else {
      chunks_[chunk.prev].next = chunk.next;
    }
    if (chunk.next != kNone) chunks_[chunk.next].prev = chunk.prev;
  }

  std::vector<Chunk> chunks_;
  // Numbers of the chunks that were given back.
  std::vector<uint32_t> vacant_;
  // Head of the list of chunks that have a node to give.
  uint32_t available_ = kNone;
  // Chunks with memory and no node in use, and how many of them are kept.
  size_t empty_chunks_ = 0;
  size_t kept_chunks_ = 1;
  size_t live_ = 0;
};

}  // namespace duetime::wheel
