// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/pending_deliveries.h"

#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_record.h"

namespace duetime::delivery {
namespace {

// The revision of a message whose record cannot be read. The message may have a locator, which its
// tombstone must replace.
constexpr uint64_t kMayBeMoved = 1;

}  // namespace

EntryIndex PendingDeliveries::Insert(const storage::MessageKey& key, Subscription* subscription) {
  DT_CHECK(subscription != nullptr);
  if (free_ == kNoEntry) Grow();
  const EntryIndex index = free_;
  PendingDelivery& entry = (*this)[index];
  DT_CHECK(entry.state == EntryState::kFree);
  free_ = entry.next;
  entry = PendingDelivery{};
  entry.id = key.id;
  entry.due_ms = entry.listed_ms = key.due_ms;
  entry.subscription = subscription;
  entry.state = EntryState::kTaken;
  Chain& chain = PartOf(key.id)[key.id];
  if (chain.head != kNoEntry) {
    DT_CHECK_EQ(FindIn(chain, key.id, subscription), kNoEntry);
    entry.sibling = chain.head;
    (*this)[chain.head].sibling_before = index;
  }
  chain.head = index;
  if (chain.wide) {
    wide_[WidePlaceOf(key.id, *subscription)][{key.id, subscription}] = index;
  } else {
    Widen(&chain);
  }
  for (EntryCounts* const counts : {&counts_, &subscription->counts}) {
    ++counts->total;
    ++counts->by_state[static_cast<size_t>(EntryState::kTaken)];
  }
  return index;
}

EntryIndex PendingDeliveries::FindIn(const Chain& chain, const storage::MessageId& id,
                                     const Subscription* subscription) const {
  if (chain.wide) {
    const WidePart& part = wide_[WidePlaceOf(id, *subscription)];
    const auto it = part.find({id, subscription});
    return it == part.end() ? kNoEntry : it->second;
  }
  EntryIndex index = chain.head;
  while (index != kNoEntry && (*this)[index].subscription != subscription) {
    index = (*this)[index].sibling;
  }
  return index;
}

void PendingDeliveries::Widen(Chain* chain) {
  DT_CHECK(!chain->wide);
  size_t length = 0;
  for (EntryIndex i = chain->head; i != kNoEntry; i = (*this)[i].sibling) ++length;
  if (length <= kChainMax) return;
  chain->wide = true;
  for (EntryIndex i = chain->head; i != kNoEntry; i = (*this)[i].sibling) {
    const PendingDelivery& entry = (*this)[i];
    wide_[WidePlaceOf(entry.id, *entry.subscription)][{entry.id, entry.subscription}] = i;
  }
}

size_t PendingDeliveries::WidePlaceOf(const storage::MessageId& id,
                                      const Subscription& subscription) {
  // A message may have more entries than a part should have, so they lie in several parts.
  const uint64_t number = static_cast<uint32_t>(subscription.state.id);
  return base::Mix(id.high ^ id.low ^ (number << 32)) >> (64 - kPartBits);
}

void PendingDeliveries::SetState(EntryIndex index, EntryState state) {
  DT_CHECK_LT(index, capacity());
  PendingDelivery& entry = (*this)[index];
  DT_CHECK(entry.state != EntryState::kFree);
  DT_CHECK(state != EntryState::kFree);
  DT_CHECK(MayFollow(entry.state, state));
  // The entry has left its old state, and gets the list, timer and lease of the new one later.
  DT_CHECK(entry.Unlinked());
  DT_CHECK(entry.timer.none());
  DT_CHECK(entry.lease == protocol::kNoLease);
  for (EntryCounts* const counts : {&counts_, &entry.subscription->counts}) {
    DT_CHECK_GT(counts->of(entry.state), 0u);
    --counts->by_state[static_cast<size_t>(entry.state)];
    ++counts->by_state[static_cast<size_t>(state)];
  }
  entry.state = state;
}

void PendingDeliveries::Remove(EntryIndex index) {
  DT_CHECK_LT(index, capacity());
  PendingDelivery& entry = (*this)[index];
  DT_CHECK(MayFollow(entry.state, EntryState::kFree));
  DT_CHECK(entry.Unlinked());
  DT_CHECK(entry.timer.none());
  DT_CHECK(entry.lease == protocol::kNoLease);
  DT_CHECK(!entry.pinned);
  DT_CHECK_EQ(entry.order, 0u);
  Part& part = PartOf(entry.id);
  const auto found = part.find(entry.id);
  DT_CHECK(found != part.end());
  Chain& chain = found->second;
  if (chain.wide) {
    WidePart& wide = wide_[WidePlaceOf(entry.id, *entry.subscription)];
    DT_CHECK_EQ(wide.erase({entry.id, entry.subscription}), 1u);
  }
  if (entry.sibling != kNoEntry) (*this)[entry.sibling].sibling_before = entry.sibling_before;
  if (entry.sibling_before != kNoEntry) {
    (*this)[entry.sibling_before].sibling = entry.sibling;
  } else {
    DT_CHECK_EQ(chain.head, index);
    chain.head = entry.sibling;
    if (chain.head == kNoEntry) part.erase(found);
  }
  for (EntryCounts* const counts : {&counts_, &entry.subscription->counts}) {
    DT_CHECK_GT(counts->total, 0u);
    DT_CHECK_GT(counts->of(entry.state), 0u);
    --counts->total;
    --counts->by_state[static_cast<size_t>(entry.state)];
  }
  if (!details_.empty()) details_.erase(index);
  entry = PendingDelivery{};
  entry.next = free_;
  free_ = index;
}

void PendingDeliveries::Learn(EntryIndex index, absl::string_view record) {
  PendingDelivery& entry = (*this)[index];
  DT_CHECK(entry.state != EntryState::kFree);
  DT_CHECK(entry.state != EntryState::kEnding);
  entry.seen = true;
  // A record that lies in a damaged block is empty. Its size is known from its place.
  entry.record_bytes = record.empty() ? entry.bytes : static_cast<uint32_t>(record.size());
  storage::MessageHeader header;
  absl::string_view head;
  // A damaged record is still handed out. The code that decodes it refuses it.
  if (!storage::DecodeMessageHeader(record, &header).ok() ||
      !storage::MessageHead(record, &head).ok()) {
    details_[index].revision = kMayBeMoved;
    return;
  }
  DT_CHECK_LE(head.size(), record.size());
  entry.deliver_ms = header.deliver_ms;
  entry.accept_ms = header.accept_ms;
  entry.payload_bytes = static_cast<uint32_t>(record.size() - head.size());
  const bool keyed = (header.flags & storage::MessageFlags::kKeyed) != 0;
  if (!keyed && !storage::MayBeRevised(head)) return;
  storage::MessageRecord decoded;
  if (!storage::DecodeMessageHead(head, &decoded).ok()) {
    details_[index].revision = kMayBeMoved;
    return;
  }
  details_[index] = {.key = std::string(decoded.key), .revision = decoded.revision};
}

void PendingDeliveries::Grow() {
  DT_CHECK_EQ(free_, kNoEntry);
  DT_CHECK_LT(chunks_.size(), kNoEntry / kChunk);
  const auto base = static_cast<EntryIndex>(chunks_.size() * kChunk);
  chunks_.push_back(std::make_unique<PendingDelivery[]>(kChunk));
  for (size_t i = kChunk; i-- > 0;) {
    chunks_.back()[i].next = free_;
    free_ = base + static_cast<EntryIndex>(i);
  }
}

void PendingDeliveries::CheckInvariants() const {
  EntryCounts counts;
  size_t wide = 0;
  ForEach([&](EntryIndex index, const PendingDelivery& entry) {
    DT_CHECK(entry.subscription != nullptr);
    DT_CHECK(entry.state != EntryState::kFree);
    DT_CHECK_EQ(Find(entry.id, entry.subscription), index);
    if (entry.sibling != kNoEntry) DT_CHECK_EQ((*this)[entry.sibling].sibling_before, index);
    if (index_[PlaceOf(entry.id)].at(entry.id).wide) ++wide;
    ++counts.total;
    ++counts.by_state[static_cast<size_t>(entry.state)];
  });
  for (const WidePart& part : wide_) wide -= part.size();
  DT_CHECK_EQ(wide, 0u);
  DT_CHECK_EQ(counts.total, counts_.total);
  DT_CHECK(counts.by_state == counts_.by_state);
  for (const auto& [index, details] : details_) {
    DT_CHECK((*this)[index].state != EntryState::kFree);
  }
}

}  // namespace duetime::delivery
