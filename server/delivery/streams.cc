// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/streams.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/check.h"

namespace duetime::delivery {

using protocol::StreamId;

Streams::Streams(const Core& core) : core_(core) {
  DT_CHECK_LT(core_.shard, protocol::kShardCountMax);  // the credit marks shards in one word
}

void Streams::Attach(const protocol::AttachCommand& command, Subscription* subscription) {
  DT_CHECK(command.stream != StreamId{});
  DT_CHECK(command.credit != nullptr);
  DT_CHECK(subscription != nullptr);
  DT_CHECK(command.subscription == subscription->state.id);
  DT_CHECK(!subscription->state.deleting);
  std::unique_ptr<Stream>& stream = streams_[command.stream];
  DT_CHECK(stream == nullptr);
  stream = std::make_unique<Stream>();
  stream->id = command.stream;
  stream->subscription = subscription;
  stream->lease_ms = command.lease_ms;
  stream->credit = command.credit;
  stream->budget = command.budget;
  stream->reports_begun = command.reports_begun;
  stream->client_id = command.client_id;
  ++subscription->streams;
}

void Streams::Detach(const protocol::DetachCommand& command) {
  Stream* const stream = Find(command.stream);
  if (stream == nullptr) return;
  stream->unsent = command.unsent;
  stream->broke = command.broke;
  if (command.received.has_value()) {
    DT_CHECK_LE(*command.received, stream->handed_out);
    stream->not_received = stream->handed_out - *command.received;
  }
  if (!stream->attached) {
    // The stream is an answered Pull whose client has gone, or wanted no more deliveries.
    DT_CHECK_GT(stream->in_flight.count, 0u);
    if (!command.keep_leases) closing_.push_back(command.stream);
    return;
  }
  stream->attached = false;
  MakeUnavailable(stream);
  DT_CHECK_GT(stream->subscription->streams, 0u);
  --stream->subscription->streams;
  if (stream->in_flight.count == 0) {
    streams_.erase(command.stream);
  } else if (!command.keep_leases) {
    closing_.push_back(command.stream);
  }
}

void Streams::DismissAll(Subscription* subscription, bool give_back) {
  DT_CHECK(subscription != nullptr);
  DT_CHECK_LE(subscription->available.size(), subscription->streams);
  std::vector<StreamId> over;
  for (const auto& [id, stream] : streams_) {
    if (stream->subscription != subscription) continue;
    stream->available = stream->attached = false;
    stream->dismissed = true;
    if (stream->in_flight.count == 0) {
      over.push_back(id);
    } else if (give_back) {
      closing_.push_back(id);
    }
  }
  subscription->available.clear();
  subscription->streams = 0;
  for (const StreamId id : over) streams_.erase(id);
}

Stream* Streams::Find(StreamId id) const {
  const auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second.get();
}

Stream* Streams::Get(StreamId id) const {
  Stream* const stream = Find(id);
  DT_CHECK(stream != nullptr);
  return stream;
}

void Streams::MakeAvailable(Stream* stream) {
  if (!stream->attached) return;
  if (!stream->available) {
    stream->available = true;
    stream->subscription->available.push_back(stream);
  }
  core_.turns.Serve(stream->subscription);
  core_.turns.ReadBack(stream->subscription);
}

void Streams::TryAgain(StreamId id) {
  if (Stream* const stream = Find(id); stream != nullptr) MakeAvailable(stream);
}

void Streams::MakeUnavailable(Stream* stream) {
  if (!stream->available) return;
  stream->available = false;
  std::deque<Stream*>& available = stream->subscription->available;
  const auto it = std::find(available.begin(), available.end(), stream);
  DT_CHECK(it != available.end());
  available.erase(it);
}

bool Streams::TakeCredit(Stream* stream, uint32_t bytes, bool alone) {
  DT_CHECK(stream->attached);
  protocol::StreamCredit& credit = *stream->credit;
  if (alone ? credit.TakeAlone(core_.shard, bytes) : credit.Take(core_.shard, bytes)) return true;
  MakeUnavailable(stream);
  return false;
}

bool Streams::HasRoom(Stream* stream) {
  DT_CHECK(stream->attached);
  if (!stream->credit->HasRoom(core_.shard)) {
    MakeUnavailable(stream);
    return false;
  }
  absl::Status status = protocol::Admit(stream->budget);
  if (status.ok()) return true;
  MakeUnavailable(stream);
  core_.effects.frames.push_back(
      {.stream = stream->id, .deliveries = {}, .status = std::move(status)});
  return false;
}

void Streams::ReturnCredit(StreamId id, int64_t messages, int64_t bytes) {
  DT_CHECK(id != StreamId{});
  DT_CHECK_GT(messages, 0);
  DT_CHECK_GE(bytes, 0);
  if (Stream* const stream = Find(id)) Wake(stream, stream->credit->Return(messages, bytes));
}

void Streams::UntakeCredit(Stream* stream, int64_t messages, int64_t bytes) {
  Wake(stream, stream->credit->Untake(messages, bytes));
}

void Streams::Wake(Stream* stream, uint64_t shards) {
  const uint64_t self = uint64_t{1} << core_.shard;
  if ((shards & ~self) != 0) core_.effects.wakes.push_back({stream->id, shards & ~self});
  if ((shards & self) != 0) MakeAvailable(stream);
}

void Streams::DropIfOver(Stream* stream) {
  if (!stream->attached && stream->in_flight.count == 0) streams_.erase(stream->id);
}

void Streams::CheckInvariants() const {
  for (const auto& [id, stream] : streams_) {
    DT_CHECK(stream->id == id);
    DT_CHECK(stream->attached || stream->in_flight.count > 0);
    DT_CHECK(stream->attached || !stream->available);
    DT_CHECK(!stream->dismissed || !stream->attached);
    const std::deque<Stream*>& available = stream->subscription->available;
    DT_CHECK_EQ(std::count(available.begin(), available.end(), stream.get()),
                stream->available ? 1 : 0);
  }
}

}  // namespace duetime::delivery
