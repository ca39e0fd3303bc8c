// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/caller.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <thread>
#include <unordered_map>

#include "client/cpp/error.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/call.pb.h"
#include "duetime/v1/messages.pb.h"
#include "duetime/v1/test_clock.pb.h"

namespace duetime::client {
namespace {

// A steady clock underneath: a step of the wall clock does not move a call's deadline.
using SteadyTime = std::chrono::steady_clock::time_point;

// The longest wait for another member of a cell to lead, which takes a second or two.
constexpr absl::Duration kWaitForLeaderMax = absl::Milliseconds(500);
// The least wait of a call. Instead of a wait that would pass its deadline, it waits half of the
// time that is left, down to this.
constexpr absl::Duration kLastWaitMin = absl::Milliseconds(50);
// A call without a token of the budget looks for one again after this. It must not miss those that
// others give back.
constexpr absl::Duration kTokenPause = absl::Milliseconds(100);
// The longest deadline, so that an infinite one does not overflow the clock's arithmetic.
constexpr absl::Duration kDeadlineMax = absl::Hours(24 * 365);

absl::Duration Until(SteadyTime time) {
  return absl::FromChrono(time - std::chrono::steady_clock::now());
}

// Waits until `end`, inside gRPC: it connects only while a thread calls it, and otherwise looks at
// its connections every five seconds.
void Pause(grpc::Channel* channel, SteadyTime end) {
  channel->WaitForConnected(std::chrono::system_clock::now() +
                            absl::ToChronoMicroseconds(Until(end)));
  std::this_thread::sleep_until(end);
}

bool HasEtag(const google::protobuf::Message& request) {
  const auto* const etag = request.GetDescriptor()->FindFieldByName("etag");
  return etag != nullptr && !request.GetReflection()->GetString(request, etag).empty();
}

// Returns true if a server that works has answered: with success, or with an error that ends the
// call.
bool IsAnswer(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) &&
         !absl::IsCancelled(status);
}

}  // namespace

const google::protobuf::MethodDescriptor* MethodOf(const google::protobuf::Message& request) {
  using google::protobuf::Descriptor;
  using google::protobuf::MethodDescriptor;
  static const auto* const by_request = [] {
    auto* methods = new std::unordered_map<const Descriptor*, const MethodDescriptor*>;
    for (const auto* file :
         {v1::CallStreamRequest::descriptor()->file(), v1::ServerInfoRequest::descriptor()->file(),
          v1::GetClockRequest::descriptor()->file()}) {
      for (int i = 0; i < file->service(0)->method_count(); ++i) {
        const auto* const method = file->service(0)->method(i);
        methods->emplace(method->input_type(), method);
      }
    }
    return methods;
  }();
  const auto found = by_request->find(request.GetDescriptor());
  return found == by_request->end() ? nullptr : found->second;
}

OnUnavailable RuleOf(const google::protobuf::Message& request) {
  const auto* const method = MethodOf(request);
  if (method == nullptr) return OnUnavailable::kReturn;
  switch (method->options().GetExtension(v1::call).repeat()) {
    case v1::CALL_REPEAT_READ:
    case v1::CALL_REPEAT_SAFE:
    case v1::CALL_REPEAT_IF_NAMED:
      return OnUnavailable::kRepeat;
    case v1::CALL_REPEAT_WITHOUT_ETAG:
      return HasEtag(request) ? OnUnavailable::kReturn : OnUnavailable::kRepeat;
    default:
      return OnUnavailable::kReturn;
  }
}

absl::Status Caller::Run(OnUnavailable on_unavailable,
                         const std::function<grpc::Status(grpc::ClientContext*)>& call, int* tries,
                         absl::Duration extra) const {
  const SteadyTime deadline =
      std::chrono::steady_clock::now() +
      absl::ToChronoNanoseconds(std::min(options_.deadline + extra, kDeadlineMax));
  BackoffOptions waits = options_.backoff;
  if (several_) waits.max = std::min(waits.max, kWaitForLeaderMax);
  Backoff backoff(waits, std::random_device{}());
  // gRPC's answer would depend on a race between its timer and the connection.
  if (options_.deadline <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the deadline of the call is not in the future");
  }
  const int tries_max = several_ || options_.attempts_max <= 0 ? std::numeric_limits<int>::max()
                                                               : options_.attempts_max;
  budget_.OnCall(std::chrono::steady_clock::now());
  bool paid = false;  // this try took a token of the budget
  for (*tries = 1;; ++*tries) {
    grpc::ClientContext context;
    // gRPC reads its connections while a call waits for one, and so learns who leads.
    context.set_wait_for_ready(several_);
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMicroseconds(Until(deadline)));
    absl::Status status = ToAbslStatus(call(&context));
    const ErrorInfo info = GetErrorInfo(status);
    // Such a call changed nothing, so even one that is made once may be repeated.
    const bool elsewhere = several_ && info.reason == "NOT_LEADER";
    if (elsewhere) --*tries;
    if (paid && (elsewhere || IsAnswer(status))) budget_.GiveBack();
    if (!absl::IsUnavailable(status) || (on_unavailable == OnUnavailable::kReturn && !elsewhere) ||
        *tries >= tries_max) {
      return status;
    }
    // Without a token the call waits on.
    const absl::Duration requested = info.retry_delay.value_or(absl::ZeroDuration());
    absl::Duration wait = backoff.Next(requested);
    do {
      if (const absl::Duration left = Until(deadline); wait >= left) {
        wait = left / 2;
        if (wait < std::max(kLastWaitMin, requested)) return status;
      }
      Pause(channel_.get(), std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait));
      paid = !elsewhere && budget_.Take(std::chrono::steady_clock::now());
      wait = kTokenPause;
    } while (!paid && !elsewhere);
  }
}

}  // namespace duetime::client
