// SPDX-License-Identifier: Apache-2.0
//
// RpcBridge: makes any unary call of duetime.v1 from JSON to JSON.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
}

namespace duetime::cli {

// Finds methods and their types among the descriptors that are linked in, so that a new call of the
// protos needs no code here. Does not repeat a call: a person at the page decides. Thread-safe.
class RpcBridge {
 public:
  // With `read_only`, makes the calls that read, and no other.
  RpcBridge(std::shared_ptr<grpc::Channel> channel, absl::Duration deadline, bool read_only)
      : channel_(std::move(channel)), deadline_(deadline), read_only_(read_only) {}

  // Calls `method`, for example "duetime.v1.Messages/Get", with a request in proto3 JSON, and with
  // `token` unless it is empty. Returns the response as JSON with the field names of the proto.
  // Errors are those of the call, and:
  //
  //   UNIMPLEMENTED      METHOD_UNKNOWN, METHOD_STREAMS
  //   INVALID_ARGUMENT   MALFORMED_REQUEST   the text is not the JSON of the request
  //   PERMISSION_DENIED  CONSOLE_READ_ONLY
  absl::StatusOr<std::string> Call(absl::string_view method, const std::string& json,
                                   const std::string& token) const;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const absl::Duration deadline_;
  const bool read_only_;
};

}  // namespace duetime::cli
