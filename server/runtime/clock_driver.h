// SPDX-License-Identifier: Apache-2.0
//
// ClockDriver: moves the test clock of a node from event to event.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/mutex.h"
#include "server/runtime/node.h"
#include "server/runtime/test_clock.h"

namespace duetime::runtime {

struct AdvanceOptions {
  // Where the clock stops at the latest.
  uint64_t to_ms = 0;
  // Stop as soon as something has happened (ClockEvents, without what subscribers did).
  bool to_next = false;
  // At each time, wait until subscribers have settled all that they have.
  bool until_idle = false;
  // Go past the end of leases. Otherwise the clock waits for the subscribers that have them.
  bool end_leases = false;
  // How long the advance may take, on the machine's clock.
  uint64_t timeout_ms = 0;
  // The hand-outs that the report lists.
  size_t listed_max = 0;
};

// What happened, as numbers of messages, or of a message for one of its subscriptions.
struct ClockEvents {
  uint64_t fired = 0;
  uint64_t handed_out = 0;
  uint64_t acked = 0;
  uint64_t nacked = 0;
  uint64_t leases_lost = 0;
  uint64_t expired = 0;
  uint64_t dead_lettered = 0;
  uint64_t dropped = 0;

  friend bool operator==(const ClockEvents&, const ClockEvents&) = default;
};

enum class AdvanceStop : uint8_t {
  // The clock is at `to_ms`, or, with to_next, something has happened.
  kReached,
  // With to_next: nothing happens until `to_ms`. The clock may be anywhere before.
  kNothing,
  // The time was up, and subscribers hold messages.
  kSubscribers,
  // The time was up.
  kTimeout,
};

struct AdvanceReport {
  AdvanceStop stop{};
  // Server time at the end.
  uint64_t wall_ms = 0;
  ClockEvents events;
  HandOuts hand_outs;
};

// Moves the clock from event to event. At each one it waits until all shards have done what that
// time asks for, so that nothing overtakes, and a message is handed out at its own time. The clock
// stands still meanwhile; afterwards it goes on at its pace.
//
// Cost: a wake-up of each shard for each event; time without events costs nothing. Thread safety:
// the owner calls Start and Stop; the other functions from any thread.
class ClockDriver {
 public:
  using Done = std::function<void(absl::StatusOr<AdvanceReport>)>;

  // REQUIRES: both outlive the driver; the node's clock is `clock`.
  ClockDriver(TestClock* clock, Node* node);
  ~ClockDriver();
  ClockDriver(const ClockDriver&) = delete;
  ClockDriver& operator=(const ClockDriver&) = delete;

  void Start();
  // Ends an advance that runs, with DRAINING. Idempotent.
  void Stop();

  TestClock& clock() { return *clock_; }

  // Begins an advance; `done` gets the report, on the driver's thread. Setting `gone` ends it: its
  // client has gone. FAILED_PRECONDITION ADVANCE_RUNNING while another one runs; DRAINING after
  // Stop.
  absl::Status Advance(const AdvanceOptions& options, std::shared_ptr<std::atomic<bool>> gone,
                       Done done);
  // FAILED_PRECONDITION ADVANCE_RUNNING while an advance runs.
  absl::Status SetPace(ClockPace pace);

 private:
  struct Job {
    AdvanceOptions options;
    std::shared_ptr<std::atomic<bool>> gone;
    Done done;
  };

  void Run();
  absl::StatusOr<AdvanceReport> Carry(const Job& job);
  // Moves the clock until something of AdvanceStop is true.
  absl::StatusOr<AdvanceStop> Move(const Job& job);
  ClockEvents Events() const;

  TestClock* const clock_;
  Node* const node_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  base::Mutex mutex_;
  base::CondVar wake_;
  // From Advance until its report.
  std::optional<Job> job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::runtime
