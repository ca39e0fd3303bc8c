// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/query_handlers.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/messages/message_view.h"
#include "server/api/page_token.h"
#include "server/api/proto_time.h"
#include "server/api/query_validation.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/protocol/commands.h"
#include "storage/message_record.h"

namespace duetime::api {
namespace {

using protocol::InspectedMessage;
using protocol::MessageState;

void CountToProto(const query::PendingCount& count, v1::ForecastCount* proto) {
  proto->set_messages(static_cast<int64_t>(count.messages));
  proto->set_bytes(static_cast<int64_t>(count.bytes));
}

void FillForecast(const query::ForecastRange& range, const query::ForecastCounts& counts,
                  v1::ForecastResponse* response) {
  for (size_t i = 0; i < counts.buckets.size(); ++i) {
    if (counts.buckets[i] == query::PendingCount{}) continue;
    v1::ForecastBucket* bucket = response->add_buckets();
    SetTimestamp(range.start_ms + i * range.bucket_ms, bucket->mutable_start_time());
    CountToProto(counts.buckets[i], bucket->mutable_count());
  }
  CountToProto(counts.overdue, response->mutable_overdue());
  CountToProto(counts.later, response->mutable_later());
  CountToProto(counts.total, response->mutable_total());
  SetTimestamp(range.start_ms, response->mutable_start_time());
  SetTimestamp(range.end_ms(), response->mutable_end_time());
}

// Finds the states of the rows of a page. A message that is not due yet is scheduled; the shards
// tell the states of the others.
Co<absl::StatusOr<std::vector<InspectedMessage>>> Inspect(ApiWorker& worker,
                                                          const std::vector<query::ListRow>& rows) {
  const uint64_t now_ms = worker.context().clock->Read().wall_ms;
  std::vector<InspectedMessage> states(rows.size(),
                                       {.state = MessageState::kScheduled, .attempts = 0});
  std::vector<protocol::InspectCommand> commands(worker.node().shard_count());
  // The index of each row in the shard's command, in order.
  std::vector<std::vector<size_t>> asked(commands.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].key.due_ms > now_ms) continue;
    commands[rows[i].shard].keys.push_back(rows[i].key);
    asked[rows[i].shard].push_back(i);
  }
  Replies<protocol::InspectReply> replies(&worker);
  for (uint16_t shard = 0; shard < commands.size(); ++shard) {
    if (commands[shard].keys.empty()) continue;
    replies.Post(shard, std::move(commands[shard]));
  }
  absl::Status status = co_await replies;
  if (!status.ok()) co_return status;
  for (const auto& [shard, reply] : replies.all()) {
    DT_CHECK_EQ(asked[shard].size(), reply.messages.size());
    for (size_t i = 0; i < asked[shard].size(); ++i) {
      states[asked[shard][i]] = reply.messages[i];
    }
  }
  co_return states;
}

// The bytes of whole records in a page: an answer stays below the 4 MiB that a client of gRPC
// accepts by default.
constexpr size_t kWholeBytes = 2 << 20;

// Fills in the message of a row, without its state. Returns false if its record is damaged.
bool FillRow(const query::ListRow& row, absl::string_view topic, v1::Message* message) {
  storage::MessageRecord record;
  if (!row.whole.empty() && storage::DecodeMessageRecord(row.whole, &record).ok()) {
    FillRecord(record, row.key.id, topic, record.payload.size(), /*full=*/true, message);
    return true;
  }
  if (!storage::DecodeMessageHead(row.head, &record).ok()) return false;
  FillRecord(record, row.key.id, topic, row.bytes - row.head.size(), /*full=*/false, message);
  return true;
}

bool IsWanted(const ValidList& valid, MessageState state) {
  return (state == MessageState::kScheduled && valid.scheduled) ||
         (state == MessageState::kDue && valid.due) ||
         (state == MessageState::kInFlight && valid.in_flight);
}

}  // namespace

Co<absl::Status> List(ApiWorker& worker, rpc::Call&, const v1::ListRequest& request,
                      v1::ListResponse* response) {
  ServingContext& context = worker.context();
  ValidList valid;
  absl::Status status = ValidateList(request, context.options.limits, &valid);
  if (!status.ok()) co_return status;
  const auto topic = context.FindTopic(valid.topic, "topic");
  if (!topic.ok()) co_return topic.status();
  query::MessageFilter& filter = valid.filter;
  filter.topic = (*topic)->id;
  // A due message is not SCHEDULED, so the part of the range after now can be left out.
  const uint64_t now_ms = context.clock->Read().wall_ms;
  if (!valid.scheduled) filter.until_ms = std::min(filter.until_ms, now_ms + 1);
  // A topic without a named subscription has a nameless one, with the topic's own number.
  std::vector<storage::SubscriptionId> readers = {storage::FirstSubscription(filter.topic)};
  for (const auto& one :
       context.catalog().ListSubscriptions(filter.topic, "", std::numeric_limits<size_t>::max())) {
    if (one->id != readers.front()) readers.push_back(one->id);
  }
  ReadStore reading(worker,
                    [filter, from = valid.from, rows = valid.page_size, full = valid.full, now_ms,
                     readers = std::move(readers)](
                        storage::MessageStore* store) -> absl::StatusOr<query::ListPage> {
                      query::ListBudget budget;
                      budget.rows = rows;
                      if (full) budget.whole_bytes = kWholeBytes;
                      query::ListPage page;
                      absl::Status read = query::ReadListPage(store, filter, from, budget, &page);
                      if (read.ok()) read = query::ReadAttempts(store, now_ms, readers, &page);
                      if (!read.ok()) return read;
                      return page;
                    });
  const auto page = co_await reading;
  if (!page.ok()) co_return page.status();
  const auto states = co_await Inspect(worker, page->rows);
  if (!states.ok()) co_return states.status();
  for (size_t i = 0; i < page->rows.size(); ++i) {
    const InspectedMessage& inspected = (*states)[i];
    if (!IsWanted(valid, inspected.state)) continue;
    v1::Message* message = response->add_messages();
    if (!FillRow(page->rows[i], valid.topic, message)) {
      response->mutable_messages()->RemoveLast();
      continue;
    }
    message->set_state(ToProto(inspected.state));
    // Of a message that waits on disk only the store has the attempts.
    message->set_attempts(
        static_cast<int32_t>(std::max(inspected.attempts, page->rows[i].attempts)));
  }
  if (page->next.has_value()) {
    response->set_next_page_token(MakePageToken(valid.token_filter, *page->next));
  }
  co_return absl::OkStatus();
}

Co<absl::Status> Forecast(ApiWorker& worker, rpc::Call& call, const v1::ForecastRequest& request,
                          v1::ForecastResponse* response) {
  ServingContext& context = worker.context();
  ValidForecast valid;
  absl::Status status = ValidateForecast(request, context.clock->Read().wall_ms, &valid);
  if (!status.ok()) co_return status;
  std::vector<storage::TopicId> topics;
  if (valid.topic.empty()) {
    for (const storage::TopicId topic : context.catalog().TopicIds()) {
      if (Allows(worker, call.caller, access::Verb::kRead, topic)) topics.push_back(topic);
    }
  } else {
    const auto topic = context.FindTopic(valid.topic, "topic");
    if (!topic.ok()) co_return topic.status();
    topics.push_back((*topic)->id);
  }
  ReadStore reading(worker,
                    [topics, range = valid.range](
                        storage::MessageStore* store) -> absl::StatusOr<query::ForecastCounts> {
                      query::ForecastCounts counts;
                      absl::Status read = query::ReadForecast(store, topics, range,
                                                              query::ForecastBudget{}, &counts);
                      if (!read.ok()) return read;
                      return counts;
                    });
  const auto counts = co_await reading;
  if (!counts.ok()) co_return counts.status();
  FillForecast(valid.range, *counts, response);
  co_return absl::OkStatus();
}

}  // namespace duetime::api
