// SPDX-License-Identifier: Apache-2.0
//
// Conversion between gRPC's byte buffers and protobuf messages that are reused.
#pragma once

#include <cstddef>
#include <grpcpp/support/byte_buffer.h>
#include <memory>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/rpc/wire_check.h"

namespace duetime::rpc {

inline constexpr size_t kUnknownFieldBytesMax = 1024;

// Parses a request. MALFORMED_REQUEST if the bytes are not a message of this type, if a string is
// not UTF-8, or if unknown fields have more than kUnknownFieldBytesMax bytes. Checks the bytes
// before it parses them, so that a refused request costs no memory. Does not consume `buffer`.
absl::Status ParseRequest(grpc::ByteBuffer* buffer, google::protobuf::Message* message);

// The first part of ParseRequest, for callers that check the number of elements before they spend
// memory on them.
absl::Status CheckRequest(grpc::ByteBuffer* buffer, const google::protobuf::Descriptor* type,
                          WireSummary* summary);

// The rest of ParseRequest. REQUIRES: CheckRequest returned OK.
absl::Status ParseChecked(grpc::ByteBuffer* buffer, google::protobuf::Message* message);

// Serializes `message` into `buffer`, which is overwritten.
void SerializeResponse(const google::protobuf::Message& message, grpc::ByteBuffer* buffer);

// A reused message. Its strings keep their memory, which makes parsing two to three times as fast.
// After every kBytesMax bytes it starts with fresh memory, so that a few large messages do not pin
// memory for ever. Thread safety: confined.
template <typename T>
class ReusedMessage {
 public:
  ReusedMessage() : message_(std::make_unique<T>()) {}

  // Returns the message, empty, for a content of about `bytes`. Valid until the next Take.
  T* Take(size_t bytes) {
    carried_ += bytes;
    if (carried_ > kBytesMax) {
      message_ = std::make_unique<T>();
      carried_ = bytes;
    } else {
      message_->Clear();
    }
    return message_.get();
  }

 private:
  // With frames of 64 KiB, one message in 512 gets fresh memory, which costs nothing.
  static constexpr size_t kBytesMax = 32 << 20;

  std::unique_ptr<T> message_;
  size_t carried_ = 0;
};

}  // namespace duetime::rpc
