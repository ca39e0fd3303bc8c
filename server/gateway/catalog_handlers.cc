// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/catalog_handlers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cpp/random_id.h"
#include "server/api/proto_time.h"
#include "server/gateway/sums.h"

namespace duetime::gateway {
namespace {

// Sends a request to all cells. The response is the first cell's, with the rest of them added.
// `part`: the function of the response that gives what is added.
template <typename Response, typename Request, typename Part>
Co<absl::Status> AskAndAdd(GatewayWorker& worker, const Passed& passed, const Request& request,
                           Response* response, Part part) {
  const Answers<Response> answers = co_await AskAll<Response>(worker, passed, request);
  if (absl::Status status = answers.Status(worker.map()); !status.ok()) co_return status;
  bool first = true;
  for (const Response* good : answers.good()) {
    if (first) {
      *response = *good;
    } else {
      Add(*part(const_cast<Response*>(good)), part(response));
    }
    first = false;
  }
  co_return absl::OkStatus();
}

template <typename Response>
v1::Topic* TopicOf(Response* response) {
  return response->mutable_topic();
}
template <typename Response>
v1::Subscription* SubscriptionOf(Response* response) {
  return response->mutable_subscription();
}
template <typename Response>
v1::Operation* OperationOf(Response* response) {
  return response->mutable_operation();
}

// A page of the first cell that answers with OK, with the counts of the others. Topics,
// subscriptions and operations are the same in all cells, but for moments.
template <typename Request, typename Response, typename AddOthers>
Co<absl::Status> FirstPage(GatewayWorker& worker, const Passed& passed, const Request& request,
                           Response* response, AddOthers add) {
  absl::Status status;
  for (size_t cell = 0; cell < worker.map().size(); ++cell) {
    status = co_await Ask(worker, passed, cell, request, response);
    if (status.ok()) break;
    if (!absl::IsNotFound(status)) co_return status;
  }
  if (status.ok()) status = co_await add();
  co_return status;
}

}  // namespace

Co<absl::Status> CreateTopic(GatewayWorker& worker, const Passed& passed,
                             v1::CreateTopicRequest& request, v1::CreateTopicResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response, TopicOf<v1::CreateTopicResponse>);
}

Co<absl::Status> GetTopic(GatewayWorker& worker, const Passed& passed, v1::GetTopicRequest& request,
                          v1::GetTopicResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response, TopicOf<v1::GetTopicResponse>);
}

Co<absl::Status> ListTopics(GatewayWorker& worker, const Passed& passed,
                            v1::ListTopicsRequest& request, v1::ListTopicsResponse* response) {
  const auto count = [&]() -> Co<absl::Status> {
    for (v1::Topic& topic : *response->mutable_topics()) {
      v1::GetTopicRequest get;
      get.set_name(topic.name());
      v1::GetTopicResponse all;
      const absl::Status status = co_await GetTopic(worker, passed, get, &all);
      if (status.ok()) topic = all.topic();
      if (!status.ok() && !absl::IsNotFound(status)) co_return status;
    }
    co_return absl::OkStatus();
  };
  co_return co_await FirstPage(worker, passed, request, response, count);
}

Co<absl::Status> UpdateTopic(GatewayWorker& worker, const Passed& passed,
                             v1::UpdateTopicRequest& request, v1::UpdateTopicResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response, TopicOf<v1::UpdateTopicResponse>);
}

Co<absl::Status> PauseTopic(GatewayWorker& worker, const Passed& passed,
                            v1::PauseTopicRequest& request, v1::PauseTopicResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response, TopicOf<v1::PauseTopicResponse>);
}

Co<absl::Status> ResumeTopic(GatewayWorker& worker, const Passed& passed,
                             v1::ResumeTopicRequest& request, v1::ResumeTopicResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response, TopicOf<v1::ResumeTopicResponse>);
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

Co<absl::Status> CreateSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::CreateSubscriptionRequest& request,
                                    v1::CreateSubscriptionResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response,
                               SubscriptionOf<v1::CreateSubscriptionResponse>);
}

Co<absl::Status> GetSubscription(GatewayWorker& worker, const Passed& passed,
                                 v1::GetSubscriptionRequest& request,
                                 v1::GetSubscriptionResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response,
                               SubscriptionOf<v1::GetSubscriptionResponse>);
}

Co<absl::Status> ListSubscriptions(GatewayWorker& worker, const Passed& passed,
                                   v1::ListSubscriptionsRequest& request,
                                   v1::ListSubscriptionsResponse* response) {
  const auto count = [&]() -> Co<absl::Status> {
    for (v1::Subscription& subscription : *response->mutable_subscriptions()) {
      v1::GetSubscriptionRequest get;
      get.set_topic(subscription.topic());
      get.set_name(subscription.name());
      v1::GetSubscriptionResponse all;
      const absl::Status status = co_await GetSubscription(worker, passed, get, &all);
      if (status.ok()) subscription = all.subscription();
      if (!status.ok() && !absl::IsNotFound(status)) co_return status;
    }
    co_return absl::OkStatus();
  };
  co_return co_await FirstPage(worker, passed, request, response, count);
}

Co<absl::Status> UpdateSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::UpdateSubscriptionRequest& request,
                                    v1::UpdateSubscriptionResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response,
                               SubscriptionOf<v1::UpdateSubscriptionResponse>);
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
  co_return co_await AskAndAdd(worker, passed, request, response,
                               [](v1::ForecastResponse* answer) { return answer; });
}

Co<absl::Status> StartBulk(GatewayWorker& worker, const Passed& passed,
                           v1::StartBulkRequest& request, v1::StartBulkResponse* response) {
  if (request.name().empty() && !request.dry_run()) request.set_name(client::RandomId().Next());
  co_return co_await AskAndAdd(worker, passed, request, response,
                               OperationOf<v1::StartBulkResponse>);
}

Co<absl::Status> GetOperation(GatewayWorker& worker, const Passed& passed,
                              v1::GetOperationRequest& request,
                              v1::GetOperationResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response,
                               OperationOf<v1::GetOperationResponse>);
}

Co<absl::Status> ListOperations(GatewayWorker& worker, const Passed& passed,
                                v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) {
  const auto count = [&]() -> Co<absl::Status> {
    for (v1::Operation& operation : *response->mutable_operations()) {
      v1::GetOperationRequest get;
      get.set_name(operation.name());
      v1::GetOperationResponse all;
      const absl::Status status = co_await GetOperation(worker, passed, get, &all);
      if (status.ok()) operation = all.operation();
      if (!status.ok() && !absl::IsNotFound(status)) co_return status;
    }
    co_return absl::OkStatus();
  };
  co_return co_await FirstPage(worker, passed, request, response, count);
}

Co<absl::Status> CancelOperation(GatewayWorker& worker, const Passed& passed,
                                 v1::CancelOperationRequest& request,
                                 v1::CancelOperationResponse* response) {
  co_return co_await AskAndAdd(worker, passed, request, response,
                               OperationOf<v1::CancelOperationResponse>);
}

Co<absl::Status> CheckAccess(GatewayWorker& worker, const Passed& passed,
                             v1::CheckAccessRequest& request, v1::CheckAccessResponse* response) {
  co_return co_await Ask(worker, passed, worker.NextCell(), request, response);
}

Co<absl::Status> ServerInfo(GatewayWorker& worker, const Passed& passed,
                            v1::ServerInfoRequest& request, v1::ServerInfoResponse* response) {
  const GatewayContext& context = worker.context();
  const auto answers = co_await AskAll<v1::ServerInfoResponse>(worker, passed, request);
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
      const auto subscriptions = response->counts().subscriptions();
      Add(info.counts(), response->mutable_counts());
      response->mutable_counts()->set_topics(std::max(topics, info.counts().topics()));
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
