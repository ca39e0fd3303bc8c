// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/slab_stock.h"

#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "server/runtime/system_clock.h"
#include "server/wheel/timing_wheel.h"

namespace duetime::runtime {
namespace {

constexpr size_t kPageBytes = 4096;

// The number of the slab's pages that are in memory.
size_t ResidentPages(void* slab) {
  std::vector<unsigned char> pages(SlabStock::kSlabBytes / kPageBytes);
  EXPECT_EQ(mincore(slab, SlabStock::kSlabBytes, pages.data()), 0);
  size_t resident = 0;
  for (const unsigned char page : pages) resident += page & 1u;
  return resident;
}

bool IsMapped(void* slab) {
  std::vector<unsigned char> pages(SlabStock::kSlabBytes / kPageBytes);
  return mincore(slab, SlabStock::kSlabBytes, pages.data()) == 0;
}

// Waits for the condition. Returns false after ten seconds.
template <typename Condition>
bool Becomes(const SlabStock& stock, Condition condition) {
  SystemClock clock;
  const uint64_t end_mono_ms = clock.Read().mono_ms + 10'000;
  while (!condition(stock)) {
    if (clock.Read().mono_ms > end_mono_ms) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(SlabStockTest, ReadySlabsAreMapped) {
  SlabStock stock;
  stock.Start();
  EXPECT_EQ(stock.ready(), SlabStock::kReadyFull);
  void* const slab = stock.Take();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slab) % SlabStock::kAlignment, 0u);
  EXPECT_EQ(ResidentPages(slab), SlabStock::kSlabBytes / kPageBytes);
  stock.Give(slab);
}

TEST(SlabStockTest, WithoutTheThreadSlabsComeUntouched) {
  SlabStock stock;
  void* const slab = stock.Take();
  EXPECT_EQ(ResidentPages(slab), 0u);
  stock.Give(slab);
  EXPECT_EQ(stock.Take(), slab);
  stock.Give(slab);
}

TEST(SlabStockTest, TheThreadMakesMoreWhenFewAreLeft) {
  SlabStock stock;
  stock.Start();
  std::set<void*> taken;
  for (int round = 0; round < 20; ++round) {
    // At times takes more slabs than are ready.
    for (size_t i = 0; i < 1 + static_cast<size_t>(round) % 6; ++i) {
      void* const slab = stock.Take();
      EXPECT_TRUE(taken.insert(slab).second);
      std::memset(slab, round, SlabStock::kSlabBytes);
    }
    ASSERT_TRUE(Becomes(stock, [](const SlabStock& s) { return s.ready() >= s.kReadyLow; }));
  }
  for (void* slab : taken) stock.Give(slab);
}

TEST(SlabStockTest, TheThreadIsWokenWhenItSleeps) {
  SlabStock stock;
  stock.Start();
  ASSERT_TRUE(Becomes(stock, [](const SlabStock& s) { return s.asleep(); }));
  std::vector<void*> taken;
  for (size_t i = 0; i < SlabStock::kReadyFull; ++i) taken.push_back(stock.Take());
  EXPECT_TRUE(Becomes(stock, [](const SlabStock& s) { return s.ready() == s.kReadyFull; }));
  for (void* slab : taken) stock.Give(slab);
}

TEST(SlabStockTest, ReturnedSlabsGoToTheSystemExceptAFew) {
  SlabStock stock;
  stock.Start();
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> taken;
    for (size_t i = 0; i < 100; ++i) taken.push_back(stock.Take());
    for (void* slab : taken) stock.Give(slab);
    ASSERT_TRUE(Becomes(stock, [](const SlabStock& s) { return s.ready() <= s.kReadyMax; }));
    size_t mapped = 0;
    for (void* slab : taken) mapped += IsMapped(slab) ? 1u : 0u;
    // The stock's thread may be allocating one more slab.
    EXPECT_LE(mapped, SlabStock::kReadyMax + 1);
  }
}

TEST(SlabStockTest, AWheelTakesItsMemoryFromItAndGivesItBack) {
  SlabStock stock;
  stock.Start();
  {
    wheel::TimingWheel<uint64_t> wheel(0, &stock);
    for (uint64_t i = 0; i < 100'000; ++i) wheel.Add(1 + i % 5'000, i);
    std::vector<wheel::TimingWheel<uint64_t>::Expired> out;
    while (!wheel.Advance(5'000, 1'000, &out)) continue;
    EXPECT_EQ(out.size(), 100'000u);
    EXPECT_LE(wheel.bytes(), 2u << 20);
  }
  stock.Stop();
  stock.Stop();
  EXPECT_GE(stock.ready(), SlabStock::kReadyLow);
}

}  // namespace
}  // namespace duetime::runtime
