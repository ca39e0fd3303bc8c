// SPDX-License-Identifier: Apache-2.0
//
// Between gRPC's byte buffers and protobuf messages that are used again and again.
#pragma once

#include <cstddef>
#include <grpcpp/support/byte_buffer.h>
#include <memory>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/rpc/wire_check.h"

namespace duetime::rpc {

inline constexpr size_t kUnknownFieldBytesMax = 1024;

// Parses a request. MALFORMED_REQUEST if the bytes are not such a message, if a string in it is not
// UTF-8, or if it holds too many bytes of unknown fields. The check comes first, so that a refused
// request costs no memory. Does not consume `buffer`.
absl::Status ParseRequest(grpc::ByteBuffer* buffer, google::protobuf::Message* message);

// The part of ParseRequest that comes first; for callers that look at the number of elements before
// they spend memory on them.
absl::Status CheckRequest(grpc::ByteBuffer* buffer, const google::protobuf::Descriptor* type,
                          WireSummary* summary);

// The rest of ParseRequest. REQUIRES: CheckRequest returned OK.
absl::Status ParseChecked(grpc::ByteBuffer* buffer, google::protobuf::Message* message);

// Serializes `message` into `buffer`, which is overwritten.
void SerializeResponse(const google::protobuf::Message& message, grpc::ByteBuffer* buffer);

// A message that is parsed into or filled over and over. Its strings keep their memory, which makes
// parsing two to three times as fast; to keep one run of large messages from pinning memory for
// ever, it starts afresh after every kBytesMax bytes. Thread safety: confined.
template <typename T>
class ReusedMessage {
 public:
  ReusedMessage() : message_(std::make_unique<T>()) {}

  // The message, empty, to carry about `bytes`. Valid until the next Take.
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
  // With a frame of 64 KiB this is a fresh message every few hundred frames: it costs nothing.
  static constexpr size_t kBytesMax = 32 << 20;

  std::unique_ptr<T> message_;
  size_t carried_ = 0;
};

}  // namespace duetime::rpc
