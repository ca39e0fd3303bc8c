// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/query_handlers.h"

#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/rpc/message_io.h"
#include "server/rpc/message_view.h"
#include "server/rpc/page_token.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/query_validation.h"
#include "server/rpc/validation_error.h"
#include "storage/message_record.h"

namespace duetime::rpc {
namespace {

using delivery::MessageState;

void ToProto(const PendingCount& count, v1::ForecastCount* proto) {
  proto->set_messages(static_cast<int64_t>(count.messages));
  proto->set_bytes(static_cast<int64_t>(count.bytes));
}

void FillForecast(const ForecastRange& range, const ForecastCounts& counts,
                  v1::ForecastResponse* response) {
  for (size_t i = 0; i < counts.buckets.size(); ++i) {
    if (counts.buckets[i] == PendingCount{}) continue;
    v1::ForecastBucket* bucket = response->add_buckets();
    SetTimestamp(range.start_ms + i * range.bucket_ms, bucket->mutable_start_time());
    ToProto(counts.buckets[i], bucket->mutable_count());
  }
  ToProto(counts.overdue, response->mutable_overdue());
  ToProto(counts.later, response->mutable_later());
  ToProto(counts.total, response->mutable_total());
  SetTimestamp(range.start_ms, response->mutable_start_time());
  SetTimestamp(range.end_ms(), response->mutable_end_time());
}

// Of a Forecast; the reader's thread fills it in.
struct ForecastState final : CallState {
  std::vector<storage::TopicId> topics;
  ForecastRange range;
  ForecastCounts counts;
};

}  // namespace

// Filled in by the reader's thread first, then the worker's.
struct QueryHandlers::ListState final : CallState {
  ValidList valid;
  ListPage page;
  absl::Status status;
  // One per row.
  std::vector<delivery::InspectedMessage> states;
  // Which rows a shard was asked for, in order.
  std::vector<std::vector<size_t>> asked;
  size_t open = 0;
};

void QueryHandlers::List(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ListRequest request;
  const auto state = std::make_shared<ListState>();
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateList(request, context->options.limits, &state->valid);
  if (!status.ok()) return call->FinishWithError(status);
  const auto topic = context->topics.Find(state->valid.topic);
  if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(state->valid.topic));
  MessageFilter& filter = state->valid.filter;
  filter.topic = topic->id;
  // What is due is not SCHEDULED, and the other way round, so half of the range may be left out.
  const uint64_t now_ms = context->clock->Read().wall_ms;
  if (!state->valid.scheduled) filter.until_ms = std::min(filter.until_ms, now_ms + 1);
  const auto read = [](storage::MessageStore* store, ListState* of) {
    ListBudget budget;
    budget.rows = of->valid.page_size;
    return ReadListPage(store, of->valid.filter, of->valid.from, budget, &of->page);
  };
  env_.ReadThen(call, state, read, [this, call](ListState*) { OnListRead(call); });
}

void QueryHandlers::OnListRead(UnaryCall* call) {
  auto* state = static_cast<ListState*>(call->state.get());
  runtime::Node* node = env_.context->node.load(std::memory_order_acquire);
  const uint64_t now_ms = env_.context->clock->Read().wall_ms;
  const std::vector<ListRow>& rows = state->page.rows;
  state->states.assign(rows.size(), {.state = MessageState::kScheduled, .attempts = 0});
  state->asked.resize(node->shard_count());
  std::vector<delivery::InspectCommand> commands(node->shard_count());
  for (size_t i = 0; i < rows.size(); ++i) {
    // What is not due yet is with nobody.
    if (rows[i].key.due_ms > now_ms) continue;
    commands[rows[i].shard].keys.push_back(rows[i].key);
    state->asked[rows[i].shard].push_back(i);
  }
  for (uint16_t shard = 0; shard < commands.size(); ++shard) {
    if (commands[shard].keys.empty()) continue;
    commands[shard].tag = call->tag();
    commands[shard].position = shard;
    absl::Status status = node->Post(shard, std::move(commands[shard]));
    if (status.ok()) {
      ++state->open;
    } else {
      state->status = std::move(status);
    }
  }
  if (state->open == 0) AnswerList(call);
}

void QueryHandlers::OnInspectReply(UnaryCall* call, const delivery::InspectReply& reply) {
  auto* state = static_cast<ListState*>(call->state.get());
  DT_CHECK(state != nullptr && state->open > 0);
  if (!reply.status.ok()) {
    state->status = reply.status;
  } else {
    const std::vector<size_t>& asked = state->asked[reply.position];
    DT_CHECK_EQ(asked.size(), reply.messages.size());
    for (size_t i = 0; i < asked.size(); ++i) state->states[asked[i]] = reply.messages[i];
  }
  if (--state->open == 0) AnswerList(call);
}

void QueryHandlers::AnswerList(UnaryCall* call) {
  auto* state = static_cast<ListState*>(call->state.get());
  if (!state->status.ok()) return call->FinishWithError(state->status);
  const ValidList& valid = state->valid;
  v1::ListResponse response;
  storage::MessageRecord record;
  for (size_t i = 0; i < state->page.rows.size(); ++i) {
    const ListRow& row = state->page.rows[i];
    const delivery::InspectedMessage& inspected = state->states[i];
    const bool wanted = (inspected.state == MessageState::kScheduled && valid.scheduled) ||
                        (inspected.state == MessageState::kDue && valid.due) ||
                        (inspected.state == MessageState::kInFlight && valid.in_flight);
    if (!wanted || !storage::DecodeMessageHead(row.head, &record).ok()) continue;
    v1::Message* message = response.add_messages();
    FillRecord(record, valid.topic, row.bytes - row.head.size(), /*full=*/false, message);
    message->set_id(row.key.id.ToString());
    message->set_state(rpc::ToProto(inspected.state));
    message->set_attempts(static_cast<int32_t>(inspected.attempts));
  }
  if (state->page.next.has_value()) {
    response.set_next_page_token(MakePageToken(valid.token_filter, *state->page.next));
  }
  call->Finish(response);
}

void QueryHandlers::Forecast(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ForecastRequest request;
  ValidForecast valid;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) {
    status = ValidateForecast(request, context->clock->Read().wall_ms, &valid);
  }
  if (!status.ok()) return call->FinishWithError(status);
  const auto state = std::make_shared<ForecastState>();
  state->range = valid.range;
  if (valid.topic.empty()) {
    state->topics = context->topics.Ids();
  } else {
    const auto topic = context->topics.Find(valid.topic);
    if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(valid.topic));
    state->topics = {topic->id};
  }
  const auto read = [](storage::MessageStore* store, ForecastState* of) {
    return ReadForecast(store, of->topics, of->range, ForecastBudget{}, &of->counts);
  };
  env_.ReadThen(call, state, read, [call](ForecastState* of) {
    v1::ForecastResponse response;
    FillForecast(of->range, of->counts, &response);
    call->Finish(response);
  });
}

}  // namespace duetime::rpc
