// SPDX-License-Identifier: Apache-2.0
//
// Handlers for streams of subscribers: Admin.ListStreams, Admin.EndStream.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

#include "duetime/v1/subscription.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/call.h"
#include "server/rpc/coroutine.h"
#include "server/rpc/open_streams.h"

namespace duetime::api {

Co<absl::Status> ListStreams(ApiWorker& worker, rpc::Call& call,
                             const v1::ListStreamsRequest& request,
                             v1::ListStreamsResponse* response);
Co<absl::Status> EndStream(ApiWorker& worker, rpc::Call& call, const v1::EndStreamRequest& request,
                           v1::EndStreamResponse* response);

// The page that a request asks for: INVALID_TOPIC, INVALID_PAGE_SIZE, INVALID_PAGE_TOKEN.
struct StreamPage {
  size_t size = 0;
  // The `filter` of the page token.
  std::string token_filter;
  // The last id of the page before.
  std::string after;
};
absl::Status ValidateStreamList(const v1::ListStreamsRequest& request, StreamPage* page);

void FillStream(const rpc::OpenStream& from, v1::SubscriberStream* to);
// Names the last stream of the response as the end of its page.
void SetNextPage(const StreamPage& page, v1::ListStreamsResponse* response);

// NOT_FOUND STREAM_NOT_FOUND.
absl::Status StreamNotFoundError(const std::string& id);

}  // namespace duetime::api
