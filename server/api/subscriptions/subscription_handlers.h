// SPDX-License-Identifier: Apache-2.0
//
// Handlers of subscriptions as resources. The catalog decides; the handlers translate.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> CreateSubscription(ApiWorker& worker, rpc::Call& call,
                                    const v1::CreateSubscriptionRequest& request,
                                    v1::CreateSubscriptionResponse* response);
Co<absl::Status> GetSubscription(ApiWorker& worker, rpc::Call& call,
                                 const v1::GetSubscriptionRequest& request,
                                 v1::GetSubscriptionResponse* response);
Co<absl::Status> ListSubscriptions(ApiWorker& worker, rpc::Call& call,
                                   const v1::ListSubscriptionsRequest& request,
                                   v1::ListSubscriptionsResponse* response);
Co<absl::Status> UpdateSubscription(ApiWorker& worker, rpc::Call& call,
                                    const v1::UpdateSubscriptionRequest& request,
                                    v1::UpdateSubscriptionResponse* response);
Co<absl::Status> DeleteSubscription(ApiWorker& worker, rpc::Call& call,
                                    const v1::DeleteSubscriptionRequest& request,
                                    v1::DeleteSubscriptionResponse* response);

}  // namespace duetime::api
