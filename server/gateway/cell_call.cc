// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/cell_call.h"

#include <algorithm>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "client/cpp/error.h"
#include "duetime/v1/call.pb.h"
#include "server/api/call_table.h"
#include "server/gateway/gateway_worker.h"
#include "server/gateway/id_fields.h"
#include "server/gateway/timer.h"
#include "server/rpc/grpc_time.h"
#include "server/rpc/message_io.h"

namespace duetime::gateway {
namespace {

// The wait before the next leader is asked, and the first and the longest one before a repeat.
constexpr uint64_t kAskAgainMs = 50;
constexpr uint64_t kRepeatMsMax = 1'000;
// The least time for a connection.
constexpr uint64_t kAttemptMs = 100;
// What remains of a client's time when the cells' calls end.
constexpr uint64_t kMarginMs = 100;

// Together; the cells take 8 KiB of all metadata.
constexpr size_t kMetadataBytesMax = 6'000;

bool IsPrintable(absl::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

// "/duetime.v1.Messages/Schedule" for ScheduleRequest.
std::string PathOf(const google::protobuf::Descriptor& request) {
  const auto& method = api::DescriptorOf(api::MethodOf(&request));
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

using Metadata = absl::FunctionRef<std::vector<absl::string_view>(absl::string_view)>;

Passed PassedOf(const GatewayWorker& worker, Metadata metadata, gpr_timespec deadline,
                uint64_t extra_ms) {
  Passed passed;
  size_t bytes = 0;
  for (const char* name : {"authorization", "traceparent", "tracestate"}) {
    if (absl::string_view(name) == "authorization" && !worker.context().passes_tokens) continue;
    for (const absl::string_view value : metadata(name)) {
      bytes += value.size();
      // gRPC receives such values from clients, but does not send them.
      if (bytes > kMetadataBytesMax || !IsPrintable(value)) continue;
      passed.metadata.emplace_back(name, std::string(value));
    }
  }
  const uint64_t left = rpc::MillisUntil(deadline);
  const uint64_t longest = worker.context().options.gateway_wait_ms + extra_ms;
  passed.until_mono_ms = worker.context().clock->Read().mono_ms +
                         std::min(longest, left - std::min(left / 4, kMarginMs));
  return passed;
}

}  // namespace

bool ReadsOnly(const google::protobuf::Descriptor& type) {
  static const auto* const reading = [] {
    auto* types = new absl::flat_hash_set<const google::protobuf::Descriptor*>;
    for (const metrics::RpcMethod id : api::OurMethods()) {
      if (api::CallOf(id).repeat() != v1::CALL_REPEAT_READ) continue;
      types->insert({api::DescriptorOf(id).input_type(), api::DescriptorOf(id).output_type()});
    }
    return types;
  }();
  return reading->contains(&type);
}

void Passed::AddTo(grpc::ClientContext* context) const {
  for (const auto& [name, value] : metadata) context->AddMetadata(name, value);
}

Passed PassedOf(const GatewayWorker& worker, const rpc::Call& client, uint64_t extra_ms) {
  return PassedOf(
      worker, [&](absl::string_view name) { return client.Metadata(name); }, client.deadline(),
      extra_ms);
}

Passed PassedOf(const GatewayWorker& worker, const grpc::ServerContext& stream) {
  return PassedOf(
      worker, [&](absl::string_view name) { return rpc::MetadataOf(stream, name); },
      stream.raw_deadline(), 0);
}

Passed OwnPassed(const GatewayWorker& worker) {
  Passed passed;
  if (!worker.context().token.empty()) {
    passed.metadata.emplace_back("authorization", absl::StrCat("Bearer ", worker.context().token));
  }
  passed.until_mono_ms =
      worker.context().clock->Read().mono_ms + worker.context().options.gateway_wait_ms;
  return passed;
}

// The attempts of one call. Life: deletes itself when its last operation has ended.
class CellCall::Attempts final : public rpc::CompletionTag {
 public:
  Attempts(CellCall* call, GatewayWorker* worker, Passed passed,
           const google::protobuf::Message& request, google::protobuf::Message* response)
      : call_(call),
        worker_(worker),
        passed_(std::move(passed)),
        path_(PathOf(*request.GetDescriptor())),
        reads_(ReadsOnly(*request.GetDescriptor())),
        response_(response) {
    if (passed_.once) line_.emplace(&worker->lines(call->cell_));
    rpc::SerializeResponse(request, &request_);
    Begin();
  }

  // Nobody waits for the answer any more.
  void Leave() {
    call_ = nullptr;
    if (!pause_.has_value()) return context_->TryCancel();
    delete this;
  }

  void Complete(bool ok) override {
    static_cast<void>(ok);
    if (call_ == nullptr) {
      delete this;
      return;
    }
    if (AsksAgain()) return;
    absl::Status status = worker_->context().ErrorOf(call_->cell_, status_, reads_);
    if (status.ok()) status = TakeResponse();
    CellCall* const call = call_;
    call->attempts_ = nullptr;
    delete this;
    call->End(std::move(status));
  }

 private:
  void Begin() {
    pause_.reset();
    context_.emplace();
    passed_.AddTo(&*context_);
    // gRPC reads its connections while a call waits for one, and so learns who leads.
    context_->set_wait_for_ready(!passed_.once && !IsAway());
    const uint64_t now_ms = worker_->context().clock->Read().mono_ms;
    const auto left =
        static_cast<int64_t>(passed_.until_mono_ms - std::min(now_ms, passed_.until_mono_ms));
    context_->set_deadline(rpc::AfterSteady(left));
    call_in_ = (line_.has_value() ? line_->stub() : worker_->stub(call_->cell_))
                   .PrepareUnaryCall(&*context_, path_, request_, worker_->shell().cq());
    call_in_->StartCall();
    call_in_->Finish(&answer_, &status_, this);
  }

  // False if the call may wait for its cell. A call that only reads ends if the cell cannot be
  // reached soon: no part of it is done elsewhere.
  bool IsAway() {
    reach_.reset();
    grpc::Channel* const channel = worker_->context().channels[call_->cell_].get();
    if (!reads_ || passed_.once ||
        channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
      return false;
    }
    const uint64_t wait_ms = worker_->context().ReadWaitMs(call_->cell_);
    // Also a connection attempt that nobody refuses would last long.
    reach_.emplace(worker_->shell().cq(), std::max(wait_ms, kAttemptMs), [this, channel] {
      if (channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) {
        context_->TryCancel();
      }
    });
    return wait_ms == 0;
  }

  absl::Status TakeResponse() {
    grpc::Status parsed =
        grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&answer_, response_);
    if (!parsed.ok()) return absl::InternalError("the answer of the cell is no message");
    ChangeIds(response_, [this](const std::string& text) {
      return worker_->context().map.Tag(call_->cell_, text);
    });
    return absl::OkStatus();
  }

  bool AsksAgain() {
    if (passed_.once || status_.ok()) return false;
    const absl::Status status = client::ToAbslStatus(status_);
    uint64_t wait_ms = kAskAgainMs;
    if (client::GetErrorInfo(status).reason != "NOT_LEADER") {
      if (!passed_.repeats || !absl::IsUnavailable(status)) return false;
      wait_ms = std::exchange(repeat_ms_, std::min(2 * repeat_ms_, kRepeatMsMax));
    }
    if (worker_->context().clock->Read().mono_ms + wait_ms >= passed_.until_mono_ms) return false;
    pause_.emplace(worker_->shell().cq(), wait_ms, [this] { Begin(); });
    return true;
  }

  CellCall* call_;
  GatewayWorker* const worker_;
  const Passed passed_;
  const std::string path_;
  const bool reads_;
  google::protobuf::Message* const response_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> call_in_;
  // Of a call that waits for messages.
  std::optional<Line> line_;
  // Ends the wait for a cell.
  std::optional<Timer> reach_;
  // Set between two attempts.
  std::optional<Timer> pause_;
  // The wait before the next repeat.
  uint64_t repeat_ms_ = kAskAgainMs;
};

CellCall::CellCall(GatewayWorker* worker, size_t cell, Passed passed,
                   const google::protobuf::Message& request, google::protobuf::Message* response)
    : cell_(cell) {
  attempts_ = new Attempts(this, worker, std::move(passed), request, response);
}

CellCall::~CellCall() {
  if (attempts_ != nullptr) attempts_->Leave();
}

void CellCall::End(absl::Status status) {
  ended_ = true;
  status_ = std::move(status);
  // Each of them may destroy this object.
  if (on_end) return std::exchange(on_end, nullptr)();
  if (waiting_) std::exchange(waiting_, {}).resume();
}

}  // namespace duetime::gateway
