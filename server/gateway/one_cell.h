// SPDX-License-Identifier: Apache-2.0
//
// The calls that a gateway passes on to one cell: the one that has a message or a recurrence, or
// any one. The option `route` of a method (call.proto) says which; such a method needs no code
// here.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "duetime/v1/call.pb.h"
#include "server/gateway/gateway_worker.h"
#include "server/rpc/methods.h"

namespace duetime::gateway {

// The cell of a request for one message, which its `message_id` or its `key` names; the request
// then has the cell's own id. Without a name, any cell refuses it. INVALID_MESSAGE_ID.
absl::StatusOr<size_t> CellOfMessage(GatewayWorker& worker, google::protobuf::Message* request);

// The cell of a request with this route, as above. REQUIRES: the route leads to one cell, and the
// request has the fields that it needs; a test holds this for all methods of the protos.
absl::StatusOr<size_t> CellOf(GatewayWorker& worker, v1::CallRoute route,
                              google::protobuf::Message* request);

// A row for each method of the protos whose route leads to one cell.
std::vector<rpc::UnaryMethod> OneCellMethods();

}  // namespace duetime::gateway
