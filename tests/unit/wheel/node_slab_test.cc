// SPDX-License-Identifier: Apache-2.0
#include "server/wheel/node_slab.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::wheel {
namespace {

struct Node {
  uint64_t value;
  uint32_t next;
};
using Slab = NodeSlab<Node>;

TEST(NodeSlabTest, NodesAreDistinctAndStayWhereTheyAre) {
  Slab slab;
  std::vector<uint32_t> indices;
  std::vector<const Node*> addresses;
  for (uint64_t i = 0; i < 3 * Slab::kChunkNodes; ++i) {
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
  Slab slab;
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 2 * Slab::kChunkNodes; ++i) indices.push_back(slab.Allocate());
  const size_t bytes = slab.bytes();
  for (size_t i = 0; i < indices.size(); i += 2) slab.Free(indices[i]);
  EXPECT_EQ(slab.bytes(), bytes);
  for (size_t i = 0; i < indices.size(); i += 2) slab.Allocate();
  EXPECT_EQ(slab.bytes(), bytes);
  EXPECT_EQ(slab.live(), 2 * Slab::kChunkNodes);
}

TEST(NodeSlabTest, EmptyChunksAreGivenBackButOne) {
  Slab slab;
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 10 * Slab::kChunkNodes; ++i) indices.push_back(slab.Allocate());
  std::shuffle(indices.begin(), indices.end(), std::mt19937(1));
  for (const uint32_t index : indices) slab.Free(index);
  EXPECT_EQ(slab.live(), 0u);
  EXPECT_LT(slab.bytes(), 2 * Slab::kChunkNodes * sizeof(Node));
  EXPECT_FALSE(slab.Contains(indices[0]));
  for (uint32_t i = 0; i < 10 * Slab::kChunkNodes; ++i) slab.Allocate();
  EXPECT_LT(slab.bytes(), 11 * Slab::kChunkNodes * sizeof(Node));
}

TEST(NodeSlabTest, ASizeThatSwingsAboutTheEdgeOfAChunkKeepsItsMemory) {
  Slab slab;
  for (uint32_t i = 0; i < Slab::kChunkNodes; ++i) slab.Allocate();
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
  Slab slab;
  std::vector<uint32_t> used;
  std::set<uint32_t> model;
  for (int i = 0; i < 200'000; ++i) {
    // Fills and empties in waves, so that chunks come and go.
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
  Slab slab;
  EXPECT_FALSE(slab.Contains(0));
  EXPECT_FALSE(slab.Contains(Slab::kNone));
  const uint32_t index = slab.Allocate();
  EXPECT_TRUE(slab.Contains(index));
  EXPECT_FALSE(slab.Contains(index + 1));
  slab.Clear();
  EXPECT_FALSE(slab.Contains(index));
}

TEST(NodeSlabTest, WhatIsReservedIsThereAndStays) {
  Slab slab;
  slab.Reserve(3 * Slab::kChunkNodes - 1);
  const size_t bytes = slab.bytes();
  EXPECT_GE(bytes, 3 * Slab::kChunkNodes * sizeof(Node));
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < 3 * Slab::kChunkNodes; ++i) indices.push_back(slab.Allocate());
    EXPECT_LT(slab.bytes(), bytes + 1'000);
    for (uint32_t i = 0; i < 3 * Slab::kChunkNodes; ++i) indices.push_back(slab.Allocate());
    EXPECT_GT(slab.bytes(), bytes + 1'000);
    for (const uint32_t index : indices) slab.Free(index);
    EXPECT_LT(slab.bytes(), bytes + 1'000);
    EXPECT_GE(slab.bytes(), 3 * Slab::kChunkNodes * sizeof(Node));
    slab.Clear();
    EXPECT_GE(slab.bytes(), 3 * Slab::kChunkNodes * sizeof(Node));
    slab.Reserve(1);
  }
}

TEST(NodeSlabTest, ClearKeepsOneChunk) {
  Slab slab;
  slab.Clear();
  EXPECT_EQ(slab.bytes(), 0u);
  for (uint32_t i = 0; i < 5 * Slab::kChunkNodes; ++i) slab.Allocate();
  for (int round = 0; round < 3; ++round) {
    slab.Clear();
    EXPECT_EQ(slab.live(), 0u);
    EXPECT_LT(slab.bytes(), 2 * Slab::kChunkNodes * sizeof(Node));
    EXPECT_GE(slab.bytes(), Slab::kChunkNodes * sizeof(Node));
    std::set<uint32_t> indices;
    for (uint32_t i = 0; i < 2 * Slab::kChunkNodes; ++i) indices.insert(slab.Allocate());
    EXPECT_EQ(indices.size(), 2 * Slab::kChunkNodes);
    for (const uint32_t index : indices) slab.Free(index);
  }
}

}  // namespace
}  // namespace duetime::wheel
