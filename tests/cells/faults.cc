// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/faults.h"

#include <algorithm>
#include <cstdio>
#include <grpcpp/grpcpp.h>
#include <map>
#include <thread>
#include <utility>

#include "duetime/v1/admin.grpc.pb.h"

namespace duetime::cells {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Longer than a member waits before it takes over: 1.5 s, up to a fifth longer, and the time that
// the former leader may serve.
constexpr milliseconds kTakesOver(3'500);
// Longer than the brokers need to give the partition another leader.
constexpr milliseconds kBrokerIsAway(12'000);
// Longer than cell_log_keep_ms: then the leader has removed the beginning of the log.
constexpr milliseconds kTrims(4'000);
constexpr seconds kStartTimeout(120);
constexpr milliseconds kLookAgain(20);
// A fault is not over before this time after the first success, so that a second stop counts.
constexpr milliseconds kSettles(1'500);

void Sleep(milliseconds time) { std::this_thread::sleep_for(time); }

void Record(const Cell& cell, test::What what) { cell.world->history->Add({.what = what}); }

// Up to `most`, so that a fault ends before, while or after another member takes over.
milliseconds SomeTime(const Cell& cell, milliseconds most) {
  return milliseconds((*cell.random)() % static_cast<uint64_t>(most.count()));
}

// A member that does not lead.
int Standby(const Cell& cell, int leader) {
  const int step = 1 + static_cast<int>((*cell.random)() % (kMembers - 1));
  return (leader + step) % kMembers;
}

// The broker that leads the partition of the log, or any if none does.
int LeadingBroker(const Cell& cell) {
  const auto partition = cell.rig->PartitionOf(cell.topic);
  return partition.has_value() && partition->leader >= 0 ? partition->leader : 0;
}

bool KillLeader(const Cell& cell, int leader) {
  Record(cell, test::What::kKill);
  cell.members->Kill(leader);
  Sleep(SomeTime(cell, kTakesOver));
  cell.members->Start(leader);
  return true;
}

bool StopLeader(const Cell& cell, int leader) {
  Record(cell, test::What::kStop);
  const bool stopped = cell.members->Terminate(leader);
  Sleep(SomeTime(cell, milliseconds(1'000)));
  cell.members->Start(leader);
  return stopped;
}

bool PauseLeader(const Cell& cell, int leader) {
  cell.members->Pause(leader);
  Sleep(kTakesOver + SomeTime(cell, milliseconds(1'500)));
  cell.members->Resume(leader);
  return true;
}

bool HandOver(const Cell& /*cell*/, int leader) {
  const auto stub = v1::Admin::NewStub(Connect(MemberAddress(leader)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(5));
  v1::HandOverResponse response;
  const grpc::Status status = stub->HandOver(&context, {}, &response);
  if (!status.ok()) std::printf("hand over: %s\n", status.error_message().c_str());
  return status.ok();
}

// Clients still reach the leader.
bool CutLeaderFromBrokers(const Cell& cell, int leader) {
  if (!cell.rig->Cut(MemberHost(leader), AllBrokers())) return false;
  Sleep(kTakesOver + SomeTime(cell, milliseconds(1'500)));
  return cell.rig->Heal();
}

bool CutLeader(const Cell& cell, int leader) {
  const std::string others = AllBrokers() + "," + MembersBut(leader) + "," + kClientsHost;
  if (!cell.rig->Cut(MemberHost(leader), others)) return false;
  Sleep(kTakesOver + SomeTime(cell, milliseconds(1'500)));
  return cell.rig->Heal();
}

// The brokers still reach the leader.
bool MuteLeader(const Cell& cell, int leader) {
  if (!cell.rig->CutOneWay(MemberHost(leader), AllBrokers())) return false;
  Sleep(kTakesOver + SomeTime(cell, milliseconds(1'500)));
  return cell.rig->Heal();
}

// The leader still reaches the brokers.
bool DeafenLeader(const Cell& cell, int leader) {
  if (!cell.rig->CutOneWay(AllBrokers(), MemberHost(leader))) return false;
  Sleep(kTakesOver + SomeTime(cell, milliseconds(1'500)));
  return cell.rig->Heal();
}

bool WipeLeader(const Cell& cell, int leader) {
  Sleep(kTrims);
  Record(cell, test::What::kKill);
  cell.members->Kill(leader);
  cell.members->Wipe(leader);
  Sleep(SomeTime(cell, kTakesOver));
  cell.members->Start(leader);
  return true;
}

// The standby is behind, and then the leader dies.
bool PauseStandbyAndKillLeader(const Cell& cell, int leader) {
  const int standby = Standby(cell, leader);
  cell.members->Pause(standby);
  Sleep(milliseconds(1'000));
  Record(cell, test::What::kKill);
  cell.members->Kill(leader);
  Sleep(milliseconds(300));
  cell.members->Resume(standby);
  Sleep(kTakesOver);
  cell.members->Start(leader);
  return true;
}

bool KillStandby(const Cell& cell, int leader) {
  const int standby = Standby(cell, leader);
  Record(cell, test::What::kKill);
  cell.members->Kill(standby);
  Sleep(SomeTime(cell, milliseconds(1'000)));
  cell.members->Start(standby);
  Sleep(milliseconds(500));
  return true;
}

bool WipeStandby(const Cell& cell, int leader) {
  const int standby = Standby(cell, leader);
  Sleep(kTrims);
  Record(cell, test::What::kKill);
  cell.members->Kill(standby);
  cell.members->Wipe(standby);
  cell.members->Start(standby);
  Sleep(milliseconds(1'000));
  return true;
}

bool KillBroker(const Cell& cell, int /*leader*/) {
  const int broker = LeadingBroker(cell);
  if (!cell.rig->KillBroker(broker)) return false;
  Sleep(kBrokerIsAway);
  return cell.rig->StartBroker(broker);
}

bool CutBroker(const Cell& cell, int /*leader*/) {
  const int broker = LeadingBroker(cell);
  const std::string others = BrokersBut(broker) + "," + MembersBut(-1);
  if (!cell.rig->Cut(BrokerHost(broker), others)) return false;
  Sleep(kBrokerIsAway);
  return cell.rig->Heal();
}

// The members still reach the broker that leads the partition; the other brokers do not.
bool SplitBrokers(const Cell& cell, int /*leader*/) {
  const int broker = LeadingBroker(cell);
  if (!cell.rig->Cut(BrokerHost(broker), BrokersBut(broker))) return false;
  Sleep(kBrokerIsAway);
  return cell.rig->Heal();
}

bool PauseBroker(const Cell& cell, int /*leader*/) {
  const int broker = LeadingBroker(cell);
  if (!cell.rig->PauseBroker(broker)) return false;
  Sleep(kBrokerIsAway);
  return cell.rig->ResumeBroker(broker);
}

bool KillTwoBrokers(const Cell& cell, int /*leader*/) {
  const int first = LeadingBroker(cell);
  const int second = (first + 1) % kBrokers;
  if (!cell.rig->KillBroker(first) || !cell.rig->KillBroker(second)) return false;
  Sleep(milliseconds(3'000));
  return cell.rig->StartBroker(first) && cell.rig->StartBroker(second);
}

constexpr Fault kFaults[] = {
    {"kill the leader", true, &KillLeader},
    {"stop the leader", true, &StopLeader},
    {"ask the leader to hand over", true, &HandOver},
    {"pause the leader", true, &PauseLeader},
    {"cut the leader from the brokers", true, &CutLeaderFromBrokers},
    {"cut the leader from everything", true, &CutLeader},
    {"cut the way from the leader to the brokers", true, &MuteLeader},
    {"cut the way from the brokers to the leader", true, &DeafenLeader},
    {"delete the leader's directory", true, &WipeLeader},
    {"kill the leader while a standby is paused", true, &PauseStandbyAndKillLeader},
    {"kill a standby", false, &KillStandby},
    {"delete a standby's directory", false, &WipeStandby},
    {"kill the leading broker", false, &KillBroker},
    {"cut the leading broker", false, &CutBroker},
    {"cut the leading broker from the others", false, &SplitBrokers},
    {"pause the leading broker", false, &PauseBroker},
    {"kill two of three brokers", false, &KillTwoBrokers},
};

bool AllAlive(const Cell& cell) {
  for (int member = 0; member < kMembers; ++member) {
    if (!cell.members->Alive(member)) return false;
  }
  return cell.members->GatewayAlive();
}

// If a fault did not wait for this, faults could delete all directories before a member has a copy.
bool AllNameLeader(const Cell& cell) {
  for (int member = 0; member < kMembers; ++member) {
    if (!cell.members->NamesLeader(member)) return false;
  }
  return true;
}

}  // namespace

std::span<const Fault> AllFaults() { return kFaults; }

const Fault& FaultOf(const std::string& name) {
  return *std::find_if(std::begin(kFaults), std::end(kFaults),
                       [&](const Fault& fault) { return fault.name == name; });
}

bool StartCell(const Cell& cell) {
  for (int member = 0; member < kMembers; ++member) cell.members->Start(member);
  const int64_t begun_ms = crash::SteadyMillis();
  while (cell.world->leaderships->Leader() < 0) {
    if (crash::SteadyMillis() - begun_ms > milliseconds(kStartTimeout).count()) {
      std::printf("no member leads\n");
      return false;
    }
    if (!AllAlive(cell)) return false;
    Sleep(kLookAgain);
  }
  return true;
}

bool AwaitServing(const Cell& cell, seconds timeout) {
  const int64_t begun_ms = crash::SteadyMillis();
  std::vector<std::pair<std::string, const Pulse*>> awaited = {
      {"no member accepts a message", &cell.world->accepted_directly},
      {"the library's calls fail", &cell.world->accepted_by_library},
      {"the gateway's calls fail", &cell.world->accepted_by_gateway},
      {"no message comes through the gateway", &cell.world->delivered_by_gateway},
      {"no message is delivered", &cell.world->delivered}};
  for (int member = 0; member < kMembers; ++member) {
    awaited.emplace_back(MemberHost(member) + " neither leads nor follows",
                         &cell.world->answered[static_cast<size_t>(member)]);
  }
  while (true) {
    std::erase_if(awaited, [&](const auto& one) { return one.second->last_ms() > begun_ms; });
    const bool all_name_leader = AllNameLeader(cell);
    if (awaited.empty() && all_name_leader) return true;
    if (crash::SteadyMillis() - begun_ms > milliseconds(timeout).count()) {
      for (const auto& [text, pulse] : awaited) std::printf("%s\n", text.c_str());
      if (!all_name_leader) std::printf("a member names no leader\n");
      return false;
    }
    if (!AllAlive(cell)) return false;
    Sleep(kLookAgain);
  }
}

bool Cause(const Cell& cell, const Fault& fault, std::vector<Outage>* outages) {
  Leaderships* const leaderships = cell.world->leaderships;
  const int leader = leaderships->Leader();
  const uint32_t epoch = leaderships->Newest();
  const int64_t begun_ms = crash::SteadyMillis();
  const int64_t begun_utc_ms = cell.world->history->NowNanos() / 1'000'000;
  const bool good = fault.happen(cell, leader) && AwaitServing(cell, kServeTimeout);
  Sleep(kSettles);
  const bool serves = good && AwaitServing(cell, kServeTimeout);
  const int64_t over_ms = crash::SteadyMillis();
  const Outage outage = {
      .fault = fault.name,
      .changed_leader = leaderships->Newest() != epoch,
      .accepted_ms = cell.world->accepted_directly.LongestGap(begun_ms, over_ms),
      .delivered_ms = cell.world->delivered.LongestGap(begun_ms, over_ms),
      .library_ms = cell.world->accepted_by_library.LongestGap(begun_ms, over_ms),
      .gateway_accepted_ms = cell.world->accepted_by_gateway.LongestGap(begun_ms, over_ms),
      .gateway_delivered_ms = cell.world->delivered_by_gateway.LongestGap(begun_ms, over_ms)};
  outages->push_back(outage);
  const bool in_sync = serves && cell.rig->AwaitInSync(cell.topic, kInSyncTimeout);
  std::printf("%lld  %-44s %s led epoch %u, %s leads %u; none accepted for %lld ms%s\n",
              static_cast<long long>(begun_utc_ms), fault.name, MemberHost(leader).c_str(), epoch,
              MemberHost(leaderships->Leader()).c_str(), leaderships->Newest(),
              static_cast<long long>(outage.accepted_ms),
              !good      ? ": FAILED"
              : !in_sync ? ": the brokers are not in sync"
                         : "");
  std::fflush(stdout);
  return in_sync;
}

int64_t Percentile(std::vector<int64_t> values, int percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t count = values.size();
  const size_t rank = (count * static_cast<size_t>(percent) + 99) / 100;
  return values[std::max<size_t>(rank, 1) - 1];
}

void PrintOutages(const std::vector<Outage>& outages) {
  struct Column {
    const char* title;
    int64_t Outage::*field;
  };
  constexpr Column kColumns[] = {{"accepted directly", &Outage::accepted_ms},
                                 {"delivered", &Outage::delivered_ms},
                                 {"accepted by the library", &Outage::library_ms},
                                 {"accepted by a gateway", &Outage::gateway_accepted_ms},
                                 {"delivered by a gateway", &Outage::gateway_delivered_ms}};
  std::map<std::string, std::vector<const Outage*>> faults;
  for (const Outage& outage : outages) faults[outage.fault].push_back(&outage);
  std::printf(
      "The longest time without a success in each fault, in ms: minimum, p50, p95, maximum\n");
  std::printf("%-44s %5s %7s ", "fault", "count", "changes");
  for (const Column& column : kColumns) std::printf(" %-25s", column.title);
  for (const auto& [name, list] : faults) {
    const auto changes = std::count_if(list.begin(), list.end(),
                                       [](const Outage* one) { return one->changed_leader; });
    std::printf("\n%-44s %5zu %7lld ", name.c_str(), list.size(), static_cast<long long>(changes));
    for (const Column& column : kColumns) {
      std::vector<int64_t> values;
      for (const Outage* one : list) values.push_back(one->*column.field);
      for (const int percent : {0, 50, 95, 100}) {
        std::printf(" %5lld", static_cast<long long>(Percentile(values, percent)));
      }
      std::printf("  ");
    }
  }
  std::printf("\n");
}

}  // namespace duetime::cells
