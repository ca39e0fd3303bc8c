// SPDX-License-Identifier: Apache-2.0
//
// What comes and goes during a soak: topics, subscriptions, recurrences and bulk operations.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "tests/crash/soak_clients.h"

namespace duetime::crash {

// Changes that the daemon confirmed.
struct ChurnCounts {
  int64_t topics_deleted = 0;
  int64_t subscriptions_deleted = 0;
  int64_t recurrences_created = 0;
  int64_t recurrences_deleted = 0;
  int64_t recurrences_changed = 0;
  int64_t bulk_done = 0;
  // Bulk operations that failed. There must be none.
  int64_t bulk_failed = 0;
};

// Works in one run of the daemon after the other; a call that fails is made again later.
//
// Topics whose messages are judged have a subscriber until they are empty and deleted. Messages of
// bulk operations and recurrences are received, but not judged. Thread safety: one thread at a
// time.
class SoakChurn {
 public:
  SoakChurn(std::chrono::milliseconds period, uint64_t seed, SoakWorld* world);
  ~SoakChurn() { Leave(); }

  // Creates what exists to the end. Returns false and prints an error if that fails.
  bool CreateSteady(const std::shared_ptr<grpc::Channel>& channel);
  // Begins a run of the daemon; Leave ends it.
  void Join(const std::string& target, int run, bool diligent);
  void Leave();
  // Instead of Join: removes all that came and did not go. Returns false on a timeout.
  bool Finish(const std::string& target, int run, std::chrono::milliseconds timeout);

  // The pending messages of all topics, and the bytes of their records. Returns false if a call
  // failed.
  static bool Pending(v1::Admin::Stub* admin, int64_t* messages, int64_t* bytes);

  // REQUIRES: not joined.
  const ChurnCounts& counts() const { return counts_; }

 private:
  // A topic that exists for a while.
  struct ShortTopic {
    bool open = true;
    int age = 0;
    std::unique_ptr<SoakSubscriber> subscriber;
  };
  void Connect(const std::string& target, int run, bool diligent);
  void Disconnect();
  std::unique_ptr<SoakSubscriber> Subscribe(const std::string& topic);
  bool Create(const std::string& topic, const std::string& subscription);
  void StepTopics(bool finish);
  void StepSubscription(bool finish);
  void StepRecurrences();
  bool DeleteRecurrences();
  void StepBulk(bool finish);
  void ScheduleForBulk();

  const std::chrono::milliseconds period_;
  SoakWorld& world_;
  std::mt19937_64 random_;
  ChurnCounts counts_;
  // Of the run.
  std::string target_;
  int run_ = 0;
  bool diligent_ = false;
  std::unique_ptr<v1::Messages::Stub> messages_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::vector<std::unique_ptr<SoakClient>> pullers_;
  std::unique_ptr<SoakPuller> extra_puller_;
  // Over all runs.
  std::map<std::string, ShortTopic> short_topics_;
  uint64_t topics_made_ = 0;
  // The further subscription of "fan", or empty.
  std::string extra_;
  uint64_t extras_made_ = 0;
  // The open bulk operation, or empty.
  std::string bulk_;
  // The request that started it.
  v1::StartBulkRequest bulk_request_;
  uint64_t bulks_made_ = 0;
  // Whether the last operation purged the topic.
  bool purged_ = false;

  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace duetime::crash
