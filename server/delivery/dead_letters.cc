// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/dead_letters.h"

#include <utility>

#include "server/base/check.h"
#include "server/delivery/dead_letter.h"
#include "server/delivery/message_ends.h"
#include "server/delivery/store_reader.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using storage::MessageRef;
using storage::TopicId;

namespace {

// What a dead letter costs at least: a small one is work, too.
constexpr size_t kLetterBytesMin = 4 << 10;

}  // namespace

DeadLetters::DeadLetters(const DeliveryParts& parts)
    : writes_(parts.shard.writes),
      writer_(parts.shard.writer),
      stats_(parts.shard.stats),
      scheduler_(parts.scheduler),
      reader_(parts.reader),
      table_(parts.table),
      ends_(parts.ends) {}

DeadLetters::Target DeadLetters::TargetOf(const Subscription& subscription) {
  const protocol::SubscriptionSettings& settings = subscription.state.settings;
  if (settings.dead_letter != TopicId{}) return {settings.dead_letter, settings.dead_letter_name};
  return {subscription.topic->dead_letter, subscription.topic->dead_letter_name};
}

bool DeadLetters::Make(base::Now now, EntryIndex index, storage::DeadLetterReason why,
                       absl::string_view text) {
  const PendingDelivery& entry = (*table_)[index];
  DT_CHECK(entry.state != EntryState::kEnding);
  Subscription* const subscription = entry.subscription;
  Target target = TargetOf(*subscription);
  if (target.topic == TopicId{}) {
    ++stats_->dead_letters_refused;
    return false;
  }
  const auto record = reader_->Record(entry.key());
  if (!record.ok() || !record->has_value()) return false;
  storage::DeadLetterOrigin origin;
  origin.topic_name = subscription->state.topic_name;
  origin.subscription_name = subscription->state.name;
  origin.id = entry.id;
  origin.attempts = entry.attempts;
  origin.reason = why;
  origin.reason_text = text;
  origin.first_dispatch_ms = entry.dispatch_ms;
  origin.last_dispatch_ms = entry.last_dispatch_ms;
  absl::StatusOr<std::string> letter =
      MakeDeadLetter(**record, target.topic, now.wall_ms, std::move(origin));
  if (!letter.ok()) return false;  // damaged: the message stays where it is
  if (!target.name.empty()) writer_->PutTopicName(target.topic, std::move(target.name));
  const MessageRef ref = Put(now, entry, target.topic, *std::move(letter));
  table_->Learn(index, **record);
  ends_->BeginSettle(now, index, storage::EndState::kDeadLettered, storage::Durability::kSynced);
  writes_->Then([this, index, ref, subscription](base::Now, bool accepted) {
    if (!accepted) return;
    ++stats_->dead_lettered;
    ++subscription->dead_lettered;
    ends_->Finish(index);
    scheduler_->OnPut(ref);
  });
  return true;
}

MessageRef DeadLetters::Put(base::Now now, const PendingDelivery& entry, TopicId topic,
                            std::string letter) {
  storage::MessageHeader header;
  DT_CHECK(storage::DecodeMessageHeader(letter, &header).ok());
  DT_CHECK(header.topic == topic);
  const MessageRef ref = {
      .key = scheduler_->NewKey(now, entry.id.slot(), now.wall_ms, /*spread_ms=*/0),
      .topic = topic,
      .bytes = static_cast<uint32_t>(letter.size()),
      .flags = header.flags};
  bytes_left_ -= std::min(bytes_left_, std::max(letter.size(), kLetterBytesMin));
  scheduler_->Put(now, ref, std::move(letter));
  return ref;
}

}  // namespace duetime::delivery
