// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/slab_stock.h"

#include <chrono>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <utility>

#include "server/base/check.h"

namespace duetime::runtime {
namespace {

constexpr size_t kBytes = wheel::SlabMemory::kSlabBytes;
// While slabs are taken or given, and for a second after, the thread checks by itself this often,
// because a wake-up would cost an engine up to 20 us. The stock lasts that long at millions of
// messages per second.
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr int kQuietLooks = 200;

void* Map() {
  void* const slab =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  DT_CHECK(slab != MAP_FAILED);
  return slab;
}

void Unmap(void* slab) { DT_CHECK_EQ(munmap(slab, kBytes), 0); }

}  // namespace

SlabStock::~SlabStock() {
  Stop();
  for (void* slab : ready_) Unmap(slab);
}

void SlabStock::Start() {
  DT_CHECK(!thread_.joinable());
  Level();
  thread_ = std::thread([this] { Run(); });
}

void SlabStock::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void* SlabStock::Take() {
  void* slab = nullptr;
  bool wake = false;
  {
    base::MutexLock lock(&mutex_);
    ++moves_;
    if (!ready_.empty()) {
      slab = ready_.back();
      ready_.pop_back();
    }
    wake = Wake();
  }
  if (wake) wake_.NotifyOne();
  return slab != nullptr ? slab : Map();
}

void SlabStock::Give(void* slab) {
  bool wake = false;
  {
    base::MutexLock lock(&mutex_);
    ++moves_;
    ready_.push_back(slab);
    wake = Wake();
  }
  if (wake) wake_.NotifyOne();
}

bool SlabStock::Wake() { return Uneven() && std::exchange(asleep_, false); }

size_t SlabStock::ready() const {
  base::MutexLock lock(&mutex_);
  return ready_.size();
}

bool SlabStock::asleep() const {
  base::MutexLock lock(&mutex_);
  return asleep_;
}

void SlabStock::Run() {
  pthread_setname_np(pthread_self(), "dt-slabs");
  uint64_t seen = 0;
  int quiet_looks = kQuietLooks;
  for (;;) {
    {
      base::MutexLock lock(&mutex_);
      quiet_looks = moves_ == seen ? quiet_looks + 1 : 0;
      seen = moves_;
      if (!stopping_ && quiet_looks < kQuietLooks) wake_.WaitFor(&mutex_, kLookAgain);
      while (!stopping_ && quiet_looks >= kQuietLooks && !Uneven()) {
        asleep_ = true;
        wake_.Wait(&mutex_);
      }
      asleep_ = false;
      if (stopping_) return;
    }
    Level();
  }
}

void SlabStock::Level() {
  for (;;) {
    void* surplus = nullptr;
    {
      base::MutexLock lock(&mutex_);
      if (ready_.size() >= kReadyFull && ready_.size() <= kReadyMax) return;
      if (ready_.size() > kReadyMax) {
        // The least recently used slab.
        surplus = ready_.front();
        ready_.pop_front();
      }
    }
    if (surplus != nullptr) {
      Unmap(surplus);
      continue;
    }
    void* const fresh = Map();
    // Writing makes the system map the pages.
    std::memset(fresh, 0, kBytes);
    base::MutexLock lock(&mutex_);
    ready_.push_back(fresh);
  }
}

}  // namespace duetime::runtime
