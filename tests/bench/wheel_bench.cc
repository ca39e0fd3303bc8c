// SPDX-License-Identifier: Apache-2.0
//
// Compares the timing wheel with Debian's packaged libraries in one run. Run it on a quiet machine:
//
//   wheel_bench --benchmark_min_time=0 --benchmark_repetitions=3
//   --benchmark_report_aggregates_only=true
//
// Each benchmark runs one whole workload and reports its own figures:
//   add_ns, expire_ns, cancel_ns, event_ns   thread CPU time per timer; expire_ns includes the
//                                            cascades and the empty ticks of the hour
//   bytes      allocated bytes per timer after all timers are added
//   worst_us   the longest single call of Advance with a budget of 1024. Several rounds make the
//              same calls; each call counts with its shortest time, which leaves noise out
// A warm-up round with fresh memory runs before the measured round.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <malloc.h>
#include <numeric>
#include <random>
#include <time.h>
#include <vector>

#include "benchmark/benchmark.h"

#include "tests/bench/wheel_peers.h"

namespace duetime::bench {
namespace {

constexpr uint64_t kHour = 3'600'000;

double CpuNanos() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Wall time in nanoseconds. Avoids this program's own clock_gettime, which makes a system call.
double WallNanos() {
#ifdef __x86_64__
  static const double ns_per_count = [] {
    const double begin = CpuNanos();
    const uint64_t count = __builtin_ia32_rdtsc();
    while (CpuNanos() - begin < 2e7) continue;
    return (CpuNanos() - begin) / static_cast<double>(__builtin_ia32_rdtsc() - count);
  }();
  return static_cast<double>(__builtin_ia32_rdtsc()) * ns_per_count;
#else
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

double AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Makes the allocator keep freed memory, so that the second round finds warm memory.
void KeepMemory() {
  // The highest value that mallopt accepts; it ignores a higher one.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
}

// Delays of `count` timers: uniform in [from, from + span).
std::vector<uint32_t> Delays(size_t count, uint64_t from, uint64_t span) {
  std::mt19937_64 random(1);
  std::vector<uint32_t> delays(count);
  for (uint32_t& delay : delays) delay = static_cast<uint32_t>(from + random() % span);
  return delays;
}

// Adds all timers, then advances time until the last one has fired.
template <typename Peer>
void AddAndExpire(benchmark::State& state, uint64_t from, uint64_t span) {
  KeepMemory();
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> delays = Delays(count, from, span);
  const uint64_t length = (from + span) / Peer::kStep * Peer::kStep + Peer::kStep;
  for (auto _ : state) {
    const double before = AllocatedBytes();
    Peer peer(count);
    double add_ns = 0;
    double expire_ns = 0;
    double bytes = 0;
    for (int round = 0; round < 2; ++round) {
      const uint64_t start = kStart + static_cast<uint64_t>(round) * length;
      const double begin = CpuNanos();
      for (size_t i = 0; i < count; ++i) peer.Add(start + delays[i], i);
      const double added = CpuNanos();
      bytes = AllocatedBytes() - before;
      size_t fired = 0;
      for (uint64_t t = Peer::kStep; t <= length; t += Peer::kStep) {
        peer.Advance(start + t, [&fired](uint64_t) { ++fired; });
      }
      if (fired != count) state.SkipWithError("timers are missing");
      add_ns = added - begin;
      expire_ns = CpuNanos() - added;
    }
    const auto timers = static_cast<double>(count);
    state.counters["add_ns"] = add_ns / timers;
    state.counters["expire_ns"] = expire_ns / timers;
    state.counters["bytes"] = bytes / timers;
  }
}

template <typename Peer>
void Hour(benchmark::State& state) {
  AddAndExpire<Peer>(state, 1, kHour);
}

// The second lies ten seconds ahead, so that the timers cascade through slots.
template <typename Peer>
void BurstSecond(benchmark::State& state) {
  AddAndExpire<Peer>(state, 10'000, 1'000);
}

template <typename Peer>
void BurstMillisecond(benchmark::State& state) {
  AddAndExpire<Peer>(state, 10'000, 1);
}

// Steady state: each timer that fires is added again.
template <typename Peer>
void Hold(benchmark::State& state) {
  KeepMemory();
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> delays = Delays(count, 1, kHour);
  for (auto _ : state) {
    Peer peer(count);
    for (size_t i = 0; i < count; ++i) peer.Add(kStart + delays[i], i);
    size_t events = 0;
    size_t next = 0;
    double begin = 0;
    for (uint64_t t = Peer::kStep; t <= kHour; t += Peer::kStep) {
      if (t == kHour / 4 / Peer::kStep * Peer::kStep) {
        begin = CpuNanos();
        events = 0;
      }
      peer.Advance(kStart + t, [&](uint64_t number) {
        ++events;
        peer.Add(kStart + t + delays[next], number);
        if (++next == count) next = 0;
      });
    }
    state.counters["event_ns"] = (CpuNanos() - begin) / static_cast<double>(events);
  }
}

template <typename Peer>
void Cancel(benchmark::State& state) {
  KeepMemory();
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> delays = Delays(count, 1, kHour);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  for (auto _ : state) {
    Peer peer(count);
    double cancel_ns = 0;
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < count; ++i) peer.Add(kStart + delays[i], i);
      const double begin = CpuNanos();
      for (const uint32_t number : order) peer.Cancel(number);
      cancel_ns = CpuNanos() - begin;
    }
    state.counters["cancel_ns"] = cancel_ns / static_cast<double>(count);
  }
}

// Measures the longest call of Advance.
template <typename Peer>
void Worst(benchmark::State& state, uint64_t from, uint64_t span) {
  KeepMemory();
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> delays = Delays(count, from, span);
  constexpr int kRounds = 6;
  for (auto _ : state) {
    std::vector<float> least;
    // A multiple of the span of every slot up to 99 days, so that all rounds make the same moves.
    constexpr uint64_t kLength = uint64_t{1} << 29;
    Peer peer(count);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t start = ((kStart >> 29) + 1 + static_cast<uint64_t>(round)) * kLength;
      peer.Advance(start, [](uint64_t) {});
      for (size_t i = 0; i < count; ++i) peer.Add(start + delays[i], i);
      size_t call = 0;
      for (uint64_t t = 1; t <= from + span; ++t) {
        for (bool done = false; !done; ++call) {
          const double begin = WallNanos();
          done = peer.AdvanceOnce(start + t, [](uint64_t) {});
          const auto took = static_cast<float>(WallNanos() - begin);
          if (call == least.size()) least.push_back(took);
          // The first round warms the memory, so the second round overwrites its times.
          least[call] = round <= 1 ? took : std::min(least[call], took);
        }
      }
    }
    std::sort(least.begin(), least.end());
    state.counters["worst_us"] = static_cast<double>(least.back()) / 1e3;
    state.counters["p9999_us"] =
        static_cast<double>(least[least.size() - 1 - least.size() / 10'000]) / 1e3;
  }
}

template <typename Peer>
void WorstHour(benchmark::State& state) {
  Worst<Peer>(state, 1, kHour);
}
template <typename Peer>
void WorstSecond(benchmark::State& state) {
  Worst<Peer>(state, 10'000, 1'000);
}
template <typename Peer>
void WorstMillisecond(benchmark::State& state) {
  Worst<Peer>(state, 10'000, 1);
}

// Measures a tick of an empty structure, and the cost of one timer that is an hour away.
template <typename Peer>
void Idle(benchmark::State& state) {
  constexpr uint64_t kTicks = 100'000'000;
  for (auto _ : state) {
    Peer peer(1);
    const double begin = CpuNanos();
    for (uint64_t t = 1; t <= kTicks; ++t) {
      peer.Advance(kStart + t, [](uint64_t) {});
      // Without this the compiler sees that the structure is empty and drops the loop.
      benchmark::DoNotOptimize(&peer);
      benchmark::ClobberMemory();
    }
    state.counters["tick_ns"] = (CpuNanos() - begin) / static_cast<double>(kTicks);
    peer.Add(kStart + kTicks + kHour, 0);
    bool fired = false;
    double wake_ups = 0;
    for (; !fired; ++wake_ups) {
      peer.Advance(peer.NextDue(), [&fired](uint64_t) { fired = true; });
    }
    state.counters["wake_ups"] = wake_ups;
  }
}

template <typename Peer>
void NextDue(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> delays = Delays(count, 1, kHour);
  Peer peer(count);
  for (size_t i = 0; i < count; ++i) peer.Add(kStart + delays[i], i);
  for (auto _ : state) benchmark::DoNotOptimize(peer.NextDue());
}

using Wheel16 = WheelPeer<Entry16>;
using Wheel24 = WheelPeer<Entry24>;

#define DUETIME_RUN(workload, peer) BENCHMARK(workload<peer>)->Iterations(1)
#define DUETIME_HOUR(peer) DUETIME_RUN(Hour, peer)->Arg(100'000)->Arg(1'000'000)->Arg(10'000'000)
#define DUETIME_PEER(peer)                        \
  DUETIME_RUN(Hold, peer)->Arg(1'000'000);        \
  DUETIME_RUN(BurstSecond, peer)->Arg(1'000'000); \
  DUETIME_RUN(BurstMillisecond, peer)->Arg(1'000'000)
#define DUETIME_CANCELS(peer) DUETIME_RUN(Cancel, peer)->Arg(100'000)->Arg(1'000'000)

DUETIME_HOUR(Wheel16);
DUETIME_PEER(Wheel16);
DUETIME_RUN(Hold, Wheel16)->Arg(10'000'000);
DUETIME_HOUR(Wheel24);
DUETIME_PEER(Wheel24);
DUETIME_HOUR(CancellablePeer);
DUETIME_PEER(CancellablePeer);
DUETIME_CANCELS(CancellablePeer);
DUETIME_RUN(WorstHour, Wheel16)->Arg(100'000)->Arg(1'000'000)->Arg(10'000'000);
DUETIME_RUN(WorstSecond, Wheel16)->Arg(1'000'000);
DUETIME_RUN(WorstMillisecond, Wheel16)->Arg(1'000'000)->Arg(10'000'000);
DUETIME_RUN(WorstHour, Wheel24)->Arg(1'000'000);
DUETIME_RUN(WorstMillisecond, Wheel24)->Arg(1'000'000);
DUETIME_RUN(Idle, Wheel16);
DUETIME_RUN(Idle, PriorityQueuePeer);
BENCHMARK(NextDue<Wheel16>)->Arg(1'000'000);
BENCHMARK(NextDue<PriorityQueuePeer>)->Arg(1'000'000);

DUETIME_HOUR(PriorityQueuePeer);
DUETIME_PEER(PriorityQueuePeer);
DUETIME_HOUR(BtreePeer);
DUETIME_PEER(BtreePeer);
DUETIME_CANCELS(BtreePeer);
DUETIME_RUN(Hour, MultimapPeer)->Arg(100'000)->Arg(1'000'000);
DUETIME_PEER(MultimapPeer);
DUETIME_CANCELS(MultimapPeer);

#ifdef DUETIME_BENCH_LOOPS
#define DUETIME_LOOP(peer)                               \
  DUETIME_RUN(Hour, peer)->Arg(100'000)->Arg(1'000'000); \
  DUETIME_PEER(peer);                                    \
  DUETIME_CANCELS(peer)
DUETIME_LOOP(LibeventPeer);
DUETIME_LOOP(LibevPeer);
DUETIME_LOOP(LibuvPeer);
DUETIME_LOOP(AsioPeer);
#endif

}  // namespace
}  // namespace duetime::bench

BENCHMARK_MAIN();
