// SPDX-License-Identifier: Apache-2.0
//
// Faults: what goes wrong in a cell, one fault after the other, and how long the cell takes to
// serve again.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/cells/clients.h"
#include "tests/cells/members.h"
#include "tests/cells/rig.h"

namespace duetime::cells {

// How long the cell may take to serve again, and the brokers to have all records.
inline constexpr std::chrono::seconds kServeTimeout(120);
inline constexpr std::chrono::seconds kInSyncTimeout(120);

// The cell that faults happen to. All members run, and no link is cut.
struct Cell {
  Rig* rig = nullptr;
  Members* members = nullptr;
  World* world = nullptr;
  std::string topic;
  std::mt19937_64* random = nullptr;
};

struct Fault {
  const char* name = "";
  // Whether another member leads afterwards, if nothing else fails.
  bool changes_leader = false;
  // Causes the fault to `leader`, lets it last, and ends it. Returns false if the rig failed.
  bool (*happen)(const Cell& cell, int leader) = nullptr;
};

// Faults of the member that leads, of another member, and of brokers.
std::span<const Fault> AllFaults();
const Fault& FaultOf(const std::string& name);

// How long clients waited for the cell in one fault: the longest time without a success, in
// milliseconds.
struct Outage {
  std::string fault;
  bool changed_leader = false;
  int64_t accepted_ms = 0;
  int64_t delivered_ms = 0;
  int64_t library_ms = 0;
  int64_t gateway_accepted_ms = 0;
  int64_t gateway_delivered_ms = 0;
};

// Starts all members, and waits until the cell serves.
bool StartCell(const Cell& cell);
// Waits until the cell serves. After this call, a member and the gateway accept a message, a client
// of a member and one of the gateway receive a message, and each member says that it leads or
// follows. Since its start, each member has named a leader in its log. Returns false, and prints
// why, if that takes too long or a process has ended.
bool AwaitServing(const Cell& cell, std::chrono::seconds timeout);
// Causes one fault, and waits until the cell serves and all brokers have all records. Prints a
// line. Returns false if that failed.
bool Cause(const Cell& cell, const Fault& fault, std::vector<Outage>* outages);
// Prints a table with a line for each fault.
void PrintOutages(const std::vector<Outage>& outages);
// The value that `percent` of the values do not exceed; 0 without values.
int64_t Percentile(std::vector<int64_t> values, int percent);

}  // namespace duetime::cells
