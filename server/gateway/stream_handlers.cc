// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/stream_handlers.h"

#include <map>
#include <spdlog/spdlog.h>
#include <string>

#include "absl/status/statusor.h"

#include "server/api/await.h"
#include "server/api/subscriptions/stream_handlers.h"
#include "server/gateway/ask.h"
#include "server/rpc/open_streams.h"

namespace duetime::gateway {
namespace {

// Whether the client may do this on the topic, as a cell answers.
Co<absl::StatusOr<bool>> MayDo(GatewayWorker& worker, const Passed& passed, v1::AccessVerb verb,
                               const std::string& topic) {
  v1::CheckAccessRequest request;
  request.set_verb(verb);
  request.set_topic(topic);
  v1::CheckAccessResponse response;
  const absl::Status status = co_await Ask(worker, passed, worker.NextCell(), request, &response);
  // Without access control, every client may.
  if (absl::IsFailedPrecondition(status)) co_return true;
  if (!status.ok()) co_return status;
  co_return response.allowed();
}

}  // namespace

Co<absl::Status> ListStreams(GatewayWorker& worker, const Passed& passed,
                             v1::ListStreamsRequest& request, v1::ListStreamsResponse* response) {
  api::StreamPage page;
  absl::Status status = api::ValidateStreamList(request, &page);
  if (!status.ok()) co_return status;
  std::map<std::string, bool> allowed;
  bool more = true;
  while (more && response->streams().empty()) {
    const auto found = worker.context().open_streams.List(page.after, request.topic(), page.size);
    more = found.more;
    for (const rpc::OpenStreamPtr& stream : found.streams) {
      page.after = stream->id;
      if (!allowed.contains(stream->topic)) {
        const auto may = co_await MayDo(worker, passed, v1::ACCESS_VERB_READ, stream->topic);
        if (!may.ok()) co_return may.status();
        allowed[stream->topic] = *may;
      }
      if (allowed[stream->topic]) api::FillStream(*stream, response->add_streams());
    }
  }
  if (more) api::SetNextPage(page, response);
  co_return absl::OkStatus();
}

Co<absl::Status> EndStream(GatewayWorker& worker, const Passed& passed,
                           v1::EndStreamRequest& request, v1::EndStreamResponse*) {
  const rpc::OpenStreamPtr stream = worker.context().open_streams.Find(request.id());
  if (stream == nullptr) co_return api::StreamNotFoundError(request.id());
  const auto may = co_await MayDo(worker, passed, v1::ACCESS_VERB_ADMIN, stream->topic);
  if (!may.ok()) co_return may.status();
  if (!*may) co_return api::StreamNotFoundError(request.id());
  // The audit log is that of the cells.
  spdlog::info("EndStream: id={} topic={} peer={}", stream->id, stream->topic, stream->peer);
  co_await api::WaitFor<bool>([&worker, &stream](auto done) {
    rpc::EndStream(stream, [&worker, done] { worker.shell().RunHere([done] { done(true); }); });
  });
  co_return absl::OkStatus();
}

}  // namespace duetime::gateway
