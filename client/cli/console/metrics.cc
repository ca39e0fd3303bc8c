// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/metrics.h"

#include <cmath>
#include <httplib.h>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "client/cli/console/http_error.h"

namespace duetime::cli {
namespace {

constexpr int kTimeoutSeconds = 3;
constexpr size_t kBytesMax = 8 << 20;

}  // namespace

absl::StatusOr<std::string> FetchMetrics(const ConsoleAddress& address) {
  httplib::Client client(address.host, address.port);
  client.set_connection_timeout(kTimeoutSeconds);
  client.set_read_timeout(kTimeoutSeconds);
  std::string text;
  const httplib::Result result = client.Get("/metrics", [&text](const char* data, size_t size) {
    text.append(data, size);
    return text.size() <= kBytesMax;
  });
  if (result && result->status == 200) return text;
  return MakeError(absl::StatusCode::kUnavailable, "METRICS_UNAVAILABLE",
                   absl::StrCat("no metrics at ", address.Text()));
}

void ForEach(absl::string_view metrics, absl::string_view name,
             const std::function<void(absl::string_view labels, double value)>& use) {
  for (absl::string_view line : absl::StrSplit(metrics, '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    absl::string_view labels;
    if (absl::ConsumePrefix(&line, "{")) {
      const size_t end = line.rfind('}');
      if (end == absl::string_view::npos) continue;
      labels = line.substr(0, end);
      line.remove_prefix(end + 1);
    }
    double value = 0;
    // Another metric may have a name that begins with this one.
    if (absl::ConsumePrefix(&line, " ") && absl::SimpleAtod(line, &value)) use(labels, value);
  }
}

absl::string_view LabelOf(absl::string_view labels, absl::string_view name) {
  for (absl::string_view label : absl::StrSplit(labels, ',')) {
    if (absl::ConsumePrefix(&label, name) && absl::ConsumePrefix(&label, "=\"") &&
        absl::ConsumeSuffix(&label, "\"")) {
      return label;
    }
  }
  return "";
}

double SumOf(absl::string_view metrics, absl::string_view name) {
  double sum = 0;
  ForEach(metrics, name, [&sum](absl::string_view, double value) { sum += value; });
  return sum;
}

Buckets BucketsOf(absl::string_view metrics, absl::string_view name) {
  constexpr absl::string_view kBound = "le=\"";
  Buckets buckets;
  ForEach(metrics, absl::StrCat(name, "_bucket"), [&](absl::string_view labels, double value) {
    const size_t begin = labels.find(kBound);
    if (begin == absl::string_view::npos) return;
    const absl::string_view rest = labels.substr(begin + kBound.size());
    double bound = 0;
    if (absl::SimpleAtod(rest.substr(0, rest.find('"')), &bound)) buckets[bound] += value;
  });
  return buckets;
}

double QuantileOf(const Buckets& before, const Buckets& now, double share) {
  const auto since = [&before](const Buckets::value_type& bucket) {
    const auto earlier = before.find(bucket.first);
    const double count = earlier == before.end() ? 0 : earlier->second;
    // A counter that went back began again, in a new run of the server.
    return bucket.second >= count ? bucket.second - count : bucket.second;
  };
  double found = std::numeric_limits<double>::quiet_NaN();
  if (now.empty() || since(*now.rbegin()) <= 0) return found;
  const double wanted = share * since(*now.rbegin());
  for (const auto& bucket : now) {
    if (std::isfinite(bucket.first)) found = bucket.first;
    if (since(bucket) >= wanted) break;
  }
  return found;
}

}  // namespace duetime::cli
