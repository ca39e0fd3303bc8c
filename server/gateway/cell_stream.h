// SPDX-License-Identifier: Apache-2.0
//
// CellStream: one Subscribe stream of a gateway to a cell.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

#include "duetime/v1/subscribe.pb.h"
#include "server/gateway/cell_call.h"

namespace duetime::gateway {

class GatewayWorker;

// The owner of a CellStream. Each function may destroy the stream.
class CellStreamOwner {
 public:
  // The stream has a response; ids and tokens have the name of the cell. Call ReadOn() for more.
  virtual void OnResponse(size_t cell, v1::SubscribeResponse* response) = 0;
  // The stream has ended. No other function follows.
  virtual void OnStreamEnd(size_t cell, const absl::Status& status) = 0;

 protected:
  ~CellStreamOwner() = default;
};

// The destructor cancels the stream. Thread safety: confined to the worker's thread.
class CellStream {
 public:
  // Begins the stream, as soon as a member of the cell leads.
  CellStream(CellStreamOwner* owner, GatewayWorker* worker, size_t cell, const Passed& passed,
             const v1::SubscribeStart& start);
  ~CellStream();
  CellStream(const CellStream&) = delete;
  CellStream& operator=(const CellStream&) = delete;

  // Sends the request when the former ones are sent, together with others that wait.
  void Send(const v1::SubscribeRequest& request);
  // Half-closes the stream when all requests are sent.
  void HalfClose();
  // Reads the next response. It is read at once, or when the stream has begun.
  void ReadOn();

 private:
  class Call;

  // Owns itself. Null once it has ended.
  Call* call_;
};

}  // namespace duetime::gateway
