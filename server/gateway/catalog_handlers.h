// SPDX-License-Identifier: Apache-2.0
//
// The gateway's handlers for topics, subscriptions, forecasts and bulk operations. A change goes to
// all cells, and is OK when all of them have made it. If one of them did not, the others may have:
// a repeat is safe, and the Reconciler ends the difference. Counts are those of all cells together.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "server/gateway/ask.h"

namespace duetime::gateway {

Co<absl::Status> CreateTopic(GatewayWorker& worker, const Passed& passed,
                             v1::CreateTopicRequest& request, v1::CreateTopicResponse* response);
Co<absl::Status> GetTopic(GatewayWorker& worker, const Passed& passed, v1::GetTopicRequest& request,
                          v1::GetTopicResponse* response);
Co<absl::Status> ListTopics(GatewayWorker& worker, const Passed& passed,
                            v1::ListTopicsRequest& request, v1::ListTopicsResponse* response);
Co<absl::Status> UpdateTopic(GatewayWorker& worker, const Passed& passed,
                             v1::UpdateTopicRequest& request, v1::UpdateTopicResponse* response);
Co<absl::Status> PauseTopic(GatewayWorker& worker, const Passed& passed,
                            v1::PauseTopicRequest& request, v1::PauseTopicResponse* response);
Co<absl::Status> ResumeTopic(GatewayWorker& worker, const Passed& passed,
                             v1::ResumeTopicRequest& request, v1::ResumeTopicResponse* response);
// Deletes only while all cells answer: a cell that has the topic still would bring it back.
Co<absl::Status> DeleteTopic(GatewayWorker& worker, const Passed& passed,
                             v1::DeleteTopicRequest& request, v1::DeleteTopicResponse* response);

Co<absl::Status> CreateSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::CreateSubscriptionRequest& request,
                                    v1::CreateSubscriptionResponse* response);
Co<absl::Status> GetSubscription(GatewayWorker& worker, const Passed& passed,
                                 v1::GetSubscriptionRequest& request,
                                 v1::GetSubscriptionResponse* response);
Co<absl::Status> ListSubscriptions(GatewayWorker& worker, const Passed& passed,
                                   v1::ListSubscriptionsRequest& request,
                                   v1::ListSubscriptionsResponse* response);
Co<absl::Status> UpdateSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::UpdateSubscriptionRequest& request,
                                    v1::UpdateSubscriptionResponse* response);
// As DeleteTopic.
Co<absl::Status> DeleteSubscription(GatewayWorker& worker, const Passed& passed,
                                    v1::DeleteSubscriptionRequest& request,
                                    v1::DeleteSubscriptionResponse* response);

Co<absl::Status> Forecast(GatewayWorker& worker, const Passed& passed, v1::ForecastRequest& request,
                          v1::ForecastResponse* response);
// An operation has the same name in all cells.
Co<absl::Status> StartBulk(GatewayWorker& worker, const Passed& passed,
                           v1::StartBulkRequest& request, v1::StartBulkResponse* response);
Co<absl::Status> GetOperation(GatewayWorker& worker, const Passed& passed,
                              v1::GetOperationRequest& request, v1::GetOperationResponse* response);
Co<absl::Status> ListOperations(GatewayWorker& worker, const Passed& passed,
                                v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response);
Co<absl::Status> CancelOperation(GatewayWorker& worker, const Passed& passed,
                                 v1::CancelOperationRequest& request,
                                 v1::CancelOperationResponse* response);

Co<absl::Status> ServerInfo(GatewayWorker& worker, const Passed& passed,
                            v1::ServerInfoRequest& request, v1::ServerInfoResponse* response);
Co<absl::Status> CheckAccess(GatewayWorker& worker, const Passed& passed,
                             v1::CheckAccessRequest& request, v1::CheckAccessResponse* response);

}  // namespace duetime::gateway
