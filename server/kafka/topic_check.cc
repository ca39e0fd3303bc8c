// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/topic_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/base/clock.h"
#include "server/kafka/kafka_owned.h"
#include "server/kafka/kafka_settings.h"

namespace duetime::kafka {

namespace {

// How long to wait before asking a broker again about a topic that was just created.
constexpr uint64_t kAskAgainUs = 100'000;

using Event = Owned<rd_kafka_event_t, rd_kafka_event_destroy>;
using Queue = Owned<rd_kafka_queue_t, rd_kafka_queue_destroy>;
using AdminOptions = Owned<rd_kafka_AdminOptions_t, rd_kafka_AdminOptions_destroy>;
using NewTopic = Owned<rd_kafka_NewTopic_t, rd_kafka_NewTopic_destroy>;
using ConfigResource = Owned<rd_kafka_ConfigResource_t, rd_kafka_ConfigResource_destroy>;

uint32_t InsyncMin(const KafkaOptions& options) { return std::max(1u, options.replicas - 1); }
uint64_t MessageBytes(const KafkaOptions& options) { return options.entry_bytes_max + kFrameBytes; }

// The creation of the topic, and questions about it.
class TopicAdmin {
 public:
  TopicAdmin(const KafkaOptions& options, KafkaClient* client)
      : options_(options), client_(client), queue_(rd_kafka_queue_new(client->handle())) {}

  absl::Status Create();
  // NOT_FOUND if the broker that answers knows no such topic.
  absl::StatusOr<TopicFacts> Describe();

 private:
  int timeout_ms() const { return static_cast<int>(options_.call_timeout_ms); }
  AdminOptions MakeOptions(rd_kafka_admin_op_t operation) const;
  // Waits for the answer to a request.
  absl::StatusOr<Event> Answer();
  absl::Status DescribeSettings(TopicFacts* facts);
  absl::Status DescribePartitions(TopicFacts* facts);
  absl::Status Error(rd_kafka_resp_err_t code, absl::string_view what, const char* text) const;

  const KafkaOptions& options_;
  KafkaClient* const client_;
  const Queue queue_;
};

AdminOptions TopicAdmin::MakeOptions(rd_kafka_admin_op_t operation) const {
  AdminOptions made(rd_kafka_AdminOptions_new(client_->handle(), operation));
  std::array<char, 128> ignored = {};
  rd_kafka_AdminOptions_set_request_timeout(made.get(), timeout_ms(), ignored.data(),
                                            ignored.size());
  if (operation == RD_KAFKA_ADMIN_OP_CREATETOPICS) {
    rd_kafka_AdminOptions_set_operation_timeout(made.get(), timeout_ms(), ignored.data(),
                                                ignored.size());
  }
  return made;
}

absl::Status TopicAdmin::Error(rd_kafka_resp_err_t code, absl::string_view what,
                               const char* text) const {
  // The failures of connections, too, so that the message has the cause.
  client_->Serve(0);
  const absl::Status status = client_->Error(code, what);
  const bool waited = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  const std::string message =
      absl::StrCat(status.message(), text == nullptr ? "" : absl::StrCat(" (", text, ")"));
  if (waited && client_->refused()) return absl::UnauthenticatedError(message);
  return absl::Status(status.code(), message);
}

absl::StatusOr<Event> TopicAdmin::Answer() {
  // librdkafka ends the request by its own timeout.
  Event event(rd_kafka_queue_poll(queue_.get(), 2 * timeout_ms()));
  if (event == nullptr) return Error(RD_KAFKA_RESP_ERR__TIMED_OUT, "settings of", nullptr);
  if (const rd_kafka_resp_err_t error = rd_kafka_event_error(event.get());
      error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Error(error, "settings of", rd_kafka_event_error_string(event.get()));
  }
  client_->Succeeded();
  return event;
}

absl::Status TopicAdmin::Create() {
  std::array<char, 512> why = {};
  NewTopic topic(rd_kafka_NewTopic_new(
      options_.topic.c_str(), 1, static_cast<int>(options_.replicas), why.data(), why.size()));
  if (topic == nullptr) return absl::InvalidArgumentError(why.data());
  const std::vector<std::pair<const char*, std::string>> settings = {
      {"min.insync.replicas", absl::StrCat(InsyncMin(options_))},
      {"unclean.leader.election.enable", "false"},
      {"retention.ms", "-1"},
      {"retention.bytes", "-1"},
      {"cleanup.policy", "delete"},
      {"max.message.bytes", absl::StrCat(MessageBytes(options_))},
      {"compression.type", "producer"},
      {"message.timestamp.type", "LogAppendTime"},
  };
  for (const auto& [name, value] : settings) {
    rd_kafka_NewTopic_set_config(topic.get(), name, value.c_str());
  }
  rd_kafka_NewTopic_t* topics = topic.get();
  const AdminOptions admin = MakeOptions(RD_KAFKA_ADMIN_OP_CREATETOPICS);
  rd_kafka_CreateTopics(client_->handle(), &topics, 1, admin.get(), queue_.get());
  const absl::StatusOr<Event> event = Answer();
  if (!event.ok()) return event.status();
  size_t count = 0;
  const rd_kafka_topic_result_t** const results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event->get()), &count);
  if (count == 0)
    return absl::UnavailableError("Kafka's answer to the creation of a topic names no topic");
  const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[0]);
  const char* const text = rd_kafka_topic_result_error_string(results[0]);
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
    case RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:  // Another member has created it.
      return absl::OkStatus();
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
      return absl::FailedPreconditionError(absl::StrCat("creation of topic ", options_.topic, ": ",
                                                        text == nullptr ? "refused" : text));
    default:
      return Error(error, "creation of", text);
  }
}

absl::StatusOr<TopicFacts> TopicAdmin::Describe() {
  TopicFacts facts;
  if (absl::Status status = DescribeSettings(&facts); !status.ok()) return status;
  if (absl::Status status = DescribePartitions(&facts); !status.ok()) return status;
  return facts;
}

absl::Status TopicAdmin::DescribeSettings(TopicFacts* facts) {
  const ConfigResource resource(
      rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, options_.topic.c_str()));
  rd_kafka_ConfigResource_t* asked = resource.get();
  const AdminOptions admin = MakeOptions(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
  rd_kafka_DescribeConfigs(client_->handle(), &asked, 1, admin.get(), queue_.get());
  const absl::StatusOr<Event> event = Answer();
  if (!event.ok()) return event.status();
  size_t count = 0;
  const rd_kafka_ConfigResource_t** const found = rd_kafka_DescribeConfigs_result_resources(
      rd_kafka_event_DescribeConfigs_result(event->get()), &count);
  if (count == 0)
    return absl::UnavailableError("Kafka's answer about the settings of a topic names no topic");
  const rd_kafka_resp_err_t error = rd_kafka_ConfigResource_error(found[0]);
  if (error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) return absl::NotFoundError("no topic");
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Error(error, "settings of", rd_kafka_ConfigResource_error_string(found[0]));
  }
  const rd_kafka_ConfigEntry_t** const entries = rd_kafka_ConfigResource_configs(found[0], &count);
  for (size_t i = 0; i < count; ++i) {
    const char* const value = rd_kafka_ConfigEntry_value(entries[i]);
    facts->settings[rd_kafka_ConfigEntry_name(entries[i])] = value == nullptr ? "" : value;
  }
  return absl::OkStatus();
}

absl::Status TopicAdmin::DescribePartitions(TopicFacts* facts) {
  const rd_kafka_metadata_t* answer = nullptr;
  const rd_kafka_resp_err_t asked =
      rd_kafka_metadata(client_->handle(), 0, client_->topic(), &answer, timeout_ms());
  if (asked != RD_KAFKA_RESP_ERR_NO_ERROR) return Error(asked, "partitions of", nullptr);
  const Owned<const rd_kafka_metadata_t, rd_kafka_metadata_destroy> owned(answer);
  if (answer->topic_cnt != 1) return absl::NotFoundError("no topic");
  const rd_kafka_metadata_topic_t& topic = answer->topics[0];
  if (topic.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) return absl::NotFoundError("no topic");
  if (topic.err != RD_KAFKA_RESP_ERR_NO_ERROR) return Error(topic.err, "partitions of", nullptr);
  facts->partitions = static_cast<size_t>(topic.partition_cnt);
  for (int i = 0; i < topic.partition_cnt; ++i) {
    const auto replicas = static_cast<size_t>(topic.partitions[i].replica_cnt);
    facts->replicas = i == 0 ? replicas : std::min(facts->replicas, replicas);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTopicFacts(const KafkaOptions& options, const TopicFacts& facts) {
  std::vector<std::string> wrong;
  const auto refuse = [&](absl::string_view name, absl::string_view value, const auto& needed) {
    wrong.push_back(absl::StrCat(name, " is ", value, ", must be ", needed));
  };
  const auto text = [&](const char* name) {
    const auto found = facts.settings.find(name);
    return found == facts.settings.end() ? std::string("unknown") : found->second;
  };
  const auto exactly = [&](const char* name, const char* needed) {
    if (text(name) != needed) refuse(name, text(name), needed);
  };
  const auto at_least = [&](const char* name, uint64_t needed) {
    uint64_t value = 0;
    if (!absl::SimpleAtoi(text(name), &value) || value < needed) {
      refuse(name, text(name), absl::StrCat("at least ", needed));
    }
  };
  if (facts.partitions != 1) {
    refuse("the number of partitions", absl::StrCat(facts.partitions), "1");
  }
  if (facts.replicas < options.replicas) {
    refuse("the number of replicas", absl::StrCat(facts.replicas),
           absl::StrCat("at least ", options.replicas));
  }
  at_least("min.insync.replicas", InsyncMin(options));
  exactly("unclean.leader.election.enable", "false");
  exactly("retention.ms", "-1");
  exactly("retention.bytes", "-1");
  exactly("cleanup.policy", "delete");
  // The ages of the members' reports are measured by it.
  exactly("message.timestamp.type", "LogAppendTime");
  at_least("max.message.bytes", MessageBytes(options));
  if (wrong.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("topic ", options.topic, ": ", absl::StrJoin(wrong, "; ")));
}

absl::Status CheckTopic(const KafkaOptions& options, KafkaClient* client) {
  TopicAdmin admin(options, client);
  const uint64_t until = base::ReadMicros() + options.call_timeout_ms * 1'000;
  absl::StatusOr<TopicFacts> facts = admin.Describe();
  // Creates only what is absent: a client without the right to create may use an existing topic.
  if (absl::IsNotFound(facts.status())) {
    if (absl::Status status = admin.Create(); !status.ok()) return status;
    // Each broker learns of a new topic at its own time.
    do {
      client->Wait(base::ReadMicros() + kAskAgainUs);
      facts = admin.Describe();
    } while (absl::IsNotFound(facts.status()) && base::ReadMicros() < until);
  }
  if (absl::IsNotFound(facts.status())) {
    return absl::UnavailableError(absl::StrCat("topic ", options.topic, " is not there yet"));
  }
  if (!facts.ok()) return facts.status();
  return CheckTopicFacts(options, *facts);
}

}  // namespace duetime::kafka
