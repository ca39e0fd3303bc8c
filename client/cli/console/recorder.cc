// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/recorder.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

// A server that does not answer must not keep the person from ending the console.
constexpr absl::Duration kDeadlineMax = absl::Seconds(2);

// The sample that metrics make: counts without topics.
Sample SampleOf(absl::string_view metrics) {
  Sample sample;
  *sample.info.mutable_server_time() = client::ToProto(absl::Now());
  const auto count = [metrics](const char* name) {
    return static_cast<int64_t>(SumOf(metrics, name));
  };
  v1::Counts* counts = sample.info.mutable_counts();
  counts->set_accepted(count("duetime_messages_accepted_total"));
  counts->set_delivered(count("duetime_deliveries_total"));
  counts->set_acked(count("duetime_acks_total"));
  return sample;
}

}  // namespace

absl::StatusOr<Recorder::Sources> Recorder::SourcesOf(
    const Settings& settings, bool login, const std::optional<ConsoleAddress>& metrics) {
  Sources sources = {.client = nullptr, .admin = nullptr, .metrics = metrics};
  if (login) return sources;
  client::ClientOptions options;
  options.server = settings.server;
  options.deadline = std::min(settings.deadline, kDeadlineMax);
  options.attempts_max = 1;
  options.separate_calls = true;
  auto client = client::Client::Create(options);
  if (!client.ok()) return client.status();
  auto admin = client::AdminClient::Create(options);
  if (!admin.ok()) return admin.status();
  sources.client = *std::move(client);
  sources.admin = *std::move(admin);
  return sources;
}

Recorder::Recorder(Sources sources, Signals* signals, History* history)
    : sources_(std::move(sources)), history_(history) {
  if (sources_.client != nullptr) {
    sampler_.emplace(sources_.client.get(), sources_.admin.get(), /*prefix=*/"", signals);
  }
}

absl::StatusOr<Sample> Recorder::Read(const std::string& metrics) {
  if (sampler_.has_value()) return sampler_->Read();
  if (metrics.empty()) return absl::UnavailableError("no metrics");
  return SampleOf(metrics);
}

void Recorder::Record() {
  constexpr double kMs = 1'000;
  constexpr double kMost = 0.99;
  if (!sampler_.has_value() && !sources_.metrics.has_value()) return;
  std::string metrics;
  if (sources_.metrics.has_value()) {
    metrics = FetchMetrics(*sources_.metrics).value_or("");
  }
  absl::StatusOr<Sample> now = Read(metrics);
  Buckets late = BucketsOf(metrics, "duetime_delivery_lateness_seconds");
  if (!now.ok()) {
    history_->AddGap(absl::Now());
    before_.reset();
  } else {
    // Without a reading before, the buckets are those since the start of the server.
    const bool known = !late_before_.empty();
    const auto quantile = [&](double share) {
      return QuantileOf(known ? late_before_ : late, late, share) * kMs;
    };
    history_->Add(before_.has_value() ? &*before_ : nullptr, *now,
                  {.half_ms = quantile(0.5), .most_ms = quantile(kMost)});
    before_ = *std::move(now);
  }
  late_before_ = std::move(late);
}

}  // namespace duetime::cli
