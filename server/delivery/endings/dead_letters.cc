// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/dead_letters.h"

#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/endings/dead_letter.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/last_attempts.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/topic_names.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using storage::MessageRef;
using storage::TopicId;

namespace {

// A dead letter takes at least this much of the budget, because a small one is work, too.
constexpr size_t kLetterBytesMin = 4 << 10;

}  // namespace

DeadLetters::DeadLetters(const Core& core, MessageEnds* ends) : core_(core), ends_(ends) {}

TopicId DeadLetters::TargetOf(const Subscription& subscription) {
  const TopicId own = protocol::DeadLetterOf(subscription.state.settings);
  return own != TopicId{} ? own : subscription.topic->dead_letter;
}

DeadLetters::Made DeadLetters::Make(base::Now now, EntryIndex index, storage::DeadLetterReason why,
                                    absl::string_view text, const storage::Attempt* last) {
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state != EntryState::kFree);
  DT_CHECK(entry.state != EntryState::kEnding);
  Subscription* const subscription = entry.subscription;
  const TopicId target = TargetOf(*subscription);
  if (target == TopicId{}) {
    // The caller counts a rejection that is refused for good.
    if (why != storage::DeadLetterReason::kRejected) ++core_.stats.dead_letters_refused;
    return Made::kNoTopic;
  }
  const auto record = core_.reader.Record(entry.key());
  if (!record.ok() || !record->has_value()) return Made::kNo;
  storage::DeadLetterOrigin origin;
  // The subscription has the name of its creation, and none if no client has named it.
  std::string topic_name = core_.names.NameOf(subscription->topic->id);
  if (topic_name.empty()) topic_name = subscription->state.topic_name;
  origin.topic_name = topic_name;
  origin.subscription_name = subscription->state.name;
  origin.id = entry.id;
  origin.attempts = entry.attempts;
  origin.reason = why;
  origin.reason_text = text;
  origin.first_dispatch_ms = entry.dispatch_ms;
  origin.last_dispatch_ms = entry.last_dispatch_ms;
  std::string last_attempts = LastAttemptsOf(core_, entry);
  if (last != nullptr) last_attempts = storage::AddAttempt(last_attempts, *last);
  origin.last_attempts = last_attempts;
  absl::StatusOr<std::string> letter = MakeDeadLetter(**record, target, now.wall_ms, origin);
  if (absl::IsFailedPrecondition(letter.status())) {
    ++core_.stats.dead_letter_hops_refused;
    ++subscription->dead_letter_hops_refused;
    return Made::kNoMoreHops;
  }
  if (!letter.ok()) return Made::kNo;  // damaged: the message stays where it is
  const MessageRef ref = Put(now, entry, target, *std::move(letter));
  core_.table.Learn(index, **record);
  ends_->BeginSettle(now, index, storage::EndState::kDeadLettered, storage::Durability::kSynced,
                     ref.key.id);
  core_.writes.Then([this, index, ref, subscription](base::Now, bool accepted) {
    if (!accepted) return;
    DT_CHECK(core_.table[index].state == EntryState::kEnding);
    DT_CHECK(core_.table[index].subscription == subscription);
    ++core_.stats.dead_lettered;
    ++subscription->dead_lettered;
    ends_->Finish(index);
    core_.scheduler.OnPut(ref);
  });
  return Made::kYes;
}

MessageRef DeadLetters::Put(base::Now now, const PendingDelivery& entry, TopicId topic,
                            std::string letter) {
  storage::MessageHeader header;
  DT_CHECK(storage::DecodeMessageHeader(letter, &header).ok());
  DT_CHECK(header.topic == topic);
  const MessageRef ref = {
      .key = core_.scheduler.NewKey(now, entry.id.slot(), now.wall_ms, /*spread_ms=*/0),
      .topic = topic,
      .bytes = static_cast<uint32_t>(letter.size()),
      .flags = header.flags};
  bytes_left_ -= std::min(bytes_left_, std::max(letter.size(), kLetterBytesMin));
  core_.scheduler.Put(now, ref, std::move(letter));
  return ref;
}

}  // namespace duetime::delivery
