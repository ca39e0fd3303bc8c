// SPDX-License-Identifier: Apache-2.0
//
// The parts of a shard below its commands, for tests of single parts of server/messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/error.h"
#include "server/delivery/dispatcher.h"
#include "server/messages/message_commands.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "server/scheduler/scheduler.h"
#include "storage/message_record.h"
#include "tests/support/shard_parts.h"

namespace duetime::messages {

inline constexpr storage::TopicId kTopic{1};
inline constexpr uint64_t kStart = 1'800'000'000'000;

// The commands of one shard, and each of their parts.
class MessagesFixture : public test::ShardPartsTest {
 protected:
  MessagesFixture() {
    limits_.waiting_max = 2;
    names_.numbers = {{"orders", kTopic}};
    EXPECT_TRUE(scheduler_.Recover(now_).ok());
    EXPECT_TRUE(dispatcher_.Recover(now_).ok());
  }

  // A message with this payload. With `options` it also has their key and spread, and a hash of the
  // payload as its content.
  protocol::NewMessage Message(const std::string& payload, uint64_t delay_ms,
                               const protocol::ScheduleOptions* options = nullptr) {
    storage::MessageRecord record;
    record.header = {
        .topic = kTopic, .deliver_ms = now_.wall_ms + delay_ms, .accept_ms = now_.wall_ms};
    record.payload = payload;
    if (options != nullptr) {
      record.key = options->key;
      record.spread_ms = options->spread_ms;
    }
    protocol::NewMessage message = protocol::MakeNewMessage(record, /*slot=*/0);
    if (options != nullptr) {
      message.options = std::make_unique<protocol::ScheduleOptions>(*options);
      message.options->content.low = std::hash<std::string>{}(payload);
    }
    return message;
  }

  void Send(protocol::NewMessage message) {
    protocol::ScheduleCommand command;
    command.messages.push_back(std::move(message));
    commands_.Schedule(now_, std::move(command));
  }
  // Schedules one message, commits, and returns the answer.
  protocol::AcceptedMessage Schedule(protocol::NewMessage message) {
    Send(std::move(message));
    Commit();
    return LastAccepted();
  }
  protocol::AcceptedMessage LastAccepted() {
    EXPECT_FALSE(answers().schedules.empty());
    protocol::ScheduleReply reply = std::move(answers().schedules.back());
    answers().schedules.clear();
    EXPECT_EQ(reply.accepted.size(), reply.status.ok() ? 1u : 0u);
    if (reply.accepted.empty()) reply.accepted.emplace_back().status = reply.status;
    return std::move(reply.accepted[0]);
  }
  static protocol::ScheduleOptions Keyed(
      protocol::OnConflict on_conflict = protocol::OnConflict::kFail,
      const std::string& key = "a") {
    protocol::ScheduleOptions options;
    options.key = key;
    options.on_conflict = on_conflict;
    return options;
  }
  // With the content of the payload, as in Message.
  protocol::AcceptedMessage Schedule(const std::string& payload, uint64_t delay_ms,
                                     const protocol::ScheduleOptions& options) {
    return Schedule(Message(payload, delay_ms, &options));
  }
  static std::string ReasonOf(const protocol::AcceptedMessage& answer) {
    const auto detail = base::GetErrorDetail(answer.status);
    return detail.has_value() ? detail->reason : "";
  }
  storage::MessageId Scheduled(uint64_t delay_ms = 60'000) {
    return Schedule(Message("p", delay_ms)).id;
  }

  protocol::CancelReply Cancel(const protocol::Target& target, bool stop_redelivery = false) {
    commands_.Cancel(
        now_, {.tag = {}, .position = 0, .target = target, .stop_redelivery = stop_redelivery});
    Commit();
    return Last(&answers().cancels);
  }
  protocol::GetReply Get(const storage::MessageId& id) {
    commands_.Get(now_, {.tag = {}, .target = ById(id)});
    return Last(&answers().gets);
  }
  void LimitMinutes(uint64_t max, protocol::TopicSettings::BucketPolicy policy,
                    uint32_t spread_minutes = 0, MinuteLimits* limits = nullptr) {
    (limits != nullptr ? limits : &minute_limits_)->Set(MinuteLimit(max, policy, spread_minutes));
  }
  static protocol::TopicCommand MinuteLimit(uint64_t max,
                                            protocol::TopicSettings::BucketPolicy policy,
                                            uint32_t spread_minutes) {
    auto settings = std::make_shared<protocol::TopicSettings>();
    settings->set_minute_max(max);
    settings->set_minute_policy(policy);
    settings->set_minute_spread_ms(spread_minutes * storage::kMinuteMs);
    return {.topic = kTopic, .settings = settings, .quota = nullptr};
  }
  static protocol::Target ById(const storage::MessageId& id) {
    return {.id = id, .topic = kTopic, .key = ""};
  }
  static protocol::Target ByKey(const std::string& key) {
    return {.id = {}, .topic = kTopic, .key = key};
  }
  // The replies since the previous call, by kind.
  struct Answers {
    std::vector<protocol::ScheduleReply> schedules;
    std::vector<protocol::CancelReply> cancels;
    std::vector<protocol::RescheduleReply> reschedules;
    std::vector<protocol::GetReply> gets;
    std::vector<protocol::InspectReply> inspects;
    std::vector<protocol::OperationReply> operations;
  };
  Answers& answers() {
    for (protocol::Reply& reply : effects_.replies) {
      const auto take = [&reply]<typename T>(std::vector<T>* list) {
        if (T* const one = std::get_if<T>(&reply)) list->push_back(std::move(*one));
      };
      take(&answers_.schedules);
      take(&answers_.cancels);
      take(&answers_.reschedules);
      take(&answers_.gets);
      take(&answers_.inspects);
      take(&answers_.operations);
    }
    effects_.replies.clear();
    return answers_;
  }
  template <typename Reply>
  static Reply Last(std::vector<Reply>* replies) {
    EXPECT_EQ(replies->size(), 1u);
    if (replies->empty()) return {};
    Reply reply = std::move(replies->back());
    replies->clear();
    return reply;
  }

  void Attach(protocol::StreamId stream, storage::SubscriptionId subscription,
              storage::TopicId topic = kTopic) {
    dispatcher_.Attach(now_, {.stream = stream,
                              .topic = topic,
                              .subscription = subscription,
                              .lease_ms = 30'000,
                              .credit = std::make_shared<protocol::StreamCredit>(10, 10'000)});
  }
  // Lets time pass and delivers due messages to a stream. Returns the tokens of their leases.
  std::vector<protocol::LeaseToken> Deliver(uint64_t after_ms) {
    Pass(after_ms);
    if (!std::exchange(attached_, true)) {
      Attach(protocol::StreamId{1}, storage::FirstSubscription(kTopic));
    }
    std::vector<protocol::LeaseToken> tokens;
    for (int i = 0; i < 10 && tokens.empty(); ++i) {
      bool more = false;
      EXPECT_TRUE(scheduler_.Step(now_, 100, &more).ok());
      EXPECT_TRUE(dispatcher_.Pump(now_, 100, &more).ok());
      Commit();
      for (const protocol::DeliveryFrame& frame : effects_.frames) {
        for (const protocol::Delivery& delivery : frame.deliveries)
          tokens.push_back(delivery.token);
      }
      effects_.frames.clear();
    }
    return tokens;
  }
  void Ack(protocol::LeaseToken token) {
    dispatcher_.Settle(now_, {.stream = protocol::StreamId{1}, .settlements = {{.token = token}}});
  }

  Answers answers_;
  scheduler::Scheduler scheduler_{SmallScheduler(), &store_, &writes_, &writer_, &dispatcher_};
  delivery::Dispatcher dispatcher_{Parts(), &scheduler_};
  bool attached_ = false;
  // The parts, connected as in MessageCommands.
  MinuteLimits minute_limits_{1, &writer_};
  MessageLocks locks_{Parts(), &dispatcher_};
  KeyIndex index_{Parts()};
  MessageFinder finder_{Parts(), &scheduler_, &dispatcher_, &locks_, &index_};
  MessageChanges changes_{Parts(), &scheduler_, &dispatcher_, &finder_, &locks_};
  BulkChanges bulk_{Parts(), &scheduler_, &finder_, &locks_, &index_, &changes_};
  MessageCommands commands_{Parts(), &scheduler_, &dispatcher_};
};

}  // namespace duetime::messages
