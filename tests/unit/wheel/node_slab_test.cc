// SPDX-License-Identifier: Apache-2.0
#include "server/wheel/node_slab.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::wheel {
namespace {

using ::testing::IsEmpty;

struct alignas(64) Node {
  uint64_t value;
  uint32_t next;
};
using Slab = NodeSlab<Node>;

// Counts the slabs in use, and checks that no slab is given out twice.
class CountingMemory final : public SlabMemory {
 public:
  ~CountingMemory() override { EXPECT_THAT(out_, IsEmpty()); }
  void* Take() override {
    void* const slab = HeapSlabs::Shared()->Take();
    EXPECT_TRUE(out_.insert(slab).second);
    return slab;
  }
  void Give(void* slab) override {
    ASSERT_EQ(out_.erase(slab), 1u);
    HeapSlabs::Shared()->Give(slab);
  }
  size_t out() const { return out_.size(); }

 private:
  std::set<void*> out_;
};

TEST(NodeSlabTest, NodesAreDistinctAndStayWhereTheyAre) {
  CountingMemory memory;
  Slab slab(&memory);
  std::vector<uint32_t> indices;
  std::vector<const Node*> addresses;
  for (uint64_t i = 0; i < 3 * Slab::kSlabNodes; ++i) {
    indices.push_back(slab.Allocate());
    slab[indices.back()].value = i;
    addresses.push_back(&slab[indices.back()]);
  }
  EXPECT_EQ(std::set<uint32_t>(indices.begin(), indices.end()).size(), indices.size());
  for (uint64_t i = 0; i < indices.size(); ++i) {
    ASSERT_EQ(slab[indices[i]].value, i);
    ASSERT_EQ(&slab[indices[i]], addresses[i]);
  }
  EXPECT_EQ(slab.live(), indices.size());
}

TEST(NodeSlabTest, FreedNodesAreUsedAgainBeforeMemoryGrows) {
  CountingMemory memory;
  Slab slab(&memory);
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 2 * Slab::kSlabNodes; ++i) indices.push_back(slab.Allocate());
  const size_t bytes = slab.bytes();
  for (size_t i = 0; i < indices.size(); i += 2) slab.Free(indices[i]);
  EXPECT_EQ(slab.bytes(), bytes);
  for (size_t i = 0; i < indices.size(); i += 2) slab.Allocate();
  EXPECT_EQ(slab.bytes(), bytes);
  EXPECT_EQ(slab.live(), 2 * Slab::kSlabNodes);
}

TEST(NodeSlabTest, EmptySlabsAreGivenBackButOne) {
  CountingMemory memory;
  Slab slab(&memory);
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 10 * Slab::kSlabNodes; ++i) indices.push_back(slab.Allocate());
  std::shuffle(indices.begin(), indices.end(), std::mt19937(1));
  for (const uint32_t index : indices) slab.Free(index);
  EXPECT_EQ(slab.live(), 0u);
  EXPECT_EQ(memory.out(), 1u);
  EXPECT_LT(slab.bytes(), 2 * Slab::kSlabNodes * sizeof(Node));
  EXPECT_FALSE(slab.Contains(indices[0]));
  for (uint32_t i = 0; i < 10 * Slab::kSlabNodes; ++i) slab.Allocate();
  EXPECT_LT(slab.bytes(), 11 * Slab::kSlabNodes * sizeof(Node));
}

TEST(NodeSlabTest, ASizeThatSwingsAboutTheEdgeOfASlabKeepsItsMemory) {
  CountingMemory memory;
  Slab slab(&memory);
  for (uint32_t i = 0; i < Slab::kSlabNodes; ++i) slab.Allocate();
  uint32_t over = slab.Allocate();
  const size_t bytes = slab.bytes();
  for (int i = 0; i < 100; ++i) {
    slab.Free(over);
    ASSERT_EQ(slab.bytes(), bytes);
    over = slab.Allocate();
    ASSERT_EQ(slab.bytes(), bytes);
  }
}

TEST(NodeSlabTest, RandomUseAgreesWithASet) {
  std::mt19937 random(7);
  CountingMemory memory;
  Slab slab(&memory);
  std::vector<uint32_t> used;
  std::set<uint32_t> model;
  for (int i = 0; i < 200'000; ++i) {
    // Fills and empties in waves, so that slabs come and go.
    const bool grow = random() % 100 < ((i / 20'000) % 2 == 0 ? 80u : 20u);
    if (grow || used.empty()) {
      used.push_back(slab.Allocate());
      slab[used.back()].value = used.back();
      ASSERT_TRUE(model.insert(used.back()).second);
    } else {
      std::swap(used[random() % used.size()], used.back());
      ASSERT_EQ(slab[used.back()].value, used.back());
      slab.Free(used.back());
      model.erase(used.back());
      used.pop_back();
    }
    ASSERT_EQ(slab.live(), model.size());
  }
  for (const uint32_t index : used) ASSERT_TRUE(slab.Contains(index));
}

TEST(NodeSlabTest, ContainsMayBeAskedAnything) {
  CountingMemory memory;
  Slab slab(&memory);
  EXPECT_FALSE(slab.Contains(0));
  EXPECT_FALSE(slab.Contains(Slab::kNone));
  const uint32_t index = slab.Allocate();
  EXPECT_TRUE(slab.Contains(index));
  EXPECT_FALSE(slab.Contains(index + 1));
  slab.Clear();
  EXPECT_FALSE(slab.Contains(index));
}

TEST(NodeSlabTest, ClearKeepsOneSlab) {
  CountingMemory memory;
  Slab slab(&memory);
  slab.Clear();
  EXPECT_LT(slab.bytes(), Slab::kSlabNodes * sizeof(Node));
  EXPECT_EQ(memory.out(), 0u);
  for (uint32_t i = 0; i < 5 * Slab::kSlabNodes; ++i) slab.Allocate();
  for (int round = 0; round < 3; ++round) {
    slab.Clear();
    EXPECT_EQ(slab.live(), 0u);
    EXPECT_EQ(memory.out(), 1u);
    EXPECT_LT(slab.bytes(), 2 * Slab::kSlabNodes * sizeof(Node));
    EXPECT_GE(slab.bytes(), Slab::kSlabNodes * sizeof(Node));
    std::set<uint32_t> indices;
    for (uint32_t i = 0; i < 2 * Slab::kSlabNodes; ++i) indices.insert(slab.Allocate());
    EXPECT_EQ(indices.size(), 2 * Slab::kSlabNodes);
    for (const uint32_t index : indices) slab.Free(index);
  }
}

}  // namespace
}  // namespace duetime::wheel
