// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/stream_handlers.h"

#include "absl/strings/str_cat.h"

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/page_token.h"
#include "server/api/proto_time.h"
#include "server/api/query_validation.h"
#include "server/base/error.h"

namespace duetime::api {
namespace {

// Longer than any id.
constexpr size_t kIdBytesMax = 64;

}  // namespace

absl::Status ValidateStreamList(const v1::ListStreamsRequest& request, StreamPage* page) {
  page->token_filter = absl::StrCat("streams;", request.topic());
  absl::Status status = ValidatePage(request.page_size(), request.page_token(), page->token_filter,
                                     &page->size, &page->after);
  if (status.ok() && !request.topic().empty()) status = ValidateTopic(request.topic(), "topic");
  return status;
}

void FillStream(const rpc::OpenStream& from, v1::SubscriberStream* to) {
  to->set_id(from.id);
  to->set_topic(from.topic);
  to->set_subscription(from.subscription);
  to->set_client_id(from.client_id);
  to->set_peer(from.peer);
  to->set_principal(from.principal);
  to->set_max_outstanding_messages(static_cast<int32_t>(from.messages_max));
  to->set_max_outstanding_bytes(from.bytes_max);
  to->set_in_flight(from.in_flight());
  SetTimestamp(from.start_ms, to->mutable_start_time());
  const uint64_t settled_ms = from.settled_ms.load();
  if (settled_ms > 0) SetTimestamp(settled_ms, to->mutable_last_settle_time());
}

void SetNextPage(const StreamPage& page, v1::ListStreamsResponse* response) {
  const std::string& last = response->streams(response->streams_size() - 1).id();
  response->set_next_page_token(MakePageToken(page.token_filter, {.place = {}, .key = last}));
}

absl::Status StreamNotFoundError(const std::string& id) {
  const std::string shown = id.substr(0, kIdBytesMax);
  return base::MakeError(absl::StatusCode::kNotFound,
                         absl::StrCat("there is no stream ", shown, ", or it has ended"),
                         {.reason = "STREAM_NOT_FOUND",
                          .field = "id",
                          .metadata = {{"id", shown}},
                          .retry_after_ms = 0});
}

Co<absl::Status> ListStreams(ApiWorker& worker, rpc::Call& call,
                             const v1::ListStreamsRequest& request,
                             v1::ListStreamsResponse* response) {
  StreamPage page;
  absl::Status status = ValidateStreamList(request, &page);
  if (!status.ok()) co_return status;
  // The token names the last stream of the page, so it must be one that the client may see.
  bool more = true;
  while (more && response->streams().empty()) {
    const auto found = worker.context().open_streams.List(page.after, request.topic(), page.size);
    more = found.more;
    for (const rpc::OpenStreamPtr& stream : found.streams) {
      page.after = stream->id;
      if (!Allows(call.caller, access::Verb::kRead, stream->topic)) continue;
      FillStream(*stream, response->add_streams());
    }
  }
  if (more) SetNextPage(page, response);
  co_return absl::OkStatus();
}

Co<absl::Status> EndStream(ApiWorker& worker, rpc::Call& call, const v1::EndStreamRequest& request,
                           v1::EndStreamResponse*) {
  const rpc::OpenStreamPtr stream = worker.context().open_streams.Find(request.id());
  // A stream of another client's topic is as unknown as one that has ended.
  if (stream == nullptr || !Allows(call.caller, access::Verb::kAdmin, stream->topic)) {
    co_return StreamNotFoundError(request.id());
  }
  if (call.subject.has_value()) call.subject->topic = stream->topic;
  co_await WaitFor<bool>([&worker, &stream](auto done) {
    rpc::EndStream(stream, [&worker, done] { worker.RunHere([done] { done(true); }); });
  });
  co_return absl::OkStatus();
}

}  // namespace duetime::api
