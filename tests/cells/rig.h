// SPDX-License-Identifier: Apache-2.0
//
// Rig: the brokers and the network of tests/cells/brokers.sh, from inside its `run`.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace duetime::cells {

inline constexpr int kBrokers = 3;
inline constexpr int kMembers = 3;

// Names of hosts for Rig::Cut. Brokers and members count from 0 in the tests.
std::string BrokerHost(int broker);
std::string MemberHost(int member);
// All hosts of the kind, with commas between them.
std::string AllBrokers();
std::string MembersBut(int member);
std::string BrokersBut(int broker);
inline constexpr char kClientsHost[] = "clients";

// The address of a member's server, "10.99.0.11:7788".
std::string MemberAddress(int member);
// The target of a client of all members, for client::OpenChannel.
std::string CellTarget();
// The address of the gateway, which runs on kClientsHost.
inline constexpr char kGatewayAddress[] = "10.99.0.20:7788";
// The cell in the gateway's map.
inline constexpr char kCellName[] = "a";

// Thread safety: one thread at a time.
class Rig {
 public:
  // Returns null outside of `brokers.sh run`.
  static std::unique_ptr<Rig> Open();
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // Each change takes effect before the call returns. Returns false, and prints why, if it failed.
  bool StartBroker(int broker);
  bool KillBroker(int broker);
  bool PauseBroker(int broker);
  bool ResumeBroker(int broker);
  // Drops the packets from each host of `from` to each of `to`, and back.
  bool Cut(const std::string& from, const std::string& to);
  // Drops the packets from `from` to `to` only.
  bool CutOneWay(const std::string& from, const std::string& to);
  // Undoes all cuts.
  bool Heal();

  // The partition of the cell's log, as some broker knows it.
  struct Partition {
    // -1: no broker leads it.
    int leader = -1;
    // The number of replicas that have all records.
    int in_sync = 0;
  };
  // Returns nullopt if no broker answers in two seconds.
  std::optional<Partition> PartitionOf(const std::string& topic);
  // Waits until the partition has a leader and all replicas are in sync. Returns false on a
  // timeout.
  bool AwaitInSync(const std::string& topic, std::chrono::seconds timeout);

  // The addresses for the members' knob cell_brokers.
  static std::string brokers();

 private:
  class Kafka;
  explicit Rig(std::string script);
  bool Run(const std::vector<std::string>& arguments) const;

  const std::string script_;
  std::unique_ptr<Kafka> kafka_;
};

}  // namespace duetime::cells
