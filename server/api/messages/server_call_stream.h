// SPDX-License-Identifier: Apache-2.0
//
// ServerCallStream: a CallStream of a server, which checks the rights of the client.
#pragma once

#include "server/api/access/stream_caller.h"
#include "server/api/api_worker.h"
#include "server/api/call_stream.h"

namespace duetime::api {

// Thread safety: confined to the worker's thread.
class ServerCallStream final : public CallStream {
 public:
  ServerCallStream(ApiWorker* api, rpc::CqWorker* worker);

 private:
  absl::Status Open() override;
  access::CallerPtr Caller() override { return caller_.caller(); }
  absl::Status Recheck(base::Now now) override { return caller_.Recheck(now); }
  absl::Status Serving() override;
  size_t streams_max() const override { return context_->options.streams_max; }
  void OnRefused(const absl::Status& status) override;

  ServingContext* const context_;
  StreamCaller caller_;
};

}  // namespace duetime::api
