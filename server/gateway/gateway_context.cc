// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/gateway_context.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "client/cpp/channel.h"
#include "client/cpp/error.h"
#include "server/base/error.h"
#include "server/gateway/id_fields.h"

namespace duetime::gateway {
namespace {

constexpr uint64_t kRetryAfterMs = 200;
// A connection to a server that runs, and a member that takes the lead from one that is killed.
constexpr uint64_t kConnectMs = 250;
constexpr uint64_t kLeaderChangeMs = 2'500;

uint64_t MillisOf(absl::Duration duration) {
  return static_cast<uint64_t>(
      absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))));
}

}  // namespace

absl::Status GatewayContext::Admit(bool begins_work) const {
  switch (state.load()) {
    case rpc::ServingState::kServing:
      return absl::OkStatus();
    case rpc::ServingState::kDraining:
      return begins_work ? base::DrainingError() : absl::OkStatus();
    default:
      return base::MakeError(
          absl::StatusCode::kUnavailable, "the gateway starts",
          {.reason = "STARTING", .field = "", .metadata = {}, .retry_after_ms = kRetryAfterMs});
  }
}

absl::Status GatewayContext::AdmitSchedule(size_t cell) const {
  if (complete[cell].load(std::memory_order_relaxed)) return absl::OkStatus();
  return base::MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("the gateway has not seen yet that the cell ", map.cell(cell).name,
                   " has all topics and subscriptions; nothing was changed"),
      {.reason = "CELL_UNAVAILABLE",
       .field = "",
       .metadata = {{"cell", map.cell(cell).name}},
       .retry_after_ms = kRetryAfterMs});
}

absl::Status CellUnavailableError(const std::string& cells, bool reads) {
  return base::MakeError(absl::StatusCode::kUnavailable,
                         absl::StrCat("no answer from the cell ", cells,
                                      reads ? ", without which the answer would not be whole"
                                            : ": what the call changes there is not known"),
                         {.reason = "CELL_UNAVAILABLE",
                          .field = "",
                          .metadata = {{"cell", cells}},
                          .retry_after_ms = kRetryAfterMs});
}

void GatewayContext::LookAtChannels() {
  const uint64_t now_ms = clock->Read().mono_ms;
  for (size_t cell = 0; cell < channels.size(); ++cell) {
    const bool ready = channels[cell]->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
    if (ready || away_since_ms[cell].load(std::memory_order_relaxed) == 0) {
      away_since_ms[cell].store(ready ? 0 : now_ms, std::memory_order_relaxed);
    }
  }
}

uint64_t GatewayContext::ReadWaitMs(size_t cell) const {
  const std::string& addresses = map.cell(cell).addresses;
  const bool several =
      client::HasSeveralAddresses(addresses) || absl::StartsWith(addresses, "dns:");
  const uint64_t longest_ms = several ? kLeaderChangeMs : kConnectMs;
  const uint64_t since_ms = away_since_ms[cell].load(std::memory_order_relaxed);
  const uint64_t away_ms = since_ms == 0 ? 0 : clock->Read().mono_ms - since_ms;
  return longest_ms - std::min(away_ms, longest_ms);
}

absl::Status GatewayContext::ErrorOf(size_t cell, const grpc::Status& status, bool reads) const {
  if (status.ok()) return absl::OkStatus();
  const absl::Status error = client::ToAbslStatus(status);
  const client::ErrorInfo info = client::GetErrorInfo(error);
  // Also what a cell says while it starts, drains or changes its leader: parts of a call may be
  // done elsewhere, so a client must not take it for "nothing was changed".
  const bool no_answer =
      absl::IsUnavailable(error) ||
      (info.reason.empty() && (absl::IsDeadlineExceeded(error) || absl::IsCancelled(error)));
  if (no_answer) return CellUnavailableError(map.cell(cell).name, reads);
  base::ErrorDetail detail;
  detail.reason = info.reason;
  if (detail.reason.empty()) detail.reason = absl::StatusCodeToString(error.code());
  if (!info.field_violations.empty()) detail.field = info.field_violations.front().field;
  if (info.retry_delay.has_value()) detail.retry_after_ms = MillisOf(*info.retry_delay);
  std::string text(error.message());
  for (const auto& [name, value] : info.metadata) {
    if (!IsIdName(name) || value.empty()) {
      detail.metadata.emplace_back(name, value);
      continue;
    }
    const std::string tagged = map.Tag(cell, value);
    absl::StrReplaceAll({{value, tagged}}, &text);
    detail.metadata.emplace_back(name, tagged);
  }
  detail.metadata.emplace_back("cell", map.cell(cell).name);
  return base::MakeError(error.code(), text, detail);
}

absl::Status OpenBytes::status() const {
  if (!over_) return absl::OkStatus();
  return base::OverloadedError("the gateway's requests, in bytes",
                               context_->options.gateway_open_bytes_max);
}

}  // namespace duetime::gateway
