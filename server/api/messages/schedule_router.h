// SPDX-License-Identifier: Apache-2.0
//
// ScheduleJob: the messages of one call, or of one frame of a stream, until the shards have
// answered. ScheduleRouter: sends the messages to their shards and collects the answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/messages/schedule_validation.h"
#include "server/api/messages/trace_context.h"
#include "server/api/serving_context.h"
#include "server/catalog/topic.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// The state of one ScheduleRequest until its answer.
struct ScheduledItem {
  // Points into `names` of the job. For a check of a topic that does not exist, points into
  // `stored_fields`.
  absl::string_view topic;
  size_t payload_bytes = 0;
  // Not OK if the message is refused; the other fields are then void.
  absl::Status error;
  uint16_t shard = 0;
  // The further fields of the answer's message; null for a plain message.
  std::unique_ptr<v1::Message> stored_fields;
  // With KEEP_TIME: if the message replaces another one, the request's time does not count.
  bool keeps_time = false;
};

// Plain data. The objects are reused.
struct ScheduleJob {
  base::Now now;
  // The trace context of the call, for messages without one. Set it between Begin and Add.
  TraceContext trace;
  // The acceptance of the present message.
  uint64_t accept_ms = 0;
  // The slot of the messages without a name, unless their topic limits minutes.
  uint32_t plain_slot = 0;
  std::vector<ScheduledItem> items;
  // Keeps the names of the items' topics, because a number can get another name.
  std::vector<std::shared_ptr<const std::string>> names;
  // Topics that the catalog must create. True: the topic also needs its dead-letter topic.
  absl::flat_hash_map<std::string, bool> missing;
  // The catalog's answers for `missing`.
  absl::flat_hash_map<std::string, absl::StatusOr<catalog::TopicPtr>> ensured;
  // Messages, by position, that access control refuses, or the shards whatever the answer for
  // `missing` is. Set those of access control between Begin and Add.
  absl::flat_hash_map<size_t, absl::Status> refused;
  // Commands that no shard has answered yet.
  size_t open = 0;
  // Not OK if the job as a whole has failed.
  absl::Status status;
  // The answers, by shard; empty for a job of one message.
  std::vector<std::vector<protocol::AcceptedMessage>> answers;

  // Clears the job, and frees the memory of a large one.
  void Clear();
};

// Validates messages, decides their shards, posts one command to each of these shards, and puts the
// answers together in the order of the request.
//
// A message has a name if it has a key, an ordering key or a request id. The name decides the slot.
// All messages of a job without a name share one slot, so that a plain batch is one command and one
// write; jobs take these slots in turn. If the topic limits minutes, its messages take turns at the
// shards instead, because each shard has a share of the limit. REQUIRES: the server serves. Thread
// safety: confined to the worker's thread; at most one job is between Begin and Post.
class ScheduleRouter {
 public:
  // `first_slot`: the slot at which this worker begins.
  ScheduleRouter(ServingContext* context, uint32_t first_slot)
      : context_(context), next_slot_(first_slot) {}

  // Begins a job. The current time becomes its accept time.
  void Begin(size_t messages, ScheduleJob* job);
  // Begins the job again, after the catalog has answered for its topics (AskForTopics).
  void BeginAgain(size_t messages, ScheduleJob* job);
  // Adds a message, or the error that refuses it. `index` as in ValidateSchedule.
  void Add(const v1::ScheduleRequest& request, int index, ScheduleJob* job);
  // If topics of the job are missing, drops the added messages and returns true. The caller adds
  // them again after the catalog has answered for these topics.
  bool DropIfMissing(const ScheduleJob& job);
  // Posts the added messages under `tag`. A shard that does not take its command refuses its
  // messages. Returns true if shards will answer. Returns false if the job is done: every message
  // was refused, or the server ends and job->status says so.
  bool Post(protocol::CallTag tag, ScheduleJob* job);
  // Takes a shard's answer. Returns true if it was the last answer.
  bool Take(uint16_t shard, protocol::ScheduleReply reply, ScheduleJob* job);

  // The answer to the only message of a job. An error if it was refused.
  absl::Status FillResponse(const ScheduleJob& job, v1::ScheduleResponse* response) const;
  // The refusals of all messages of a job, in order. OK: the message was accepted.
  std::vector<absl::Status> Refusals(const ScheduleJob& job) const;
  // The answers to all messages of a job, in order. REQUIRES: job.status is OK.
  void FillResults(const ScheduleJob& job,
                   google::protobuf::RepeatedPtrField<v1::ScheduleResult>* results) const;

 private:
  // Adds a valid message. `valid` holds the message; `record` is memory that is reused.
  absl::Status Accept(const v1::ScheduleRequest& request, int index, ValidSchedule* valid,
                      storage::MessageRecord* record, ScheduleJob* job);
  // The topic of a message, valid until the next call. Null if the catalog must first create the
  // topic or mark it as used. For a check, null if the catalog may create or revive the topic.
  absl::StatusOr<const catalog::Topic*> FindTopic(const ValidSchedule& valid,
                                                  const ScheduleJob& job);
  // The number of a topic that does not exist: a deleted topic has one, under which its tombstones
  // have their keys and request ids. Otherwise 0.
  storage::TopicId DeletedTopic(absl::string_view name) const;
  // True if the topic's dead letters have a topic. False: the catalog must create it.
  absl::StatusOr<bool> HasDeadLetters(const catalog::Topic& topic, const ScheduleJob& job) const;
  protocol::ScheduleCommand* CommandFor(uint16_t shard, ScheduleJob* job);
  uint32_t NextSlot();
  // The slot of a message without a name. `topic` may be null.
  uint32_t SlotWithoutName(const catalog::Topic* topic, const ScheduleJob& job);
  template <typename Answer>
  void Fill(const ScheduledItem& item, const protocol::AcceptedMessage& accepted,
            Answer* answer) const;

  ServingContext* const context_;
  uint32_t next_slot_;

  // The number of messages and the commands, by shard, of the job between Begin and Post.
  size_t expected_ = 0;
  std::vector<protocol::ScheduleCommand> commands_;
  // The number of the job's messages without a name, for topics that limit minutes.
  absl::flat_hash_map<storage::TopicId, uint32_t> turns_;
  // Memory that Add reuses.
  ValidSchedule valid_;
  storage::MessageRecord record_;
  // The last topic and the version of the catalog that had it: the messages of a batch tend to have
  // the same topic.
  catalog::TopicPtr last_topic_;
  uint64_t last_version_ = 0;
};

}  // namespace duetime::api
