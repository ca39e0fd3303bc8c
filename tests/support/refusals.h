// SPDX-License-Identifier: Apache-2.0
//
// The table of refused fields, refusals.txt, and the test of a server with it. The test of a server
// in the same process runs the table, and the test of the built daemon, also behind a gateway.
#pragma once

#include <grpcpp/grpcpp.h>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace duetime::test {

// A row of the table for one call.
struct RequestCase {
  std::string place;   // for messages: "refusals.txt:7 Schedule"
  std::string method;  // the path: "/duetime.v1.Messages/Schedule"
  std::shared_ptr<google::protobuf::Message> request;
  std::string reason;  // of the refusal, else "OK" or "GIVEN"
  std::string field;   // empty if the request is accepted
  std::string limit;   // empty: the refusal names none

  bool refused() const { return !field.empty(); }
};

std::vector<RequestCase> RequestCases();

// Makes each refused call of the table, and all refused Schedules once more as items of a batch.
// Checks code, reason, field and limit, and that the server keeps nothing of a refused request.
// REQUIRES: the server is new, and has the default limits.
void ExpectRefusals(const std::shared_ptr<grpc::Channel>& channel);

// Makes each accepted call of the table. REQUIRES: as ExpectRefusals.
void ExpectAccepted(const std::shared_ptr<grpc::Channel>& channel);

}  // namespace duetime::test
