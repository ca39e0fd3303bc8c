// SPDX-License-Identifier: Apache-2.0
//
// The daemon as a member of a cell.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/api/server.h"
#include "server/base/clock.h"
#include "server/cell/roster.h"
#include "server/config/config.h"
#include "server/kafka/kafka_log.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime {

// Waits for no broker. INVALID_ARGUMENT: a knob is not valid. REQUIRES: the configuration names
// brokers.
absl::StatusOr<std::unique_ptr<kafka::KafkaLog>> OpenCellLog(const config::Config& config);

// Follows the cell's log on a thread of its own until this member leads. Thread safety: the owner's
// thread, but what journal() may do on others.
class Membership {
 public:
  // Starts to follow the log. Contacts the brokers later, and waits for them. An error is one of
  // the knobs. REQUIRES: the configuration names brokers; it, store, clock and roster outlive the
  // membership; the store is open until EndTending, or the membership has ended.
  static absl::StatusOr<std::unique_ptr<Membership>> Begin(const config::Config& config,
                                                           storage::RocksDbStore* store,
                                                           base::Clock* clock,
                                                           cell::Roster* roster);
  ~Membership();

  // True once this member leads, or cannot go on: then status() is the error. Tells `server` who
  // leads meanwhile.
  bool Decided(api::Server* server);
  // OK if this member leads. ABORTED: another member began to lead, or this member has fetched a
  // checkpoint; the caller opens the data directory again and begins a new membership.
  absl::Status status() const;

  // A leader removes nothing from the log while `keeps_log` returns true. A member whose `disk_low`
  // returns true leaves the lead to others. Any thread may ask. REQUIRES: not decided yet.
  void Ask(std::function<bool()> keeps_log, std::function<bool()> disk_low);
  // Ends the reports to the log and its trims.
  void EndTending();

  // This member leads, and should not, because its clock is wrong or its disk low. Any thread.
  bool hands_over() const;
  // True while this member's epoch is the last one, also if its node has failed. REQUIRES: no
  // append runs.
  bool leads() const;
  // REQUIRES: this member leads.
  storage::Journal* journal();
  // From then on the journal waits for no broker, so that the node can stop.
  void EndWithin(uint64_t ms);
  // Tells the others that nobody leads, so that one takes over at once. REQUIRES: nothing else
  // appends.
  void Resign();

 private:
  class Impl;
  explicit Membership(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime
