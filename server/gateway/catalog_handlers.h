// SPDX-License-Identifier: Apache-2.0
//
// The gateway's handlers for topics, subscriptions, forecasts and bulk operations. A change goes to
// all cells, and is OK when all of them have made it. If one of them did not, the others may have:
// a repeat is safe, and the Reconciler ends the difference. Counts are those of all cells together.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "server/gateway/ask.h"
#include "server/gateway/one_message.h"
#include "server/gateway/sums.h"

namespace duetime::gateway {

// The part of a response that has counts.
template <typename Response>
auto* WholeOf(Response* response) {
  if constexpr (requires { response->mutable_topic(); }) {
    return response->mutable_topic();
  } else if constexpr (requires { response->mutable_subscription(); }) {
    return response->mutable_subscription();
  } else if constexpr (requires { response->mutable_operation(); }) {
    return response->mutable_operation();
  } else {
    return response;
  }
}

// Says of an operation that is starting which cells do not have it.
template <typename Response>
void NameMissing(const CellMap& map, Answers<Response>* answers) {
  v1::Operation* starting = nullptr;
  std::vector<std::string> cells;
  for (size_t i = 0; i < answers->statuses.size(); ++i) {
    const std::string cell = "cell " + map.cell(i).name;
    if (!answers->statuses[i].ok()) {
      cells.push_back(cell);
      continue;
    }
    v1::Operation* const operation = answers->responses[i].mutable_operation();
    for (std::string& place : *operation->mutable_missing_places()) place.insert(0, cell + ", ");
    if (operation->state() == v1::Operation::STATE_STARTING) starting = operation;
  }
  if (starting == nullptr) return;
  for (std::string& cell : cells) starting->add_missing_places(std::move(cell));
}

// Gives the answers about an operation on one message the filter that the client gave.
template <typename Response>
void RestoreFilters(const CellMap& map, Answers<Response>* answers) {
  const v1::BulkFilter* own = nullptr;
  std::vector<v1::BulkFilter*> others;
  for (size_t i = 0; i < answers->statuses.size(); ++i) {
    if (!answers->statuses[i].ok()) continue;
    v1::BulkFilter* const filter = answers->responses[i].mutable_operation()->mutable_filter();
    if (RestoreFilter(map, i, filter)) {
      others.push_back(filter);
    } else {
      own = filter;
    }
  }
  for (v1::BulkFilter* other : others) {
    if (own != nullptr) *other = *own;
  }
}

// The response becomes that of the first cell with OK, with the counts of the others added.
template <typename Response>
absl::Status AddAnswers(GatewayWorker& worker, Answers<Response>* answers, Response* response) {
  if (absl::Status status = answers->Status(worker.map()); !status.ok()) return status;
  if constexpr (requires(Response all) { all.mutable_operation()->missing_places(); }) {
    NameMissing(worker.map(), answers);
    RestoreFilters(worker.map(), answers);
  }
  bool first = true;
  for (size_t cell = 0; cell < answers->statuses.size(); ++cell) {
    if (!answers->statuses[cell].ok()) continue;
    Response* const answer = &answers->responses[cell];
    if (std::exchange(first, false)) {
      response->Swap(answer);
    } else {
      Add(*WholeOf(answer), WholeOf(response));
    }
  }
  return absl::OkStatus();
}

// Sends a request to all cells, and adds their answers.
template <typename Request, typename Response>
Co<absl::Status> AskAndAdd(GatewayWorker& worker, const Passed& passed, Request& request,
                           Response* response) {
  Answers<Response> answers = co_await AskAll<Response>(worker, passed, request);
  co_return AddAnswers(worker, &answers, response);
}

Co<absl::Status> ListTopics(GatewayWorker& worker, const Passed& passed,
                            v1::ListTopicsRequest& request, v1::ListTopicsResponse* response);
// Deletes only while all cells answer: a cell that has the topic still would bring it back.
Co<absl::Status> DeleteTopic(GatewayWorker& worker, const Passed& passed,
                             v1::DeleteTopicRequest& request, v1::DeleteTopicResponse* response);
Co<absl::Status> ListSubscriptions(GatewayWorker& worker, const Passed& passed,
                                   v1::ListSubscriptionsRequest& request,
                                   v1::ListSubscriptionsResponse* response);
// As DeleteTopic.
Co<absl::Status> DeleteSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::DeleteSubscriptionRequest& request,
                                    v1::DeleteSubscriptionResponse* response);
Co<absl::Status> Forecast(GatewayWorker& worker, const Passed& passed, v1::ForecastRequest& request,
                          v1::ForecastResponse* response);
// An operation has the same name in all cells. It is STARTING until all of them have it.
Co<absl::Status> StartBulk(GatewayWorker& worker, const Passed& passed,
                           v1::StartBulkRequest& request, v1::StartBulkResponse* response);
Co<absl::Status> ListOperations(GatewayWorker& worker, const Passed& passed,
                                v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response);
Co<absl::Status> ServerInfo(GatewayWorker& worker, const Passed& passed,
                            v1::ServerInfoRequest& request, v1::ServerInfoResponse* response);

}  // namespace duetime::gateway
