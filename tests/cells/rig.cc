// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/rig.h"

#include <cstdio>
#include <librdkafka/rdkafka.h>
#include <thread>
#include <utility>

#include "tests/support/from_environment.h"
#include "tests/support/subprocess.h"

namespace duetime::cells {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kCommandTimeout(20'000);
constexpr int kMetadataTimeoutMs = 2'000;
constexpr milliseconds kAskAgain(200);
constexpr int kPort = 7788;

// Joins what `name` makes of each number but one.
template <typename Name>
std::string Join(int count, int but, Name name) {
  std::string joined;
  for (int i = 0; i < count; ++i) {
    if (i != but) joined += (joined.empty() ? "" : ",") + name(i);
  }
  return joined;
}

}  // namespace

std::string BrokerHost(int broker) { return "broker" + std::to_string(broker + 1); }
std::string MemberHost(int member) { return "member" + std::to_string(member + 1); }
std::string AllBrokers() { return BrokersBut(-1); }
std::string MembersBut(int member) { return Join(kMembers, member, MemberHost); }
std::string BrokersBut(int broker) { return Join(kBrokers, broker, BrokerHost); }

std::string MemberAddress(int member) {
  return "10.99.0.1" + std::to_string(member + 1) + ":" + std::to_string(kPort);
}

std::string CellTarget() { return "ipv4:" + Join(kMembers, -1, MemberAddress); }

// A client of the brokers, which asks for metadata only.
class Rig::Kafka {
 public:
  Kafka() {
    rd_kafka_conf_t* const settings = rd_kafka_conf_new();
    char error[256];
    rd_kafka_conf_set(settings, "bootstrap.servers", brokers().c_str(), error, sizeof(error));
    rd_kafka_conf_set(settings, "log_level", "0", error, sizeof(error));
    handle_ = rd_kafka_new(RD_KAFKA_PRODUCER, settings, error, sizeof(error));
  }
  ~Kafka() {
    for (auto& [name, topic] : topics_) rd_kafka_topic_destroy(topic);
    if (handle_ != nullptr) rd_kafka_destroy(handle_);
  }
  Kafka(const Kafka&) = delete;
  Kafka& operator=(const Kafka&) = delete;

  std::optional<Partition> PartitionOf(const std::string& name) {
    if (handle_ == nullptr) return std::nullopt;
    const rd_kafka_metadata_t* metadata = nullptr;
    if (rd_kafka_metadata(handle_, /*all_topics=*/0, Topic(name), &metadata, kMetadataTimeoutMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
      return std::nullopt;
    }
    Partition partition;
    if (metadata->topic_cnt == 1 && metadata->topics[0].partition_cnt == 1) {
      const rd_kafka_metadata_partition& found = metadata->topics[0].partitions[0];
      partition.leader = found.leader > 0 ? found.leader - 1 : -1;
      partition.in_sync = found.isr_cnt;
    }
    rd_kafka_metadata_destroy(metadata);
    return partition;
  }

 private:
  rd_kafka_topic_t* Topic(const std::string& name) {
    for (auto& [known, topic] : topics_) {
      if (known == name) return topic;
    }
    topics_.emplace_back(name, rd_kafka_topic_new(handle_, name.c_str(), nullptr));
    return topics_.back().second;
  }

  rd_kafka_t* handle_ = nullptr;
  std::vector<std::pair<std::string, rd_kafka_topic_t*>> topics_;
};

std::unique_ptr<Rig> Rig::Open() {
  const std::string script = test::TextFromEnvironment("DUETIME_CELL_SCRIPT");
  if (script.empty()) return nullptr;
  return std::unique_ptr<Rig>(new Rig(script));
}

Rig::Rig(std::string script) : script_(std::move(script)), kafka_(std::make_unique<Kafka>()) {}
Rig::~Rig() = default;

std::string Rig::brokers() {
  return Join(kBrokers, -1,
              [](int broker) { return "10.99.0." + std::to_string(broker + 1) + ":9092"; });
}

bool Rig::Run(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {script_};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const test::RunResult result = test::RunProgram(command, "", kCommandTimeout);
  if (result.exit.code == 0) return true;
  std::printf("brokers.sh %s failed: %s\n", arguments[0].c_str(), result.err.c_str());
  return false;
}

bool Rig::StartBroker(int broker) { return Run({"start", std::to_string(broker + 1)}); }
bool Rig::KillBroker(int broker) { return Run({"kill", std::to_string(broker + 1)}); }
bool Rig::PauseBroker(int broker) { return Run({"pause", std::to_string(broker + 1)}); }
bool Rig::ResumeBroker(int broker) { return Run({"resume", std::to_string(broker + 1)}); }
bool Rig::Cut(const std::string& from, const std::string& to) { return Run({"cut", from, to}); }
bool Rig::CutOneWay(const std::string& from, const std::string& to) {
  return Run({"cut", from, to, "oneway"});
}
bool Rig::Heal() { return Run({"heal"}); }

std::optional<Rig::Partition> Rig::PartitionOf(const std::string& topic) {
  return kafka_->PartitionOf(topic);
}

bool Rig::AwaitInSync(const std::string& topic, std::chrono::seconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (steady_clock::now() < deadline) {
    const auto partition = PartitionOf(topic);
    if (partition.has_value() && partition->leader >= 0 && partition->in_sync == kBrokers) {
      return true;
    }
    std::this_thread::sleep_for(kAskAgain);
  }
  return false;
}

}  // namespace duetime::cells
