// SPDX-License-Identifier: Apache-2.0
//
// RecurrenceHandlers: messages that are scheduled again and again.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "server/delivery/commands.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// CreateRecurrence, GetRecurrence, ListRecurrences, UpdateRecurrence, PauseRecurrence,
// ResumeRecurrence, DeleteRecurrence, PreviewRecurrence. Changes are made by the shard of the
// recurrence; what is only read comes from the store, through the reader. Thread safety: confined
// to the worker's thread.
class RecurrenceHandlers {
 public:
  explicit RecurrenceHandlers(HandlerEnv env) : env_(std::move(env)) {}
  RecurrenceHandlers(const RecurrenceHandlers&) = delete;
  RecurrenceHandlers& operator=(const RecurrenceHandlers&) = delete;

  void Create(UnaryCall* call);
  void Get(UnaryCall* call);
  void List(UnaryCall* call);
  void Update(UnaryCall* call);
  void Pause(UnaryCall* call);
  void Resume(UnaryCall* call);
  void Delete(UnaryCall* call);
  void Preview(UnaryCall* call);

  void OnRecurrenceReply(UnaryCall* call, const delivery::RecurrenceReply& reply);

 private:
  uint16_t ShardOf(const std::string& name) const;
  void Post(UnaryCall* call, delivery::RecurrenceCommand command);
  // Pause, resume, delete.
  void PostByName(UnaryCall* call, absl::Status parsed, const std::string& name,
                  delivery::RecurrenceCommand::Kind kind);
  absl::string_view TopicName(const delivery::RecurrenceState& state) const;

  const HandlerEnv env_;
};

}  // namespace duetime::rpc
