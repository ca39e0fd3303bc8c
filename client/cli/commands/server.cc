// SPDX-License-Identifier: Apache-2.0
//
// The commands for the server as a whole: forecast, info, damage.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/descriptor.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;
using client::FromProto;
using Bucket = v1::ForecastRequest::Bucket;

// A longer run of empty bars becomes one line.
constexpr int64_t kEmptyBarsMax = 3;

absl::Duration LengthOf(Bucket bucket) {
  switch (bucket) {
    case v1::ForecastRequest::BUCKET_SECOND:
      return absl::Seconds(1);
    case v1::ForecastRequest::BUCKET_MINUTE:
      return absl::Minutes(1);
    case v1::ForecastRequest::BUCKET_DAY:
      return absl::Hours(24);
    default:
      return absl::Hours(1);
  }
}

std::string BucketLabel(Bucket bucket, absl::Time time, const absl::TimeZone& zone) {
  return absl::FormatTime(
      bucket == v1::ForecastRequest::BUCKET_SECOND ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M", time,
      zone);
}

void AddEmpty(Bucket bucket, absl::Time from, absl::Time to, const absl::TimeZone& zone,
              std::vector<ChartRow>* rows) {
  const absl::Duration length = LengthOf(bucket);
  const int64_t count = (to - from) / length;
  if (count > kEmptyBarsMax) {
    rows->push_back({.label = "", .value = count});
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    rows->push_back({.label = BucketLabel(bucket, from + i * length, zone), .value = 0});
  }
}

std::string CountText(const v1::ForecastCount& count) {
  return absl::StrCat(count.messages(), " (", BytesText(count.bytes()), ")");
}

// A line for each field that has a value, by its name in the proto.
std::string AllFields(const Message& message, const absl::TimeZone& zone) {
  std::string text;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = message.GetDescriptor()->field(i);
    const bool is_bool = field->type() == google::protobuf::FieldDescriptor::TYPE_BOOL;
    Row row(field->name(), {});
    row.bytes = absl::StrContains(field->name(), "bytes");
    const std::string value = ValueText(row, message, is_bool ? "no" : "", zone);
    if (!value.empty()) absl::StrAppendFormat(&text, "  %-26s %s\n", field->name(), value);
  }
  return text;
}

std::string StartText(const v1::ServerInfoResponse& info, const absl::TimeZone& zone) {
  const absl::Duration uptime = absl::Trunc(FromProto(info.uptime()), absl::Seconds(1));
  return absl::StrCat(FormatTimeText(FromProto(info.start_time()), zone), " (start ", info.epoch(),
                      " of this data directory, up ", FormatAgeText(uptime), ")");
}

std::string ServerTimeText(const v1::ServerInfoResponse& info, const absl::TimeZone& zone) {
  const std::string time = FormatTimeText(FromProto(info.server_time()), zone);
  if (info.clock_state() <= v1::CLOCK_STATE_NORMAL) return time;
  return absl::StrCat(time, " (clock ", WordOf(info.clock_state()), ")");
}

std::string RestoredLine(const v1::ServerInfoResponse& info, const absl::TimeZone& zone) {
  if (!info.has_restored()) return "";
  return absl::StrCat("from a backup of ",
                      FormatTimeText(FromProto(info.restored().snapshot_time()), zone), ", on ",
                      FormatTimeText(FromProto(info.restored().restore_time()), zone),
                      ": see duetime restore status");
}

std::string DamageLine(const v1::ServerInfoResponse& info, const absl::TimeZone&) {
  if (!info.has_damage()) return "";
  return absl::StrCat(info.damage().blocks_total(), " damaged blocks: see duetime damage list");
}

absl::StatusOr<v1::Damage> ListDamage(Client* client, const v1::ServerInfoRequest&) {
  const absl::StatusOr<v1::ServerInfoResponse> info = client->ServerInfo();
  if (!info.ok()) return info.status();
  return info->damage();
}

}  // namespace

std::string DamageText(const v1::Damage& damage, const absl::TimeZone& zone) {
  if (damage.blocks().empty() && damage.stopped_families().empty()) {
    return "no damage was found since the start\n";
  }
  const Rows rows = {Row("file", {Column("FILE")}), Row("offset", {Column("OFFSET")}),
                     Row("family", {Column("HOLDS")}), Row("first_key", {Column("FROM")}),
                     Row("last_key", {Column("TO")})};
  std::string text = TableText(rows, damage.blocks(), zone);
  const int64_t more = damage.blocks_total() - damage.blocks_size();
  if (more > 0) absl::StrAppend(&text, "and ", more, " more\n");
  for (const std::string& family : damage.stopped_families()) {
    absl::StrAppend(&text, "the compactions of ", family, " are stopped\n");
  }
  return text;
}

std::string ForecastText(const v1::ForecastRequest& request, const v1::ForecastResponse& response,
                         const absl::TimeZone& zone) {
  std::vector<ChartRow> rows;
  absl::Time next = FromProto(response.start_time());
  int64_t in_range = 0;
  for (const v1::ForecastBucket& bucket : response.buckets()) {
    const absl::Time start = FromProto(bucket.start_time());
    AddEmpty(request.bucket(), next, start, zone, &rows);
    rows.push_back(
        {.label = BucketLabel(request.bucket(), start, zone), .value = bucket.count().messages()});
    in_range += bucket.count().messages();
    next = start + LengthOf(request.bucket());
  }
  AddEmpty(request.bucket(), next, FromProto(response.end_time()), zone, &rows);
  return absl::StrCat(ChartText(rows), "\n",
                      FieldsText({{"before", CountText(response.overdue())},
                                  {"in the chart", absl::StrCat(in_range)},
                                  {"later", CountText(response.later())},
                                  {"in all", CountText(response.total())}}));
}

std::string ServerInfoText(const v1::ServerInfoResponse& info, bool all,
                           const absl::TimeZone& zone) {
  const Rows rows = {
      Row("version", {Line("version")}),
      Row("state", {Line("state")}),
      Row("start_time", {As(StartText), Line("started")}),
      Row("server_time", {As(ServerTimeText), Line("server time")}),
      Row("shards", {Line("shards")}),
      Row("disk_low", {WordForTrue("LOW: new messages are refused"), Warns(), Line("disk")}),
      Row("restored", {As(RestoredLine), Line("restored")}),
      Row("damage", {As(DamageLine), Warns(), Line("damage")}),
  };
  if (all) {
    return absl::StrCat(LinesText(rows, info, zone), "\nnow, and since the start\n",
                        AllFields(info.counts(), zone), "\nlimits\n",
                        AllFields(info.limits(), zone));
  }
  // The server shows its counts only to clients with the right to operate.
  if (!info.has_counts()) return LinesText(rows, info, zone);
  const Rows counts = {
      Row("topics", {Line("topics")}),
      Row("deleted_topics", {HidesZero(), Line("deleted")}),
      Row("subscriptions", {Line("subscriptions")}),
      Row("streams", {Line("subscribers")}),
      Row("due_ready", {Line("ready")}),
      Row("in_flight", {Line("in flight")}),
      Row("delayed", {HidesZero(), Line("to be retried")}),
      Row("blocked", {HidesZero(), Line("held in order")}),
  };
  const Rows totals = {
      Row("accepted", {Line("accepted")}),
      Row("delivered", {Line("delivered")}),
      Row("acked", {Line("acked")}),
      Row("cancelled", {HidesZero(), Line("cancelled")}),
      Row("dead_lettered", {HidesZero(), Line("dead letters")}),
      Row("dead_letter_hops_refused", {HidesZero(), Line("out of hops")}),
      Row("dropped", {HidesZero(), Line("dropped")}),
  };
  return absl::StrCat(LinesText(rows, info, zone), "\nnow\n",
                      LinesText(counts, info.counts(), zone), "\nsince the start\n",
                      LinesText(totals, info.counts(), zone));
}

Commands ServerCommands() {
  return {
      {"forecast",
       "Show how many messages become due when, as a chart",
       "Bars are minutes, hours and days of UTC; their times are shown in this machine's zone.",
       {"", "orders --bucket minute --buckets 90",
        "orders --bucket day --from \"2026-12-01 00:00\" --json"},
       {Row("topic", "TOPIC", "The topic; default: all topics together"),
        Row("bucket", "--bucket", "How much time one bar stands for", {Default("hour")}),
        Row("buckets", "--buckets",
            "How many bars (default: 60 seconds, 60 minutes, 24 hours or 30 days)",
            {Range(1, 10'000)}),
        Row("start_time", "--from",
            "The moment in the first bar (default: now): \"2026-12-24 18:00\" or +2d")},
       Call(&AdminClient::Forecast, ForecastText)},
      {"info",
       "Show the server's version, state, counts and limits",
       "",
       {"--all", "--server 10.0.0.7:7788 --tls-ca ca.pem"},
       {Row("", "--all", "Show every count, and the limits", {Type(Row::Type::kFlag)})},
       Do<Client, v1::ServerInfoRequest>([](const Settings& settings, const Input& input,
                                            const v1::ServerInfoRequest&, Client* client) {
         return Show(settings, client->ServerInfo(), [&](const v1::ServerInfoResponse& info) {
           return ServerInfoText(info, input.Has("--all"), settings.zone);
         });
       })},
      {"damage",
       "Show what of the data on disk cannot be read",
       "Each command has its own help: duetime damage list --help",
       {"list"}},
      {"damage list",
       "List the damaged blocks that were found since the start of the server",
       "Messages in a damaged block are not delivered, and calls that need it fail with "
       "CHECKSUM_MISMATCH. Everything else is served.",
       {""},
       {},
       Call<Client, v1::ServerInfoRequest>(ListDamage, DamageText)},
  };
}

}  // namespace duetime::cli
