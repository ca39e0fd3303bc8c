// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/lease_handlers.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "server/api/messages/settle_routing.h"
#include "server/api/proto_time.h"
#include "server/api/request_validation.h"
#include "server/rpc/message_io.h"
#include "server/rpc/stream_count.h"

namespace duetime::gateway {
namespace {

// How long a cell waits for messages at a time: messages of another cell wait as long.
constexpr uint64_t kSliceMs = 100;
// A cell that takes so much longer is left out.
constexpr uint64_t kSliceGraceMs = 1'000;
constexpr uint64_t kGiveBackMs = 1'000;

// An empty request goes to one cell, which judges it.
Co<absl::Status> SettleAll(GatewayWorker& worker, const Passed& passed, v1::SettleRequest& request,
                           v1::SettleResponse* response) {
  SplitSettles<v1::SettleRequest> split = Split(worker.map(), &request);
  const size_t cells = split.parts.size();
  std::vector<v1::SettleResponse> responses(cells);
  std::vector<std::unique_ptr<CellCall>> calls;
  for (size_t i = 0; i < cells; ++i) {
    const bool last = i + 1 == cells && calls.empty() && split.lost.empty();
    if (split.parts[i].ByteSizeLong() == 0 && !last) continue;
    calls.push_back(std::make_unique<CellCall>(&worker, i, passed, split.parts[i], &responses[i]));
  }
  absl::Status status;
  for (const auto& owned : calls) {
    CellCall& call = *owned;
    const absl::Status one = co_await call;
    if (!one.ok()) status = one;
    response->MergeFrom(responses[call.cell()]);
  }
  for (std::string& token : split.lost) {
    v1::SettleRefusal* const refused = response->add_refused();
    refused->set_lease_token(std::move(token));
    refused->set_reason(v1::SettleRefusal::REASON_LEASE_LOST);
  }
  co_return status;
}

struct Pulled {
  std::vector<v1::PullResponse> responses;
  // OK if a cell has answered. An error that no repeat mends counts more than one that passes.
  absl::Status status;
  bool any = false;
};

// Asks the cells that are not away.
Co<Pulled> PullOnce(GatewayWorker& worker, const Passed& passed, const v1::PullRequest& request,
                    std::vector<bool>* away) {
  const size_t cells = worker.map().size();
  Pulled pulled;
  pulled.responses.resize(cells);
  std::vector<std::unique_ptr<CellCall>> calls;
  for (size_t i = 0; i < cells; ++i) {
    if ((*away)[i]) continue;
    calls.push_back(std::make_unique<CellCall>(&worker, i, passed, request, &pulled.responses[i]));
  }
  bool answered = false;
  for (const auto& owned : calls) {
    CellCall& call = *owned;
    const absl::Status one = co_await call;
    (*away)[call.cell()] = !one.ok();
    answered = answered || one.ok();
    if (!one.ok() && (pulled.status.ok() || !absl::IsUnavailable(one))) pulled.status = one;
    pulled.any = pulled.any || pulled.responses[call.cell()].deliveries_size() > 0;
  }
  if (pulled.any || (answered && absl::IsUnavailable(pulled.status))) {
    pulled.status = absl::OkStatus();
  }
  calls.clear();
  co_return pulled;
}

// Moves deliveries into the response, at most `messages` with `bytes`. The rest goes to `back`.
void Take(int64_t messages, int64_t bytes, Pulled* pulled, v1::PullResponse* response,
          v1::SettleRequest* back) {
  for (v1::PullResponse& part : pulled->responses) {
    for (v1::Delivery& delivery : *part.mutable_deliveries()) {
      const auto size = static_cast<int64_t>(delivery.ByteSizeLong());
      // A single message may be larger.
      const bool fits = messages > 0 && (bytes >= size || response->deliveries_size() == 0);
      if (!fits) {
        AddRelease(std::move(*delivery.mutable_lease_token()), back);
        continue;
      }
      --messages;
      bytes -= size;
      response->add_deliveries()->Swap(&delivery);
    }
  }
}

// Asks the cells until one of them has messages, or the wait is over. Gives back the messages
// beyond the limits of the request.
Co<absl::Status> PullUntil(GatewayWorker& worker, rpc::Call& call, const v1::PullRequest& request,
                           v1::PullResponse* response) {
  base::Clock& clock = *worker.context().clock;
  api::ValidStart start;
  uint64_t wait_ms = 0;
  absl::Status status = api::ValidatePull(request, worker.context().limits, &start, &wait_ms);
  if (!status.ok()) co_return status;
  const rpc::StreamCount count(&worker.context().streams, worker.context().streams_max);
  if (status = count.status(); !status.ok()) co_return status;
  const uint64_t end_ms = clock.Read().mono_ms + wait_ms;
  std::vector<bool> away(worker.map().size());
  v1::PullRequest slice = request;
  Pulled pulled;
  do {
    const uint64_t now_ms = clock.Read().mono_ms;
    const uint64_t left_ms = end_ms - std::min(end_ms, now_ms);
    api::SetDuration(std::min(left_ms, kSliceMs), slice.mutable_wait());
    Passed passed = PassedOf(worker, call, kSliceMs);
    passed.once = true;
    passed.until_mono_ms = std::min(passed.until_mono_ms, now_ms + kSliceMs + kSliceGraceMs);
    pulled = co_await PullOnce(worker, passed, slice, &away);
  } while (pulled.status.ok() && !pulled.any && !call.gone() && clock.Read().mono_ms < end_ms &&
           worker.context().Admit(/*begins_work=*/true).ok());
  v1::SettleRequest back;
  Take(call.gone() ? 0 : start.max_outstanding_messages, start.max_outstanding_bytes, &pulled,
       response, &back);
  if (back.settlements_size() > 0) {
    Passed passed = PassedOf(worker, call);
    passed.until_mono_ms = clock.Read().mono_ms + kGiveBackMs;
    v1::SettleResponse settled;
    // Leases that cannot be given back end by themselves.
    static_cast<void>(co_await SettleAll(worker, passed, back, &settled));
  }
  co_return pulled.status;
}

}  // namespace

template <typename Request>
void AddRelease(std::string token, Request* request) {
  v1::Settlement* const settlement = request->add_settlements();
  settlement->set_lease_token(std::move(token));
  settlement->mutable_release();
}
template void AddRelease(std::string, v1::SettleRequest*);
template void AddRelease(std::string, v1::SubscribeRequest*);

template <typename Request>
SplitSettles<Request> Split(const CellMap& map, Request* request) {
  SplitSettles<Request> split;
  split.parts.resize(map.size());
  // Null: no cell has the token.
  const auto part_of = [&](std::string* token) -> Request* {
    auto located = map.Locate(*token);
    if (!located.ok()) {
      split.lost.push_back(*token);
      return nullptr;
    }
    *token = std::move(located->text);
    return &split.parts[located->cell];
  };
  for (v1::Settlement& settlement : *request->mutable_settlements()) {
    Request* const part = part_of(settlement.mutable_lease_token());
    if (part != nullptr) part->add_settlements()->Swap(&settlement);
  }
  if constexpr (std::is_same_v<Request, v1::SubscribeRequest>) {
    for (std::string& token : *request->mutable_begun()) {
      Request* const part = part_of(&token);
      if (part != nullptr) part->add_begun(std::move(token));
    }
  }
  return split;
}
template SplitSettles<v1::SettleRequest> Split(const CellMap&, v1::SettleRequest*);
template SplitSettles<v1::SubscribeRequest> Split(const CellMap&, v1::SubscribeRequest*);

rpc::CallTask Pull(GatewayWorker& worker, rpc::Call& call) {
  v1::PullRequest request;
  v1::PullResponse response;
  const OpenBytes bytes(&worker.context(), call.request()->Length());
  absl::Status status = bytes.status();
  if (status.ok()) status = worker.context().Admit(/*begins_work=*/true);
  if (status.ok()) status = rpc::ParseRequest(call.request(), &request);
  if (status.ok()) status = co_await PullUntil(worker, call, request, &response);
  call.Finish(status, response);
}

rpc::CallTask Settle(GatewayWorker& worker, rpc::Call& call) {
  v1::SettleRequest request;
  v1::SettleResponse response;
  const OpenBytes bytes(&worker.context(), call.request()->Length());
  absl::Status status = bytes.status();
  if (status.ok()) status = worker.context().Admit(/*begins_work=*/false);
  if (status.ok()) status = api::ParseSettles(worker.context().limits, call.request(), &request);
  if (status.ok()) {
    const Passed passed = PassedOf(worker, call);
    status = co_await SettleAll(worker, passed, request, &response);
  }
  call.Finish(status, response);
}

}  // namespace duetime::gateway
