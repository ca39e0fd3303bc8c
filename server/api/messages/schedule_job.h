// SPDX-License-Identifier: Apache-2.0
//
// ScheduleJob: messages of one call (or of one frame of a stream) on their way through the shards.
// ScheduleRouter: takes them there and back.
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
#include "server/api/serving_context.h"
#include "server/catalog/topic.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// What the answer to one ScheduleRequest needs once its shard has replied.
struct ScheduledItem {
  // Points into the catalog; into `echo` if only a check names the topic.
  absl::string_view topic;
  size_t payload_bytes = 0;
  // Not OK: refused, the rest means nothing.
  absl::Status error;
  uint16_t shard = 0;
  // What the answer says beyond that; null for a plain message.
  std::unique_ptr<v1::Message> echo;
  // KEEP_TIME: if there was something to replace, the time of the request does not count.
  bool keeps_time = false;
};

// Plain data, used again and again.
struct ScheduleJob {
  uint64_t accept_ms = 0;
  // For its messages without a name.
  uint32_t plain_slot = 0;
  std::vector<ScheduledItem> items;
  // Topics that the catalog has to create, and whether their dead-letter topics are needed as well.
  absl::flat_hash_map<std::string, bool> missing;
  // The catalog's answers for these.
  absl::flat_hash_map<std::string, absl::StatusOr<catalog::TopicPtr>> ensured;
  // Commands that no shard has answered yet.
  size_t open = 0;
  // Not OK: the job as a whole has failed.
  absl::Status status;
  // The answers, by shard; empty for a job of one message.
  std::vector<std::vector<protocol::AcceptedMessage>> answers;

  // Forgets everything; a large job does not leave its size behind.
  void Clear();
};

// Validates messages, decides their shards, posts one command to each of those, and puts the
// answers together in the order of the request.
//
// Messages without a name go to one slot per job, so that a plain batch is one command and one
// write; slots are dealt out in turn. Those with a name go where the name says. REQUIRES: the
// server serves. Thread safety: confined to the worker's thread; one job at a time between Begin
// and Post.
class ScheduleRouter {
 public:
  // `first_slot`: where this worker begins to deal out slots.
  ScheduleRouter(ServingContext* context, uint32_t first_slot)
      : context_(context), next_slot_(first_slot) {}

  // Begins a job with the time of now.
  void Begin(size_t messages, ScheduleJob* job);
  // Begins the job again, once the catalog has its topics (AskForTopics).
  void BeginAgain(size_t messages, ScheduleJob* job);
  // Adds a message, or why it is refused. `index` as in ValidateSchedule.
  void Add(const v1::ScheduleRequest& request, int index, ScheduleJob* job);
  // True if topics of the job are missing: then it forgets the messages, to be added again when the
  // catalog has these topics.
  bool DropIfMissing(const ScheduleJob& job);
  // Posts the added messages, under `tag`. True if shards will answer. False: the job is done
  // already, because every message was refused, or job->status says that no shard took anything.
  bool Post(protocol::CallTag tag, ScheduleJob* job);
  // Takes a shard's answer. True when it was the last one.
  bool Take(uint16_t shard, protocol::ScheduleReply reply, ScheduleJob* job);

  // The answer to the only message of a job. An error if it was refused.
  absl::Status FillResponse(const ScheduleJob& job, v1::ScheduleResponse* response) const;
  // The answers to all messages of a job, in order. REQUIRES: job.status is OK.
  void FillResults(const ScheduleJob& job,
                   google::protobuf::RepeatedPtrField<v1::ScheduleResult>* results) const;

 private:
  // Adds a valid message. `valid` and `record` hold the message; their memory is used again.
  absl::Status Accept(const v1::ScheduleRequest& request, int index, ValidSchedule* valid,
                      storage::MessageRecord* record, ScheduleJob* job);
  // The topic of a message, valid until the next call. Null: the catalog has to create it; for a
  // check, that it may create it.
  absl::StatusOr<const catalog::Topic*> FindTopic(const ValidSchedule& valid,
                                                  const ScheduleJob& job);
  // True if the topic's dead letters have a topic. False: the catalog has to create it.
  absl::StatusOr<bool> HasDeadLetters(const catalog::Topic& topic, const ScheduleJob& job) const;
  protocol::ScheduleCommand* CommandFor(uint16_t shard, ScheduleJob* job);
  uint32_t NextSlot();
  template <typename Answer>
  void Fill(const ScheduledItem& item, const protocol::AcceptedMessage& accepted,
            Answer* answer) const;

  ServingContext* const context_;
  uint32_t next_slot_;

  // Of the job between Begin and Post: how many messages it has, and its commands by shard.
  size_t expected_ = 0;
  std::vector<protocol::ScheduleCommand> commands_;
  // Memory that Add uses again.
  ValidSchedule valid_;
  storage::MessageRecord record_;
  // The last topic and the version of the catalog that had it: the messages of a batch tend to have
  // the same topic.
  catalog::TopicPtr last_topic_;
  uint64_t last_version_ = 0;
};

}  // namespace duetime::api
