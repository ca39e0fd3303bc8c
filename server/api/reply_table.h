// SPDX-License-Identifier: Apache-2.0
//
// ReplyTable and CatalogReplyTable: give out the tags of commands, and find the receiver of a reply
// by its tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/base/check.h"
#include "server/catalog/commands.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// A tag whose replies are dropped.
inline constexpr protocol::CallTag kNoReply{uint64_t{1} << 55};

// Tags and stream ids carry the index of their worker, so that an answer finds its thread.
constexpr int kWorkerShift = 56;
constexpr size_t WorkerOf(protocol::CallTag tag) {
  return static_cast<size_t>(static_cast<uint64_t>(tag) >> kWorkerShift);
}
constexpr size_t WorkerOf(protocol::StreamId stream) {
  return static_cast<size_t>(static_cast<uint64_t>(stream) >> kWorkerShift);
}
constexpr size_t WorkerOf(catalog::RequestTag tag) {
  return static_cast<size_t>(static_cast<uint64_t>(tag) >> kWorkerShift);
}

// Waits for the replies of shards to the commands under one tag.
class ReplySink {
 public:
  virtual void OnReply(uint16_t shard, protocol::Reply reply) = 0;

 protected:
  ~ReplySink() = default;
};

// Waits for the catalog's replies to requests.
class CatalogReplySink {
 public:
  virtual void OnReply(catalog::Reply reply) = 0;

 protected:
  ~CatalogReplySink() = default;
};

// A tag is a slot of the table and the slot's generation, so that a late reply to a removed tag is
// never given to another receiver. No tag is 0. Cost: O(1), no allocation in the steady state.
// Thread safety: confined to the worker's thread.
template <typename Sink, typename Tag>
class TagTable {
 public:
  explicit TagTable(size_t worker) : worker_bits_(uint64_t{worker} << kWorkerShift) {}
  TagTable(const TagTable&) = delete;
  TagTable& operator=(const TagTable&) = delete;

  // A new tag. REQUIRES: `sink` outlives Remove.
  Tag Add(Sink* sink) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    slots_[index].sink = sink;
    return Tag{worker_bits_ | uint64_t{slots_[index].generation} << 32 | index};
  }

  void Remove(Tag tag) {
    Slot* const slot = FindSlot(tag);
    DT_CHECK(slot != nullptr);
    slot->sink = nullptr;
    slot->generation = (slot->generation + 1) & kGenerationMask;
    free_.push_back(static_cast<uint32_t>(static_cast<uint64_t>(tag)));
  }

  // The receiver of replies under this tag. Null if the tag was removed.
  Sink* Find(Tag tag) {
    Slot* const slot = FindSlot(tag);
    return slot == nullptr ? nullptr : slot->sink;
  }

 private:
  // 23 bits, because bit 55 marks kNoReply.
  static constexpr uint32_t kGenerationMask = (1 << 23) - 1;

  struct Slot {
    Sink* sink = nullptr;
    uint32_t generation = 0;
  };

  // Null if the tag was removed.
  Slot* FindSlot(Tag tag) {
    const auto bits = static_cast<uint64_t>(tag);
    const auto index = static_cast<uint32_t>(bits);
    DT_CHECK_LT(index, slots_.size());
    Slot* const slot = &slots_[index];
    const bool current = slot->generation == (bits >> 32 & kGenerationMask);
    return current && slot->sink != nullptr ? slot : nullptr;
  }

  const uint64_t worker_bits_;
  // The first slot is never given out, so that no tag is 0.
  std::vector<Slot> slots_ = std::vector<Slot>(1);
  std::vector<uint32_t> free_;
};

using ReplyTable = TagTable<ReplySink, protocol::CallTag>;
using CatalogReplyTable = TagTable<CatalogReplySink, catalog::RequestTag>;

}  // namespace duetime::api
