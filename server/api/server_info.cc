// SPDX-License-Identifier: Apache-2.0
//
// Admin.ServerInfo.
#include "server/api/server_info.h"

#include "server/api/access/authorization.h"
#include "server/api/cell_handlers.h"
#include "server/api/proto_time.h"
#include "server/api/query_validation.h"
#include "server/api/validation_error.h"
#include "storage/damage.h"

namespace duetime::api {
namespace {

v1::ServingState ServingStateToProto(ServingState state) {
  switch (state) {
    case ServingState::kStarting:
      return v1::SERVING_STATE_STARTING;
    case ServingState::kStandby:
      return v1::SERVING_STATE_STANDBY;
    case ServingState::kServing:
      return v1::SERVING_STATE_SERVING;
    case ServingState::kDraining:
      return v1::SERVING_STATE_DRAINING;
    case ServingState::kStorageFailed:
      return v1::SERVING_STATE_STORAGE_FAILED;
  }
  return v1::SERVING_STATE_UNSPECIFIED;
}

v1::ClockState ClockStateToProto(base::ClockState state) {
  switch (state) {
    case base::ClockState::kNormal:
      return v1::CLOCK_STATE_NORMAL;
    case base::ClockState::kSetBack:
      return v1::CLOCK_STATE_SET_BACK;
    case base::ClockState::kTest:
      return v1::CLOCK_STATE_TEST;
    case base::ClockState::kAhead:
      return v1::CLOCK_STATE_AHEAD;
  }
  return v1::CLOCK_STATE_UNSPECIFIED;
}

void FillLimits(const ServingContext& context, v1::Limits* limits) {
  const ServerOptions& options = context.options;
  SetDuration(options.limits.horizon_ms, limits->mutable_horizon());
  limits->set_payload_bytes_max(static_cast<int64_t>(options.limits.payload_bytes_max));
  limits->set_attributes_max(static_cast<int32_t>(options.limits.attributes_max));
  limits->set_attributes_bytes_max(static_cast<int64_t>(options.limits.attributes_bytes_max));
  limits->set_topic_bytes_max(static_cast<int32_t>(kTopicBytesMax));
  limits->set_batch_messages_max(static_cast<int32_t>(options.limits.batch_messages_max));
  limits->set_batch_bytes_max(static_cast<int64_t>(options.limits.batch_bytes_max));
  limits->set_topics_max(static_cast<int32_t>(context.node_options.catalog.topics_max));
  limits->set_outstanding_messages_max(
      static_cast<int32_t>(options.limits.outstanding_messages_max));
  limits->set_streams_max(static_cast<int32_t>(options.streams_max));
  limits->set_labels_max(static_cast<int32_t>(options.limits.labels_max));
  limits->set_key_bytes_max(static_cast<int32_t>(kKeyBytesMax));
  limits->set_list_page_max(static_cast<int32_t>(kPageSizeMax));
  limits->set_forecast_buckets_max(static_cast<int32_t>(kForecastBucketsMax));
  SetDuration(context.node_options.limits.tombstone_retention_ms,
              limits->mutable_tombstone_retention());
  SetDuration(context.node_options.limits.request_retention_ms,
              limits->mutable_request_retention());
  limits->set_topics_auto_create(context.node_options.catalog.auto_create);
  limits->set_subscriptions_max(
      static_cast<int32_t>(context.node_options.catalog.subscriptions_max));
}

void FillCounts(ServingContext& context, const runtime::Node& node, v1::Counts* counts) {
  protocol::ShardStats sum;
  for (const protocol::ShardStats& shard : node.shard_stats()) {
    sum.accepted += shard.accepted;
    sum.cancelled += shard.cancelled;
    sum.delivered += shard.delivered;
    sum.acked += shard.acked;
    sum.nacked += shard.nacked;
    sum.leases_lost += shard.leases_lost;
    sum.wheel_timers += shard.wheel_timers;
    sum.due_ready += shard.due_ready;
    sum.in_flight += shard.in_flight;
    sum.delayed += shard.delayed;
    sum.blocked += shard.blocked;
    sum.dead_lettered += shard.dead_lettered;
    sum.dead_letter_hops_refused += shard.dead_letter_hops_refused;
    sum.recurrences_stalled += shard.recurrences_stalled;
    sum.recurrences_made_anew += shard.recurrences_made_anew;
    sum.dropped += shard.dropped;
  }
  counts->set_accepted(static_cast<int64_t>(sum.accepted));
  counts->set_cancelled(static_cast<int64_t>(sum.cancelled));
  counts->set_delivered(static_cast<int64_t>(sum.delivered));
  counts->set_acked(static_cast<int64_t>(sum.acked));
  counts->set_nacked(static_cast<int64_t>(sum.nacked));
  counts->set_leases_lost(static_cast<int64_t>(sum.leases_lost));
  counts->set_pending_loaded(static_cast<int64_t>(sum.wheel_timers));
  counts->set_due_ready(static_cast<int64_t>(sum.due_ready));
  counts->set_in_flight(static_cast<int64_t>(sum.in_flight));
  counts->set_streams(static_cast<int64_t>(context.streams.load()));
  counts->set_topics(static_cast<int64_t>(context.catalog().counted()));
  counts->set_deleted_topics(
      static_cast<int64_t>(context.catalog().deleted_names(context.clock->Read().wall_ms)));
  counts->set_subscriptions(static_cast<int64_t>(context.catalog().subscriptions()));
  counts->set_delayed(static_cast<int64_t>(sum.delayed));
  counts->set_blocked(static_cast<int64_t>(sum.blocked));
  counts->set_dead_lettered(static_cast<int64_t>(sum.dead_lettered));
  counts->set_dead_letter_hops_refused(static_cast<int64_t>(sum.dead_letter_hops_refused));
  counts->set_recurrences_stalled(static_cast<int64_t>(sum.recurrences_stalled));
  counts->set_recurrences_made_anew(static_cast<int64_t>(sum.recurrences_made_anew));
  counts->set_dropped(static_cast<int64_t>(sum.dropped));
}

void FillDamage(const storage::DamageReport& report, v1::ServerInfoResponse* response) {
  constexpr int kBlocksMax = 100;
  if (report.blocks.empty() && report.stopped_families.empty()) return;
  v1::Damage* const damage = response->mutable_damage();
  damage->set_blocks_total(static_cast<int64_t>(report.blocks.size() + report.unlisted));
  for (const storage::DamagedBlock& block : report.blocks) {
    if (damage->blocks_size() == kBlocksMax) break;
    v1::DamagedBlock* const one = damage->add_blocks();
    one->set_file(block.file);
    one->set_offset(static_cast<int64_t>(block.offset));
    one->set_family(block.family);
    one->set_first_key(block.first_text);
    one->set_last_key(block.last_text);
  }
  for (const std::string& family : report.stopped_families) damage->add_stopped_families(family);
}

}  // namespace

Co<absl::Status> ServerInfo(ApiWorker& worker, rpc::Call& call, const v1::ServerInfoRequest&,
                            v1::ServerInfoResponse* response) {
  ServingContext& context = worker.context();
  const base::Now now = context.clock->Read();
  response->set_version(context.options.version);
  response->set_state(ServingStateToProto(context.state.load()));
  SetTimestamp(context.started.wall_ms, response->mutable_start_time());
  SetDuration(context.machine_clock->Read().mono_ms - context.started_machine_ms,
              response->mutable_uptime());
  SetTimestamp(now.wall_ms, response->mutable_server_time());
  response->set_clock_state(ClockStateToProto(context.clock->state()));
  response->set_leader_address(context.leader());
  FillCell(context, response);
  FillLimits(context, response->mutable_limits());
  if (const runtime::Node* node = context.node.load(); node != nullptr) {
    response->set_epoch(static_cast<int64_t>(context.epoch));
    response->set_shards(node->shard_count());
    response->set_disk_low(context.DiskLow());
    if (context.restored_ms > 0) {
      v1::Restored* const restored = response->mutable_restored();
      SetTimestamp(context.restored_snapshot_ms, restored->mutable_snapshot_time());
      SetTimestamp(context.restored_ms, restored->mutable_restore_time());
    }
    if (Allows(call.caller, access::Verb::kOperate, "")) {
      FillCounts(context, *node, response->mutable_counts());
      FillDamage(context.store->Damage(), response);
    }
  }
  co_return absl::OkStatus();
}

}  // namespace duetime::api
