// SPDX-License-Identifier: Apache-2.0
#include "server/api/clock/clock_handlers.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "server/api/await.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/runtime/clock_driver.h"

namespace duetime::api {
namespace {

constexpr uint64_t kTimeoutMsDefault = 10'000;
constexpr uint64_t kTimeoutMsMax = 600'000;
constexpr int32_t kHandOutsDefault = 1'000;
constexpr int32_t kHandOutsMax = 10'000;

absl::Status InvalidClock(const std::string& field, absl::string_view range) {
  return Invalid("INVALID_CLOCK", field, absl::StrCat("must be ", range));
}

void FillClock(ApiWorker& worker, v1::Clock* clock) {
  const runtime::ClockPace pace = worker.context().clock_driver->clock().pace();
  SetTimestamp(worker.context().clock->Read().wall_ms, clock->mutable_time());
  clock->set_frozen(pace.frozen);
  clock->set_speed(static_cast<int32_t>(pace.speed));
}

absl::Status ReadLimits(const v1::AdvanceLimits& limits, runtime::AdvanceOptions* options) {
  options->until_idle = limits.until_idle();
  options->end_leases = limits.end_leases();
  if (limits.until_idle() && limits.end_leases()) {
    return InvalidClock("limits.end_leases", "false with until_idle");
  }
  const auto timeout_ms = limits.has_timeout() ? DurationToMs(limits.timeout())
                                               : std::optional<uint64_t>(kTimeoutMsDefault);
  if (!timeout_ms.has_value() || *timeout_ms == 0 || *timeout_ms > kTimeoutMsMax) {
    return InvalidClock("limits.timeout", "1 ms to 10 minutes");
  }
  options->timeout_ms = *timeout_ms;
  const int32_t listed_max = limits.has_hand_outs_max() ? limits.hand_outs_max() : kHandOutsDefault;
  if (listed_max < 0 || listed_max > kHandOutsMax) {
    return InvalidClock("limits.hand_outs_max", absl::StrCat("0 to ", kHandOutsMax));
  }
  options->listed_max = static_cast<size_t>(listed_max);
  return absl::OkStatus();
}

// Checks a target of the clock. `now_ms` is the time to which the request refers.
absl::Status ReadTarget(ApiWorker& worker, uint64_t now_ms, const std::string& field,
                        std::optional<uint64_t> to_ms, runtime::AdvanceOptions* options) {
  if (!to_ms.has_value() || *to_ms > worker.context().clock_driver->clock().limit_ms()) {
    return InvalidClock(field, "a time at most 8 years after the time at which the server started");
  }
  if (*to_ms <= now_ms) {
    return InvalidClock(field, "later than now: the clock moves forward only");
  }
  options->to_ms = *to_ms;
  return absl::OkStatus();
}

v1::Advanced::Stop StopToProto(runtime::AdvanceStop stop) {
  switch (stop) {
    case runtime::AdvanceStop::kReached:
      return v1::Advanced::STOP_REACHED;
    case runtime::AdvanceStop::kNothing:
      return v1::Advanced::STOP_NOTHING;
    case runtime::AdvanceStop::kSubscribers:
      return v1::Advanced::STOP_SUBSCRIBERS;
    case runtime::AdvanceStop::kTimeout:
      return v1::Advanced::STOP_TIMEOUT;
  }
  return v1::Advanced::STOP_UNSPECIFIED;
}

void FillAdvanced(ApiWorker& worker, const runtime::AdvanceReport& report, v1::Advanced* advanced) {
  FillClock(worker, advanced->mutable_clock());
  SetTimestamp(report.wall_ms, advanced->mutable_clock()->mutable_time());
  advanced->set_stop(StopToProto(report.stop));
  advanced->set_fired(static_cast<int64_t>(report.events.fired));
  advanced->set_handed_out(static_cast<int64_t>(report.events.handed_out));
  advanced->set_acked(static_cast<int64_t>(report.events.acked));
  advanced->set_nacked(static_cast<int64_t>(report.events.nacked));
  advanced->set_leases_lost(static_cast<int64_t>(report.events.leases_lost));
  advanced->set_expired(static_cast<int64_t>(report.events.expired));
  advanced->set_dead_lettered(static_cast<int64_t>(report.events.dead_lettered));
  advanced->set_dropped(static_cast<int64_t>(report.events.dropped));
  for (const runtime::HandOut& one : report.hand_outs.first) {
    v1::HandOut* const hand_out = advanced->add_hand_outs();
    SetTimestamp(one.time_ms, hand_out->mutable_time());
    hand_out->set_topic(one.topic);
    hand_out->set_subscription(one.subscription);
    hand_out->set_message_id(one.id.ToString());
    hand_out->set_attempt(static_cast<int32_t>(one.attempt));
  }
}

// Carries out an advance. Ends it if the client goes.
Co<absl::Status> Carry(ApiWorker& worker, rpc::Call& call, runtime::AdvanceOptions options,
                       v1::Advanced* advanced) {
  using Report = absl::StatusOr<runtime::AdvanceReport>;
  const auto gone = std::make_shared<std::atomic<bool>>(call.gone());
  call.on_gone = [gone] { gone->store(true); };
  auto moving = WaitFor<Report>([&worker, &options, gone](auto done) {
    const absl::Status begun =
        worker.context().clock_driver->Advance(options, gone, [&worker, done](Report report) {
          worker.RunHere([done, report = std::make_shared<Report>(std::move(report))]() mutable {
            done(std::move(*report));
          });
        });
    if (!begun.ok()) done(Report(begun));
  });
  const Report report = co_await moving;
  call.on_gone = nullptr;
  if (!report.ok()) co_return report.status();
  FillAdvanced(worker, *report, advanced);
  co_return absl::OkStatus();
}

}  // namespace

absl::Status GetClock(ApiWorker& worker, const v1::GetClockRequest&,
                      v1::GetClockResponse* response) {
  FillClock(worker, response->mutable_clock());
  return absl::OkStatus();
}

absl::Status SetClock(ApiWorker& worker, const v1::SetClockRequest& request,
                      v1::SetClockResponse* response) {
  const int32_t speed = request.speed() == 0 ? 1 : request.speed();
  if (speed < 1 || static_cast<uint32_t>(speed) > runtime::TestClock::kSpeedMax) {
    return InvalidClock("speed", absl::StrCat("1 to ", runtime::TestClock::kSpeedMax));
  }
  const absl::Status set = worker.context().clock_driver->SetPace(
      {.frozen = request.frozen(), .speed = static_cast<uint32_t>(speed)});
  if (!set.ok()) return set;
  FillClock(worker, response->mutable_clock());
  return absl::OkStatus();
}

Co<absl::Status> Advance(ApiWorker& worker, rpc::Call& call, const v1::AdvanceRequest& request,
                         v1::AdvanceResponse* response) {
  runtime::AdvanceOptions options;
  absl::Status status = ReadLimits(request.limits(), &options);
  if (!status.ok()) co_return status;
  const uint64_t now_ms = worker.context().clock->Read().wall_ms;
  if (request.has_by()) {
    std::optional<uint64_t> to_ms = DurationToMs(request.by());
    if (to_ms.has_value()) to_ms = now_ms + *to_ms;
    status = ReadTarget(worker, now_ms, "by", to_ms, &options);
  } else if (request.has_to()) {
    status = ReadTarget(worker, now_ms, "to", TimestampToMs(request.to()), &options);
  } else {
    status = InvalidClock("target", "`by` or `to`");
  }
  if (!status.ok()) co_return status;
  co_return co_await Carry(worker, call, options, response->mutable_advanced());
}

Co<absl::Status> AdvanceToNext(ApiWorker& worker, rpc::Call& call,
                               const v1::AdvanceToNextRequest& request,
                               v1::AdvanceToNextResponse* response) {
  runtime::AdvanceOptions options{.to_next = true};
  absl::Status status = ReadLimits(request.limits(), &options);
  if (!status.ok()) co_return status;
  options.to_ms = worker.context().clock_driver->clock().limit_ms();
  if (request.has_until()) {
    const uint64_t now_ms = worker.context().clock->Read().wall_ms;
    status = ReadTarget(worker, now_ms, "until", TimestampToMs(request.until()), &options);
    if (!status.ok()) co_return status;
  }
  co_return co_await Carry(worker, call, options, response->mutable_advanced());
}

}  // namespace duetime::api
