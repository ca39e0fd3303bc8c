// SPDX-License-Identifier: Apache-2.0
//
// FrameBudget: limits what a peer may make gRPC do with a few bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/strings/string_view.h"

#include "server/base/token_bucket.h"

namespace duetime::rpc {

// Reads the frame headers in the bytes that a client sends on one HTTP/2 connection, and says when
// the connection must be closed. It keeps no bytes and does not check the protocol, which gRPC
// does. The limits are those that gRPC 1.51 lacks:
//
// (1) streams before the client has acknowledged the server's settings, because gRPC's own limit
// begins with the acknowledgement (a stream costs the server 11 KiB); (2) frames that undo or
// delay work: resets (CVE-2023-44487), settings, priorities and continuations of headers; (3) idle
// frames: they carry no call and no message, so neither flow control nor the limit of streams ever
// stops them, and gRPC reads on as long as they come. One thread reads many connections. Until the
// bucket of kind 3 is empty, the others wait: for some milliseconds.
//
// Idle are window updates, pings and their answers, frames of unknown types, headers that open no
// call, and empty or small data, because a peer may send a large message byte by byte. Measured
// with gRPC 1.51: a window update takes 0.07 us, small data 0.2 us, headers 0.6 us. A busy client
// of one connection sends 100,000 window updates in a second, two for each call; so a call gives
// room for some idle frames.
//
// Thread safety: confined to the connection's reader.
class FrameBudget {
 public:
  struct Limits {
    uint64_t early_streams_max = 1'000;
    // Frames of kind 2 in a second. Twice as many may come at once.
    uint64_t cancels_per_second = 1'000;
    // Frames of kind 3 in a second. A quarter may come at once.
    uint64_t idle_per_second = 200'000;
  };

  // The limit that a connection exceeds.
  enum class Excess : uint8_t { kNone, kEarlyStreams, kCancels, kIdle };

  explicit FrameBudget(const Limits& limits) : limits_(limits) {}

  // Takes the next bytes. After an excess the connection must be closed.
  Excess Take(absl::string_view bytes, uint64_t now_us) {
    while (!bytes.empty()) {
      if (skip_ > 0) {
        const auto size = static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
        TakeRequest(bytes.substr(0, size));
        bytes.remove_prefix(size);
        skip_ -= size;
        continue;
      }
      head_[head_size_++] = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (head_size_ < head_.size()) continue;
      head_size_ = 0;
      skip_ = uint64_t{head_[0]} << 16 | uint64_t{head_[1]} << 8 | head_[2];
      const Excess excess = TakeFrame(head_[3], head_[4], now_us);
      if (excess != Excess::kNone) return excess;
    }
    return Excess::kNone;
  }

  // The number of calls whose first message has not arrived completely. The other limits of the
  // server hold for the rest, and a client need not tell the end of a call that the server ended.
  size_t unfinished_requests() const { return unfinished_.size(); }

 private:
  static constexpr uint64_t kPrefaceBytes = 24;
  static constexpr uint64_t kSecondNs = 1'000'000'000;
  // Flow control stops data frames of this size soon enough.
  static constexpr uint64_t kFullDataBytes = 256;
  // Headers that open no call count as so many idle frames.
  static constexpr uint64_t kIdleHeaders = 8;
  // The idle frames for which a call gives room.
  static constexpr uint64_t kIdleOfACall = 4;
  static constexpr uint8_t kData = 0;
  static constexpr uint8_t kHeaders = 1;
  static constexpr uint8_t kPriority = 2;
  static constexpr uint8_t kReset = 3;
  static constexpr uint8_t kSettings = 4;
  static constexpr uint8_t kContinuation = 9;
  static constexpr uint8_t kAck = 1;
  static constexpr uint8_t kEndStream = 1;

  // The beginning of a first message.
  struct Request {
    uint64_t taken = 0;
    uint64_t size = 0;
  };
  static constexpr uint64_t kPrefixBytes = 5;

  // Returns true if the frame opens a call, or is the first one that ends the client's side of a
  // call. gRPC limits the number of both.
  bool OpensOrEnds(uint8_t type, uint8_t flags) {
    // gRPC ignores the reserved bit, and headers of streams with even numbers.
    const uint32_t stream = uint32_t{head_[5]} << 25 >> 1 | uint32_t{head_[6]} << 16 |
                            uint32_t{head_[7]} << 8 | uint32_t{head_[8]};
    data_of_ = type == kData ? stream : 0;
    const bool ends = (flags & kEndStream) != 0;
    if (type == kHeaders && stream % 2 == 1 && stream > newest_stream_) {
      newest_stream_ = stream;
      if (ends) return true;
      ++ends_expected_;
      // gRPC allows no more streams, so the server has ended some of these.
      if (unfinished_.size() >= limits_.early_streams_max) unfinished_.erase(unfinished_.begin());
      unfinished_[stream] = {};
      return true;
    }
    const bool end = ends && (type == kData || type == kHeaders);
    if (end || type == kReset) unfinished_.erase(stream);
    if (!end || ends_expected_ == 0) return false;
    --ends_expected_;
    return true;
  }

  // Takes bytes of a frame. A message is a flag, its size in 4 bytes, and as many bytes. gRPC 1.51
  // refuses frames with padding.
  void TakeRequest(absl::string_view bytes) {
    const auto found = unfinished_.find(data_of_);
    if (found == unfinished_.end()) return;
    Request& request = found->second;
    for (; request.taken < kPrefixBytes && !bytes.empty(); bytes.remove_prefix(1)) {
      if (request.taken++ > 0) request.size = request.size << 8 | static_cast<uint8_t>(bytes[0]);
    }
    request.taken += bytes.size();
    if (request.taken >= kPrefixBytes + request.size) unfinished_.erase(found);
  }

  Excess TakeFrame(uint8_t type, uint8_t flags, uint64_t now_us) {
    const bool opens_or_ends = OpensOrEnds(type, flags);
    if (type == kHeaders && !acked_ && ++early_streams_ > limits_.early_streams_max) {
      return Excess::kEarlyStreams;
    }
    if (type == kSettings && (flags & kAck) != 0) acked_ = true;
    if (type == kReset || type == kSettings || type == kPriority || type == kContinuation) {
      const base::TokenBucket::Size size = {.token = Token(limits_.cancels_per_second),
                                            .capacity = 2 * kSecondNs};
      return cancels_.Take(now_us * 1'000, size, 1) == 1 ? Excess::kNone : Excess::kCancels;
    }
    const base::TokenBucket::Size size = {.token = Token(limits_.idle_per_second),
                                          .capacity = kSecondNs / 4};
    if (opens_or_ends) {
      if (type == kHeaders) idle_.GiveBack(now_us * 1'000, size, kIdleOfACall);
      return Excess::kNone;
    }
    const uint64_t cost = IdleCost(type);
    return idle_.Take(now_us * 1'000, size, cost) == cost ? Excess::kNone : Excess::kIdle;
  }

  // The cost of a frame that neither opens nor ends a call.
  uint64_t IdleCost(uint8_t type) const {
    if (type == kHeaders) return kIdleHeaders;
    return type == kData && skip_ >= kFullDataBytes ? 0 : 1;
  }

  static uint64_t Token(uint64_t per_second) {
    return kSecondNs / std::clamp<uint64_t>(per_second, 1, kSecondNs);
  }

  const Limits limits_;
  // Bytes until the next frame header.
  uint64_t skip_ = kPrefaceBytes;
  std::array<uint8_t, 9> head_{};
  size_t head_size_ = 0;
  uint32_t newest_stream_ = 0;
  uint32_t data_of_ = 0;
  std::map<uint32_t, Request> unfinished_;
  // Calls that were opened, less the frames that ended one.
  uint64_t ends_expected_ = 0;
  bool acked_ = false;
  uint64_t early_streams_ = 0;
  base::TokenBucket cancels_;
  base::TokenBucket idle_;
};

}  // namespace duetime::rpc
