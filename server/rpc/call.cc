// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/call.h"

#include <spdlog/spdlog.h>

#include "server/base/clock.h"
#include "server/rpc/client_credentials.h"
#include "server/rpc/cq_worker.h"

namespace duetime::rpc {

std::vector<absl::string_view> MetadataOf(const grpc::ServerContext& context,
                                          absl::string_view name) {
  std::vector<absl::string_view> values;
  const auto [begin, end] =
      context.client_metadata().equal_range(grpc::string_ref(name.data(), name.size()));
  for (auto at = begin; at != end; ++at) {
    values.emplace_back(at->second.data(), at->second.size());
  }
  return values;
}

void Call::BeginCall(const UnaryMethod* method) {
  method_ = method;
  arrived_micros_ = base::ReadMicros();
  worker_->state().stats->of(method_->id).Start();
}

void Call::EndCall(const absl::Status& status) {
  const uint64_t now_micros = base::ReadMicros();
  const uint64_t micros = now_micros - arrived_micros_;
  worker_->state().stats->of(method_->id).EndTimed(static_cast<int>(status.code()), micros);
  if (worker_->slow_log().IsSlow(micros) && !method_->watch_client)
    LogSlow(status, micros, now_micros);
  if (on_end) std::exchange(on_end, nullptr)(status);
}

void Call::LogSlow(const absl::Status& status, uint64_t micros, uint64_t now_micros) {
  constexpr uint64_t kMicrosPerMs = 1'000;
  const std::optional<std::string> line = worker_->slow_log().Line(
      {.method = worker_->state().stats->names[static_cast<size_t>(method_->id)].c_str(),
       .micros = micros,
       .code = status.code(),
       .principal = caller == nullptr ? "" : caller->principal(),
       .peer = PeerHost(server_context())},
      now_micros / kMicrosPerMs);
  if (line.has_value()) spdlog::warn("{}", *line);
}

void Call::ResetCall() {
  on_gone = nullptr;
  on_end = nullptr;
  subject.reset();
  caller = nullptr;
  authorized = false;
  delay_ms = 0;
  gone_ = false;
}

}  // namespace duetime::rpc
