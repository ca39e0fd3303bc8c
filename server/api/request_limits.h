// SPDX-License-Identifier: Apache-2.0
//
// RequestLimits: the knobs for the size of requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace duetime::api {

struct RequestLimits {
  // The longest time from now to a deliver_time.
  uint64_t horizon_ms = uint64_t{3650} * 24 * 3'600'000;
  size_t payload_bytes_max = 1 << 20;
  size_t attributes_max = 64;
  // Bytes of the keys and values of all attributes of a message.
  size_t attributes_bytes_max = 16 << 10;
  size_t labels_max = 16;
  size_t batch_messages_max = 10'000;
  size_t batch_bytes_max = 16 << 20;
  // Calls of a CallStream without an answer.
  size_t call_stream_calls_max = 4'096;
  // Unsettled messages of one subscriber.
  size_t outstanding_messages_max = 100'000;

  // The most that a request holds, without its few other fields.
  size_t message_bytes_max() const {
    return std::max(batch_bytes_max, payload_bytes_max + attributes_bytes_max);
  }
};

// The limits of stored settings. They were within the knobs when a client gave them, and the knobs
// may be lower now.
inline RequestLimits LimitsOfStored() {
  constexpr auto kNone = std::numeric_limits<uint64_t>::max();
  return {.horizon_ms = kNone, .payload_bytes_max = kNone};
}

}  // namespace duetime::api
