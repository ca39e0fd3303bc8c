// SPDX-License-Identifier: Apache-2.0
//
// ReplyTo: the reply that a command gets.
#pragma once

#include <type_traits>

#include "absl/status/status.h"

#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::protocol {

// The type of the reply to a command. Void for the commands of streams, which have no reply. Not
// defined for commands whose refusal is of another kind (Pull, CancelBatch, InspectSubscription).
template <typename Command>
struct ReplyOf;
template <>
struct ReplyOf<AttachCommand> {
  using Type = void;
};
template <>
struct ReplyOf<DetachCommand> {
  using Type = void;
};
template <>
struct ReplyOf<EndPullCommand> {
  using Type = void;
};
template <>
struct ReplyOf<SettleCommand> {
  using Type = void;
};
template <>
struct ReplyOf<CreditCommand> {
  using Type = void;
};
template <>
struct ReplyOf<ScheduleCommand> {
  using Type = ScheduleReply;
};
template <>
struct ReplyOf<CancelCommand> {
  using Type = CancelReply;
};
template <>
struct ReplyOf<RescheduleCommand> {
  using Type = RescheduleReply;
};
template <>
struct ReplyOf<GetCommand> {
  using Type = GetReply;
};
template <>
struct ReplyOf<InspectCommand> {
  using Type = InspectReply;
};
template <>
struct ReplyOf<ActivityCommand> {
  using Type = ActivityReply;
};
template <>
struct ReplyOf<TopicCommand> {
  using Type = TopicReply;
};
template <>
struct ReplyOf<SubscriptionCommand> {
  using Type = SubscriptionReply;
};
template <>
struct ReplyOf<OperationCommand> {
  using Type = OperationReply;
};
template <>
struct ReplyOf<RecurrenceCommand> {
  using Type = RecurrenceReply;
};

template <typename Command>
concept Answered = !std::is_void_v<typename ReplyOf<Command>::Type>;

// The reply that names its command and has this status. All else is empty.
template <Answered Command>
typename ReplyOf<Command>::Type ReplyTo(const Command& command,
                                        const absl::Status& status = absl::OkStatus()) {
  typename ReplyOf<Command>::Type reply;
  reply.tag = command.tag;
  if constexpr (requires { reply.position; }) reply.position = command.position;
  if constexpr (requires { reply.topic; }) reply.topic = command.topic;
  reply.status = status;
  return reply;
}

}  // namespace duetime::protocol
