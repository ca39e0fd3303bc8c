// SPDX-License-Identifier: Apache-2.0
//
// SlotBitmap: marks the slots of a level that are in use.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace duetime::wheel {

// 4096 bits with a summary word over them: set, clear and find are a few instructions each,
// however sparse.
//
// Thread safety: the caller locks (in duetime: confined to the engine thread).
class SlotBitmap {
 public:
  static constexpr uint32_t kBits = 4096;
  static constexpr uint32_t kNone = kBits;

  void Set(uint32_t bit) {
    words_[bit / 64] |= uint64_t{1} << (bit % 64);
    summary_ |= uint64_t{1} << (bit / 64);
  }

  void Clear(uint32_t bit) {
    words_[bit / 64] &= ~(uint64_t{1} << (bit % 64));
    if (words_[bit / 64] == 0) summary_ &= ~(uint64_t{1} << (bit / 64));
  }

  bool Test(uint32_t bit) const { return ((words_[bit / 64] >> (bit % 64)) & 1) != 0; }

  bool empty() const { return summary_ == 0; }

  // The first bit that is set at or after `bit`, or kNone.
  uint32_t FindFrom(uint32_t bit) const {
    const uint32_t word = bit / 64;
    const uint64_t rest = words_[word] >> (bit % 64);
    if (rest != 0) return bit + static_cast<uint32_t>(std::countr_zero(rest));
    // Two shifts, because a shift by 64 is undefined.
    const uint64_t later = summary_ >> word >> 1;
    if (later == 0) return kNone;
    const uint32_t next = word + 1 + static_cast<uint32_t>(std::countr_zero(later));
    return next * 64 + static_cast<uint32_t>(std::countr_zero(words_[next]));
  }

  // The first bit that is set after `bit`, or kNone.
  uint32_t FindAfter(uint32_t bit) const { return bit + 1 < kBits ? FindFrom(bit + 1) : kNone; }

  // As FindFrom, but continues at the front after the last bit.
  uint32_t FindAround(uint32_t bit) const {
    const uint32_t found = FindFrom(bit);
    return found == kNone && summary_ != 0 ? FindFrom(0) : found;
  }

 private:
  // Bit w: word w is not 0.
  uint64_t summary_ = 0;
  std::array<uint64_t, kBits / 64> words_{};
};

}  // namespace duetime::wheel
