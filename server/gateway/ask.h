// SPDX-License-Identifier: Apache-2.0
//
// The ways in which a handler of the gateway asks cells: one, or all of them at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "server/gateway/cell_call.h"
#include "server/gateway/gateway_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::gateway {

using rpc::Co;

// Asks one cell. `request` and `response` outlive the wait.
template <typename Request, typename Response>
Co<absl::Status> Ask(GatewayWorker& worker, const Passed& passed, size_t cell,
                     const Request& request, Response* response) {
  CellCall call(&worker, cell, passed, request, response);
  co_return co_await call;
}

// The answers of all cells, in the order of the map.
template <typename Response>
struct Answers {
  std::vector<absl::Status> statuses;
  std::vector<Response> responses;

  // OK if a cell has answered with OK and the others with OK or NOT_FOUND. Else their error. If
  // cells did not answer, it names all of them.
  absl::Status Status(const CellMap& map) const {
    std::string missing;
    const absl::Status* error = nullptr;
    bool found = false;
    for (size_t i = 0; i < statuses.size(); ++i) {
      found = found || statuses[i].ok();
      if (absl::IsUnavailable(statuses[i])) {
        missing += (missing.empty() ? "" : ",") + map.cell(i).name;
      }
      const bool worse = error == nullptr || absl::IsNotFound(*error);
      if (!statuses[i].ok() && worse) error = &statuses[i];
    }
    if (!missing.empty()) {
      return CellUnavailableError(missing, ReadsOnly(*Response::descriptor()));
    }
    if (error == nullptr || (found && absl::IsNotFound(*error))) return absl::OkStatus();
    return *error;
  }
};

// The request for a cell: one for all of them, or one for each.
template <typename Request>
const Request& RequestFor(size_t, const Request& request) {
  return request;
}
template <typename Request>
const Request& RequestFor(size_t cell, const std::vector<Request>& requests) {
  return requests[cell];
}

// Asks all cells at once. `request` outlives the wait, and may be a vector with one for each cell.
template <typename Response, typename Request>
Co<Answers<Response>> AskAll(GatewayWorker& worker, const Passed& passed, const Request& request) {
  const size_t cells = worker.map().size();
  Answers<Response> answers;
  answers.responses.resize(cells);
  std::vector<std::unique_ptr<CellCall>> calls;
  for (size_t i = 0; i < cells; ++i) {
    calls.push_back(std::make_unique<CellCall>(&worker, i, passed, RequestFor(i, request),
                                               &answers.responses[i]));
  }
  for (const auto& owned : calls) {
    CellCall& call = *owned;
    answers.statuses.push_back(co_await call);
  }
  calls.clear();
  co_return answers;
}

}  // namespace duetime::gateway
