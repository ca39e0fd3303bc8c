// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/catalog_handlers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cpp/random_id.h"
#include "server/api/proto_time.h"
#include "server/gateway/sums.h"

namespace duetime::gateway {
namespace {

// How long ServerInfo waits for a cell.
constexpr uint64_t kInfoWaitMs = 2'000;

// A page of the first cell that answers with OK. Topics, subscriptions and operations are the same
// in all cells, except for a moment after a change. Each item then gets the counts of all cells, by
// a GetRequest. `items`: returns the items of the page. `set_name`: fills in the request for an
// item.
template <typename GetRequest, typename GetResponse, typename Request, typename Response,
          typename Items, typename SetName>
Co<absl::Status> FirstPage(GatewayWorker& worker, const Passed& passed, const Request& request,
                           Response* response, Items items, SetName set_name) {
  absl::Status status;
  for (size_t cell = 0; cell < worker.map().size(); ++cell) {
    status = co_await Ask(worker, passed, cell, request, response);
    if (status.ok()) break;
    if (!absl::IsNotFound(status)) co_return status;
  }
  if (!status.ok()) co_return status;
  for (auto& item : *items(response)) {
    GetRequest get;
    set_name(item, &get);
    GetResponse all;
    status = co_await AskAndAdd(worker, passed, get, &all);
    if (status.ok()) item.Swap(WholeOf(&all));
    // It may have been deleted meanwhile.
    if (!status.ok() && !absl::IsNotFound(status)) co_return status;
  }
  co_return absl::OkStatus();
}

}  // namespace

Co<absl::Status> ListTopics(GatewayWorker& worker, const Passed& passed,
                            v1::ListTopicsRequest& request, v1::ListTopicsResponse* response) {
  co_return co_await FirstPage<v1::GetTopicRequest, v1::GetTopicResponse>(
      worker, passed, request, response, [](auto* page) { return page->mutable_topics(); },
      [](const v1::Topic& topic, auto* get) { get->set_name(topic.name()); });
}

Co<absl::Status> DeleteTopic(GatewayWorker& worker, const Passed& passed,
                             v1::DeleteTopicRequest& request, v1::DeleteTopicResponse* response) {
  v1::GetTopicRequest get;
  get.set_name(request.name());
  const auto seen = co_await AskAll<v1::GetTopicResponse>(worker, passed, get);
  if (absl::Status status = seen.Status(worker.map()); !status.ok()) co_return status;
  v1::ListRecurrencesRequest list;
  list.set_topic(request.name());
  list.set_page_size(1);
  const auto repeats = co_await AskAll<v1::ListRecurrencesResponse>(worker, passed, list);
  if (absl::Status status = repeats.Status(worker.map()); !status.ok()) co_return status;
  // First the cells with messages or recurrences, which refuse or purge: then the others keep the
  // topic and its subscriptions.
  // One operation purges all cells, so that its name leads to all of its parts.
  const bool purge = request.force() &&
                     std::any_of(seen.responses.begin(), seen.responses.end(), [](const auto& one) {
                       return one.topic().counts().pending() > 0;
                     });
  if (purge) {
    v1::StartBulkRequest start;
    start.set_topic(request.name());
    start.set_action(v1::BULK_ACTION_PURGE);
    v1::StartBulkResponse started;
    const absl::Status status = co_await StartBulk(worker, passed, start, &started);
    response->set_operation(started.operation().name());
    co_return status;
  }
  for (const bool full : {true, false}) {
    for (size_t cell = worker.map().size(); cell-- > 0;) {
      if (!seen.statuses[cell].ok()) continue;
      const bool has_some = seen.responses[cell].topic().counts().pending() > 0 ||
                            repeats.responses[cell].recurrences_size() > 0;
      if (has_some != full) continue;
      v1::DeleteTopicResponse deleted;
      const absl::Status status = co_await Ask(worker, passed, cell, request, &deleted);
      if (!status.ok() && !absl::IsNotFound(status)) co_return status;
      if (!deleted.operation().empty()) response->set_operation(deleted.operation());
    }
    if (!response->operation().empty()) break;
  }
  co_return absl::OkStatus();
}

Co<absl::Status> ListSubscriptions(GatewayWorker& worker, const Passed& passed,
                                   v1::ListSubscriptionsRequest& request,
                                   v1::ListSubscriptionsResponse* response) {
  co_return co_await FirstPage<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(
      worker, passed, request, response, [](auto* page) { return page->mutable_subscriptions(); },
      [](const v1::Subscription& subscription, auto* get) {
        get->set_topic(subscription.topic());
        get->set_name(subscription.name());
      });
}

Co<absl::Status> DeleteSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::DeleteSubscriptionRequest& request,
                                    v1::DeleteSubscriptionResponse* response) {
  v1::GetSubscriptionRequest get;
  get.set_topic(request.topic());
  get.set_name(request.name());
  const auto seen = co_await AskAll<v1::GetSubscriptionResponse>(worker, passed, get);
  if (absl::Status status = seen.Status(worker.map()); !status.ok()) co_return status;
  const auto answers = co_await AskAll<v1::DeleteSubscriptionResponse>(worker, passed, request);
  *response = {};
  co_return answers.Status(worker.map());
}

Co<absl::Status> Forecast(GatewayWorker& worker, const Passed& passed, v1::ForecastRequest& request,
                          v1::ForecastResponse* response) {
  if (!request.has_start_time()) {
    api::SetTimestamp(worker.context().clock->Read().wall_ms, request.mutable_start_time());
  }
  co_return co_await AskAndAdd(worker, passed, request, response);
}

Co<absl::Status> StartBulk(GatewayWorker& worker, const Passed& passed,
                           v1::StartBulkRequest& request, v1::StartBulkResponse* response) {
  if (!request.dry_run()) {
    if (request.name().empty()) request.set_name(client::RandomId().Next());
    request.set_starting(true);
  }
  auto requests = RequestsOfCells(worker.map(), request);
  if (!requests.ok()) co_return requests.status();
  if (request.dry_run()) co_return co_await AskAndAdd(worker, passed, *requests, response);
  // Alone in the first cell, whose operations are those of a list. A cell without the topic has
  // nothing to do.
  absl::Status status = co_await Ask(worker, passed, 0, requests->front(), response);
  if (!status.ok() && !absl::IsNotFound(status)) co_return status;
  const auto is_stopped = [](const v1::StartBulkResponse& one) {
    return one.operation().state() == v1::Operation::STATE_STOPPED;
  };
  bool stopped = is_stopped(*response);
  response->Clear();
  // All cells start it, and then each hears that all have it.
  for (const bool starting : {true, false}) {
    if (stopped) break;
    for (v1::StartBulkRequest& one : *requests) one.set_starting(starting);
    auto started = co_await AskAll<v1::StartBulkResponse>(worker, passed, *requests);
    stopped = std::any_of(started.responses.begin(), started.responses.end(), is_stopped);
    response->Clear();
    if (status = AddAnswers(worker, &started, response); !status.ok()) co_return status;
  }
  if (!stopped) co_return absl::OkStatus();
  // A stopped operation must not run in cells that its start did not reach, or that the stop met
  // before the start.
  v1::CancelOperationRequest cancel;
  cancel.set_name(request.name());
  v1::CancelOperationResponse cancelled;
  status = co_await AskAndAdd(worker, passed, cancel, &cancelled);
  if (status.ok()) response->mutable_operation()->Swap(cancelled.mutable_operation());
  co_return status;
}

Co<absl::Status> ListOperations(GatewayWorker& worker, const Passed& passed,
                                v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) {
  co_return co_await FirstPage<v1::GetOperationRequest, v1::GetOperationResponse>(
      worker, passed, request, response, [](auto* page) { return page->mutable_operations(); },
      [](const v1::Operation& operation, auto* get) { get->set_name(operation.name()); });
}

Co<absl::Status> ServerInfo(GatewayWorker& worker, const Passed& passed,
                            v1::ServerInfoRequest& request, v1::ServerInfoResponse* response) {
  const GatewayContext& context = worker.context();
  // It says which cells answer, so it waits for none that hangs.
  Passed soon = passed;
  soon.until_mono_ms = std::min(passed.until_mono_ms, context.clock->Read().mono_ms + kInfoWaitMs);
  const auto answers = co_await AskAll<v1::ServerInfoResponse>(worker, soon, request);
  bool first = true;
  for (size_t i = 0; i < answers.statuses.size(); ++i) {
    v1::GatewayCell* const cell = response->add_gateway_cells();
    cell->set_name(context.map.cell(i).name);
    cell->set_addresses(context.map.cell(i).addresses);
    cell->set_slots(static_cast<int32_t>(context.map.cell(i).slots));
    cell->set_complete(context.complete[i].load());
    if (!answers.statuses[i].ok()) {
      cell->set_error(std::string(answers.statuses[i].message()));
      continue;
    }
    const v1::ServerInfoResponse& info = answers.responses[i];
    cell->set_answers(true);
    cell->set_epoch(info.epoch());
    *cell->mutable_counts() = info.counts();
    *cell->mutable_cell() = info.cell();
    if (std::exchange(first, false)) {
      *response->mutable_limits() = info.limits();
      *response->mutable_counts() = info.counts();
    } else {
      // Each cell counts the same topics and subscriptions.
      const auto topics = response->counts().topics();
      const auto deleted = response->counts().deleted_topics();
      const auto subscriptions = response->counts().subscriptions();
      Add(info.counts(), response->mutable_counts());
      response->mutable_counts()->set_topics(std::max(topics, info.counts().topics()));
      response->mutable_counts()->set_deleted_topics(
          std::max(deleted, info.counts().deleted_topics()));
      response->mutable_counts()->set_subscriptions(
          std::max(subscriptions, info.counts().subscriptions()));
    }
    response->set_disk_low(response->disk_low() || info.disk_low());
  }
  const base::Now now = context.clock->Read();
  response->set_version(context.version);
  response->set_state(context.state.load() == rpc::ServingState::kDraining
                          ? v1::SERVING_STATE_DRAINING
                          : v1::SERVING_STATE_SERVING);
  api::SetTimestamp(context.started.wall_ms, response->mutable_start_time());
  api::SetDuration(now.mono_ms - context.started.mono_ms, response->mutable_uptime());
  api::SetTimestamp(now.wall_ms, response->mutable_server_time());
  response->set_clock_state(v1::CLOCK_STATE_NORMAL);
  co_return absl::OkStatus();
}

}  // namespace duetime::gateway
