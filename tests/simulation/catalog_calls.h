// SPDX-License-Identifier: Apache-2.0
//
// CatalogCalls: clients create, use and delete topics and subscriptions while they schedule
// messages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/catalog/catalog.h"
#include "server/catalog/snapshot.h"
#include "tests/simulation/world.h"

namespace duetime::simulation {

// Runs the catalog beside the shards, over one journal. Every participant has a mailbox, and its
// batches enter the journal in their order. Clients schedule to topics that may not exist, create,
// change and delete topics and subscriptions, and cancel messages. The journal is late, fails, and
// leaves outcomes unknown; the process and the power fail.
//
// Checks: (1) at every event, a topic with an acknowledged message is visible; (2) after an
// answered change, and after each restart, settings and subscriptions have a value that an answered
// or a lost call gave them; (3) a deleted topic that no call has used since is not visible; (4) at
// rest, every shard has exactly the catalog's subscriptions, and every call has its answer; (5) a
// topic keeps its number while it has a message, although numbers of deleted topics get new names;
// (6) a repeat of a request is answered with a message of its own topic, whatever the clock says.
class CatalogCalls final : public World {
 public:
  explicit CatalogCalls(const Setup& setup);

 private:
  // The values that a setting may have. 0: the default, or no subscription.
  struct Register {
    std::set<uint64_t> possible = {0};
    // Values of calls without an answer, by call.
    std::map<uint64_t, uint64_t> open;

    bool Allows(uint64_t value) const {
      if (possible.contains(value)) return true;
      for (const auto& [tag, given] : open) {
        if (given == value) return true;
      }
      return false;
    }
  };
  using Name = std::pair<std::string, std::string>;
  // A request without an answer to the catalog.
  struct Request {
    std::string topic;
    // The values that the request sets, by subscription. "" is the topic.
    std::map<std::string, uint64_t> gives;
    bool deletes_topic = false;
    bool schedules = false;
    // Topic::uses when the request was sent.
    uint64_t uses_before = 0;
  };
  struct Topic {
    // A call has used the topic since its deletion, or may have.
    bool used = false;
    // The number of calls that used the topic and of messages that shards accepted.
    uint64_t uses = 0;
    // With the number under which the shard accepted each one.
    std::map<storage::MessageId, storage::TopicId> messages;

    void Use() {
      used = true;
      ++uses;
    }
  };
  // A message that a client has sent and that its shard has not received.
  struct Post {
    std::string topic;
    storage::TopicId id{};
  };

  size_t catalog_participant() const { return shard_count_; }
  void Start();
  void Crash();
  void Event() override;
  void Drain() override;
  void Send(uint16_t shard, protocol::Command command) override;
  void Rest();

  // ---- Clients
  // Three names, and one that is new after each day.
  std::string AnyTopic() { return OneOf<std::string>({"a", "b", "c", absl::StrCat("d", days_)}); }
  std::string AnySubscription() { return OneOf<std::string>({"s", "t", "u"}); }
  void DoSchedule();
  void DoPost();
  void DoCancel();
  void DoTopic();
  void DoSubscription();
  // Lets the names of all deleted topics end.
  void PassADay();
  // The last day passed only on a clock that was wrong.
  void SetClockRight();
  template <typename C>
  void Ask(C command, Request request);
  void OnReply(const catalog::Reply& reply);
  void CheckReply(const catalog::Reply& reply, const Request& request);

  // ---- The runtime
  void StepShard(uint16_t shard);
  void StepCatalog();
  void OnCommitted(size_t participant, uint64_t sequence, storage::AppendOutcome outcome) override;
  void Collect(uint16_t shard);
  void CollectCatalog();

  // ---- Checks
  void CheckVisible();
  void CheckRegisters();
  void CheckShards();

  catalog::CatalogOptions options_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::unique_ptr<catalog::SnapshotCell> cell_;
  std::vector<std::deque<protocol::Command>> to_shards_;
  std::deque<catalog::Command> to_catalog_;
  std::map<uint64_t, Request> requests_;
  std::map<protocol::CallTag, Post> schedules_;
  std::deque<Post> posts_;
  std::map<std::string, Topic> topics_;
  std::map<Name, Register> registers_;
  uint64_t days_ = 0;
  uint64_t ahead_ms_ = 0;
  // The topic of each message.
  std::map<storage::MessageId, std::string> accepted_;
  // The last name of each number.
  std::map<storage::TopicId, std::string> names_;
  uint64_t next_value_ = 1;
  // False until the shards know what the catalog read. No client calls before.
  bool serving_ = false;
};

}  // namespace duetime::simulation
