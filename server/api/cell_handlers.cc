// SPDX-License-Identifier: Apache-2.0
#include "server/api/cell_handlers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "server/api/proto_time.h"
#include "server/base/error.h"
#include "server/cell/roster.h"

namespace duetime::api {
namespace {

absl::Status CellError(const char* reason, const char* text) {
  return base::MakeError(absl::StatusCode::kFailedPrecondition, text,
                         {.reason = reason, .field = "", .metadata = {}, .retry_after_ms = 0});
}

}  // namespace

void FillCell(const ServingContext& context, v1::ServerInfoResponse* response) {
  if (context.roster == nullptr) return;
  v1::Cell* const cell = response->mutable_cell();
  cell->set_member(context.cell_member);
  for (const cell::RosterEntry& entry : context.roster->List()) {
    v1::CellMember* const member = cell->add_members();
    member->set_name(entry.report.name);
    member->set_address(entry.report.address);
    member->set_leads(entry.report.leads);
    member->set_epoch(static_cast<int64_t>(entry.epoch));
    member->set_groups(static_cast<int64_t>(entry.groups));
    member->set_durable_offset(static_cast<int64_t>(entry.report.durable_offset));
    SetDuration(entry.age_ms, member->mutable_report_age());
    if (entry.clock.has_value()) {
      SetDifference(cell::AtLeast(*entry.clock), member->mutable_clock_difference());
    }
    member->set_clocks_apart(static_cast<int32_t>(entry.clocks_apart));
  }
}

Co<absl::Status> HandOver(ApiWorker& worker, rpc::Call&, const v1::HandOverRequest&,
                          v1::HandOverResponse*) {
  ServingContext& context = worker.context();
  if (context.roster == nullptr) {
    co_return CellError("NOT_IN_CELL", "this server is alone: there is no member to lead");
  }
  const std::vector<cell::RosterEntry> members = context.roster->List();
  const bool standby = std::any_of(members.begin(), members.end(), [&](const auto& member) {
    return member.report.name != context.cell_member && member.present();
  });
  if (!standby) {
    co_return CellError("NO_STANDBY", "no other member of the cell has reported in 30 s");
  }
  context.hand_over.store(true);
  co_return absl::OkStatus();
}

}  // namespace duetime::api
