// SPDX-License-Identifier: Apache-2.0
//
// ServingContext: the state that all calls of a server share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/api/reply_table.h"
#include "server/api/server_options.h"
#include "server/catalog/snapshot.h"
#include "server/protocol/answer_budget.h"
#include "server/rpc/server_state.h"
#include "server/runtime/node.h"
#include "server/runtime/reader.h"
#include "storage/message_store.h"

namespace duetime::access {
class AccessControl;
}
namespace duetime::cell {
class Roster;
}
namespace duetime::runtime {
class AuditLog;
class Backups;
class ClockDriver;
}  // namespace duetime::runtime

namespace duetime::api {

using rpc::ServingState;

inline constexpr uint64_t kDamagedRetryMs = 3'600'000;

// The kinds of calls that the serving state admits or refuses.
enum class CallKind : uint8_t {
  kSchedule,
  kSubscribe,
  // All other calls, such as Cancel and Get: allowed while draining.
  kOther,
  // Allowed at any time.
  kAlways,
};

// Access control and audit log. Each may be null. Both outlive the server.
struct Guards {
  access::AccessControl* access = nullptr;
  runtime::AuditLog* audit = nullptr;
};

// Thread-safe. The plain fields are constant once the first call is served.
struct ServingContext : rpc::ServerState {
  ServingContext(ServerOptions server_options, const runtime::NodeOptions& node_settings,
                 base::Clock* server_clock, metrics::RpcStats* rpc_stats, const Guards& guards)
      : rpc::ServerState(server_clock, rpc_stats),
        options(std::move(server_options)),
        node_options(node_settings),
        access(guards.access),
        audit(guards.audit),
        open_answers(std::make_shared<protocol::AnswerBudget>(options.open_answers_bytes_max)) {
    slow_request_ms = options.slow_request_ms;
  }

  // OK, or why a call of this kind is refused now: STARTING, NOT_LEADER, DRAINING, STORAGE_FAILED,
  // DISK_LOW.
  absl::Status Admit(CallKind kind) const;

  // Why a server in the state kStorageFailed does nothing. In a cell that is mostly a change of
  // leader, and another member serves soon.
  absl::Status FailedError() const;

  // REQUIRES: node is not null.
  bool DiskLow() const { return disk_low != nullptr && disk_low(); }

  // The newest version of the topics and subscriptions. The reference is valid until this thread
  // calls the function again, so not across a co_await. REQUIRES: the server serves.
  const catalog::Snapshot& catalog() const {
    return node.load(std::memory_order_acquire)->snapshots().Read();
  }
  // The topic, or the subscription of a topic, that a request names. `field`: the path of the
  // topic's name in the request. FindTopic: INVALID_TOPIC, TOPIC_NOT_FOUND. FindSubscription: null
  // if there is no such topic or subscription.
  absl::StatusOr<catalog::TopicPtr> FindTopic(absl::string_view name,
                                              const std::string& field) const;
  catalog::SubscriptionPtr FindSubscription(absl::string_view topic, absl::string_view name) const;
  // For a check of a topic that does not exist: the error that creation by use would return now.
  // TOPIC_NOT_FOUND, TOPIC_LIMIT.
  absl::Status MayCreateTopic(absl::string_view name) const;

  // Logs and counts the leases of damaged records, and gives the messages back with the delay
  // kDamagedRetryMs. Such messages stay pending, so that clients can see and cancel them, and the
  // server does not read them over and over. The confirmations go to `stream`.
  void GiveBackDamaged(protocol::StreamId stream, const std::vector<protocol::LeaseToken>& tokens);

  const ServerOptions options;
  const runtime::NodeOptions node_options;
  // Null: every client may do everything.
  access::AccessControl* const access;
  // Null: there is no audit log.
  runtime::AuditLog* const audit;
  // Bounds the answers of calls whose answers hold payloads or pages.
  const protocol::AnswerBudgetPtr open_answers;
  // Open calls whose commands a full mailbox takes: Settle, and calls that start or stop bulk
  // operations. At most as many of each as one mailbox takes commands. See rpc::OpenCount.
  std::atomic<uint64_t> settle_calls{0};
  std::atomic<uint64_t> operation_calls{0};
  // Null until Serve, which sets the fields below first.
  std::atomic<runtime::Node*> node{nullptr};
  storage::MessageStore* store = nullptr;
  runtime::Reader* reader = nullptr;
  runtime::Backups* backups = nullptr;
  // Null unless the server's clock is a test clock.
  runtime::ClockDriver* clock_driver = nullptr;
  // When the backup was taken that the directory was made from, and when it was made; else 0.
  uint64_t restored_snapshot_ms = 0;
  uint64_t restored_ms = 0;
  uint64_t epoch = 0;
  std::function<bool()> disk_low;
  base::Now started;
  // The same on the machine's steady clock.
  uint64_t started_machine_ms = 0;

  // Set before Listen. Null without a cell; outlives the server.
  const cell::Roster* roster = nullptr;
  std::string cell_member;
  // A client wants another member to lead.
  std::atomic<bool> hand_over{false};
};

}  // namespace duetime::api
