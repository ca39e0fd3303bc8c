// SPDX-License-Identifier: Apache-2.0
//
// SortedBlocks: a sorted set of pointers whose versions share their unchanged blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/check.h"

namespace duetime::catalog {

// Keeps values in the order of KeyOf(value), in blocks of at most kBlockMax. Share() returns a
// version that never changes. It copies the list of blocks. A later change copies its block if a
// shared version has that block.
//
// Cost with n values: look-up O(log n); change O(kBlockMax + n / kBlockMax); Share O(n /
// kBlockMax). Thread safety: a shared version is immutable, so any thread may read it.
template <typename Value, typename KeyOf>
class SortedBlocks {
 public:
  static constexpr size_t kBlockMax = 256;

  size_t size() const { return size_; }

  // Null if there is no value with this key.
  template <typename Key>
  const Value* Find(const Key& key) const {
    if (blocks_.empty()) return nullptr;
    const Block& block = *blocks_[BlockOf(key)];
    const auto found = PlaceOf(block, key);
    return found != block.end() && KeyOf()(*found) == key ? &*found : nullptr;
  }

  // Adds the value, or replaces the one with its key.
  void Set(Value value) {
    const auto key = KeyOf()(value);
    if (blocks_.empty()) {
      blocks_.push_back(std::make_shared<Block>());
      own_.push_back(true);
    }
    const size_t index = BlockOf(key);
    Block* const block = Own(index);
    const auto place = PlaceOf(*block, key);
    if (place != block->end() && KeyOf()(*place) == key) {
      *place = std::move(value);
      return;
    }
    block->insert(place, std::move(value));
    ++size_;
    if (block->size() > kBlockMax) Split(index);
  }

  // REQUIRES: there is a value with this key.
  template <typename Key>
  void Erase(const Key& key) {
    DT_CHECK(!blocks_.empty());
    const size_t index = BlockOf(key);
    Block* const block = Own(index);
    const auto place = PlaceOf(*block, key);
    DT_CHECK(place != block->end() && KeyOf()(*place) == key);
    block->erase(place);
    --size_;
    if (!block->empty()) return;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
    own_.erase(own_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // Calls visit(value) for the values with keys at or after `from`, in order, until it returns
  // false.
  template <typename Key, typename Visit>
  void VisitFrom(const Key& from, Visit visit) const {
    if (blocks_.empty()) return;
    size_t index = BlockOf(from);
    const Block& first = *blocks_[index];
    for (auto it = PlaceOf(first, from); it != first.end(); ++it) {
      if (!visit(*it)) return;
    }
    for (++index; index < blocks_.size(); ++index) {
      for (const Value& value : *blocks_[index]) {
        if (!visit(value)) return;
      }
    }
  }

  // Returns a copy that shares all blocks. A later change of this object copies its block first.
  SortedBlocks Share() {
    own_.assign(blocks_.size(), false);
    return *this;
  }

  void CheckInvariants() const {
    DT_CHECK_EQ(blocks_.size(), own_.size());
    size_t size = 0;
    for (const std::shared_ptr<Block>& block : blocks_) {
      DT_CHECK(!block->empty());
      DT_CHECK_LE(block->size(), kBlockMax);
      size += block->size();
    }
    DT_CHECK_EQ(size, size_);
  }

 private:
  using Block = std::vector<Value>;

  // Returns the block that holds, or would hold, a value with this key. REQUIRES: there is a block.
  template <typename Key>
  size_t BlockOf(const Key& key) const {
    DT_CHECK(!blocks_.empty());
    const auto after = std::partition_point(
        blocks_.begin() + 1, blocks_.end(),
        [&](const std::shared_ptr<Block>& block) { return !(key < KeyOf()(block->front())); });
    return static_cast<size_t>(after - blocks_.begin()) - 1;
  }

  template <typename AnyBlock, typename Key>
  static auto PlaceOf(AnyBlock& block, const Key& key) {
    return std::partition_point(block.begin(), block.end(),
                                [&](const Value& value) { return KeyOf()(value) < key; });
  }

  Block* Own(size_t index) {
    if (!own_[index]) {
      blocks_[index] = std::make_shared<Block>(*blocks_[index]);
      own_[index] = true;
    }
    return blocks_[index].get();
  }

  void Split(size_t index) {
    Block* const block = Own(index);
    const auto half = block->begin() + static_cast<std::ptrdiff_t>(block->size() / 2);
    auto upper = std::make_shared<Block>(half, block->end());
    block->erase(half, block->end());
    DT_CHECK(!block->empty() && !upper->empty());
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
    own_.insert(own_.begin() + static_cast<std::ptrdiff_t>(index) + 1, true);
  }

  std::vector<std::shared_ptr<Block>> blocks_;
  // For each block: true if no shared version has it.
  std::vector<bool> own_;
  size_t size_ = 0;
};

}  // namespace duetime::catalog
