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
#include "server/delivery/assembly.h"
#include "server/delivery/endings/lease_ends.h"
#include "server/delivery/hand_out.h"
#include "server/delivery/offers.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "server/messages/message_parts.h"
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
    delivery_.SetOccurrences(this);
    EXPECT_TRUE(scheduler_.Recover(now_).ok());
    EXPECT_TRUE(p_.changes->Recover(now_).ok());
    EXPECT_TRUE(core_.backlog.Recover().ok());
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
    commands_.schedule.Schedule(now_, std::move(command));
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
    commands_.change.Cancel(
        now_, {.tag = {}, .position = 0, .target = target, .stop_redelivery = stop_redelivery});
    Commit();
    return Last(&answers().cancels);
  }
  protocol::GetReply Get(const storage::MessageId& id) {
    commands_.queries.Get(now_, {.tag = {}, .target = ById(id)});
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
    p_.changes->Attach(now_, {.stream = stream,
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
      EXPECT_TRUE(scheduler_.Step(now_, 100, p_.offers, &more).ok());
      EXPECT_TRUE(p_.hand_out->Step(now_, 100, &more).ok());
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
    p_.lease_ends->Settle(now_,
                          {.stream = protocol::StreamId{1}, .settlements = {{.token = token}}});
  }

  // For parts with the limits as they are now.
  delivery::Core WithLimits() const {
    delivery::Core core = core_;
    core.limits = limits_;
    return core;
  }

  Answers answers_;
  scheduler::Scheduler scheduler_{SmallScheduler(), &store_, &writes_, &writer_};
  delivery::DeliveryAssembly delivery_{Parts(), &scheduler_};
  const delivery::Core& core_ = delivery_.core();
  const delivery::DeliveryParts& p_ = delivery_.parts();
  bool attached_ = false;
  // The parts, connected as in MessageParts.
  MinuteLimits minute_limits_{1, &writer_};
  MessageLocks locks_{core_, p_.ends};
  KeyIndex index_{core_};
  MessageFinder finder_{core_, p_.status, &locks_, &index_};
  MessageChanges changes_{core_, p_.ends, &finder_, &locks_};
  BulkChanges bulk_{core_, &finder_, &locks_, &index_, &changes_};
  MessageParts commands_{core_, p_.ends, p_.status};
};

}  // namespace duetime::messages
