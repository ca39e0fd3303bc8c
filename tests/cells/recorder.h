// SPDX-License-Identifier: Apache-2.0
//
// Recorder: writes the calls of one client of a cell to the history.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "tests/cells/leaderships.h"
#include "tests/cells/rig.h"
#include "tests/crash/kill9_clients.h"
#include "tests/support/history.h"

namespace duetime::cells {

// The moments of one kind of success. Thread-safe.
class Pulse {
 public:
  void Beat();
  // The last beat; 0 without one.
  int64_t last_ms() const;
  // The longest time without a beat from the last beat before `from_ms` on, as of `to_ms`, in
  // milliseconds. Moments are crash::SteadyMillis.
  int64_t LongestGap(int64_t from_ms, int64_t to_ms) const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<int64_t> beats_;
};

// What all clients of a cell share. Thread-safe.
struct World {
  test::HistoryWriter* history = nullptr;
  // The run of an event is the epoch of its leader.
  Leaderships* leaderships = nullptr;
  crash::AcceptedMessages accepted{};
  // Messages that a member accepted from a direct client, from a client of the library, and from
  // one behind a gateway.
  Pulse accepted_directly{};
  Pulse accepted_by_library{};
  Pulse accepted_by_gateway{};
  Pulse delivered{};
  Pulse delivered_by_gateway{};
  // Answers of each member that show that it leads or follows.
  std::array<Pulse, kMembers> answered{};
};

// Milliseconds since 1970.
int64_t ToMillis(const google::protobuf::Timestamp& time);
void SetMillis(int64_t ms, google::protobuf::Duration* duration);

// Call Begin... before the request leaves, and End... with the answer. An answer counts for the
// newest epoch, because it says nothing of its own.
//
// Thread safety: one thread at a time, with one call open.
class Recorder {
 public:
  // `client` is below kEarlierTry, and no other client has it.
  Recorder(World* world, uint16_t client) : world_(*world), client_(client) {}

  // Returns the number of a new message.
  uint32_t BeginSchedule(int64_t delay_ms);
  void EndSchedule(uint32_t number, const absl::Status& status, const v1::Message& message);
  void BeginCancel(uint32_t number, bool stop_redelivery);
  // `tried_before`: an earlier try of this call had no answer.
  void EndCancel(const absl::Status& status, const v1::CancelResponse& response, bool tried_before);
  void BeginMove(uint32_t number, int64_t delay_ms);
  void EndMove(const absl::Status& status, const v1::RescheduleResponse& response);
  void BeginGet(uint32_t number);
  void EndGet(const absl::Status& status, const v1::Message& message);

 private:
  // The number of the client whose call the earlier try of a call is.
  static constexpr uint16_t kEarlierTry = 1'000;

  void Begin(const test::Event& event);
  void End(test::Event event);

  World& world_;
  const uint16_t client_;
  // The open call.
  test::Event begun_;
};

}  // namespace duetime::cells
