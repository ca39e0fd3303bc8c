// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_locks.h"

#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "storage/locator.h"

namespace duetime::messages {

using storage::IndexKind;
using storage::MessageId;
using storage::TopicId;

MessageLocks::MessageLocks(const delivery::ShardParts& parts,
                           const delivery::Dispatcher* dispatcher)
    : waiting_max_(parts.limits->waiting_max),
      key_locks_(parts.key_locks),
      writes_(parts.writes),
      dispatcher_(dispatcher) {
  DT_CHECK_GT(waiting_max_, 0u);
  DT_CHECK(key_locks_ != nullptr);
}

MessageLocks::Name MessageLocks::KeyName(TopicId topic, absl::string_view key) {
  DT_CHECK(!key.empty());
  return Name(static_cast<uint8_t>(IndexKind::kUserKey), topic, key);
}

MessageLocks::Name MessageLocks::RequestName(TopicId topic, absl::string_view request_id) {
  DT_CHECK(!request_id.empty());
  return Name(static_cast<uint8_t>(IndexKind::kRequest), topic, request_id);
}

bool MessageLocks::ChangeInFlight(const MessageId& id) const {
  return key_locks_->Held(id) || dispatcher_->AnyEnding(id);
}

absl::Status MessageLocks::CheckRoom() const {
  if (waiting() < waiting_max_) return absl::OkStatus();
  return base::OverloadedError("commands that wait for the same message or key", waiting_max_);
}

void MessageLocks::Wait(const Name& name, Waiter waiter) {
  if (key_locks_->Held(name)) {
    key_locks_->Wait(name, std::move(waiter));
    return;
  }
  // A settlement is ending this message. Its batch commits before or with the open one, or has just
  // been committed and its continuations are running. So the settlement is over when the
  // continuations of the open batch run.
  DT_CHECK(dispatcher_->AnyEnding(MessageId{.high = name.high, .low = name.low}));
  ++for_settlements_;
  writes_->Then([this, waiter = std::move(waiter)](base::Now now, bool ok) mutable {
    --for_settlements_;
    waiter(now, ok);
  });
}

}  // namespace duetime::messages
