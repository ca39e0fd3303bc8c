// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/operation_handlers.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"

#include "duetime/v1/admin.pb.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/content_hash.h"
#include "server/rpc/list_query.h"
#include "server/rpc/message_io.h"
#include "server/rpc/message_view.h"
#include "server/rpc/operation_view.h"
#include "server/rpc/page_token.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/query_validation.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {
namespace {

using delivery::Operation;
using storage::ObjectKind;

constexpr int kSampleMax = 20;
// Objects that a list looks at before it ends its page.
constexpr size_t kLooksMax = 10'000;

absl::Status NotFoundError(const std::string& name) {
  return base::MakeError(
      absl::StatusCode::kNotFound,
      absl::StrCat("there is no operation ", name, ", or it ended longer than a day ago"),
      {.reason = "OPERATION_NOT_FOUND",
       .field = "name",
       .metadata = {{"name", name}},
       .retry_after_ms = 0});
}

std::string RandomName() {
  absl::BitGen random;
  return absl::StrCat("bulk-", absl::Hex(absl::Uniform<uint64_t>(random), absl::kZeroPad16),
                      absl::Hex(absl::Uniform<uint64_t>(random), absl::kZeroPad16));
}

// The parts of an operation from the store; empty if there are none.
absl::Status ReadParts(storage::MessageStore* store, const std::string& name,
                       std::vector<Operation>* parts) {
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    const auto object = store->GetObject(ObjectKind::kOperation, shard, name);
    if (!object.ok()) return object.status();
    if (!object->has_value()) continue;
    auto part = delivery::DecodeOperation(name, **object);
    if (!part.ok()) return part.status();
    parts->push_back(*std::move(part));
  }
  return absl::OkStatus();
}

// Of a GetOperation; the reader's thread fills it in.
struct ReadState final : CallState {
  std::string name;
  std::vector<Operation> parts;
};

// Of a ListOperations; likewise.
struct ListState final : CallState {
  std::string after;
  std::string token_filter;
  size_t page_size = 0;
  std::optional<storage::TopicId> topic;
  std::vector<Operation> operations;
  std::string last_looked_at;
  bool more = false;
};

absl::Status ReadOperations(storage::MessageStore* store, ListState* state) {
  size_t looks = 0;
  std::string after = state->after;
  for (;;) {
    // Every operation has a part in every shard.
    std::vector<storage::ObjectRef> objects;
    absl::Status status = store->ScanObjects(ObjectKind::kOperation, 0, after, 100, &objects);
    if (!status.ok()) return status;
    if (objects.empty()) return absl::OkStatus();
    for (const storage::ObjectRef& object : objects) {
      if (state->operations.size() >= state->page_size || looks >= kLooksMax) {
        state->more = true;
        return absl::OkStatus();
      }
      ++looks;
      after = state->last_looked_at = object.name;
      std::vector<Operation> parts;
      if (status = ReadParts(store, object.name, &parts); !status.ok()) return status;
      if (parts.empty()) continue;
      if (state->topic.has_value() && parts.front().spec.topic != *state->topic) continue;
      state->operations.push_back(Merge(parts));
    }
  }
}

}  // namespace

// Of a StartBulk or CancelOperation: what the shards have answered.
struct OperationHandlers::Parts final : CallState {
  std::vector<Operation> parts;
  absl::Status status;
  size_t open = 0;
};

// Of a dry run; passed between the reader's thread and the worker's.
struct OperationHandlers::DryRun final : CallState {
  Operation operation;
  std::string topic;
  MessageFilter range;
  ListPosition from;
  std::vector<ListRow> sample;
  bool done = false;
};

void OperationHandlers::PostToAll(UnaryCall* call, const delivery::OperationCommand& command) {
  runtime::Node* node = env_.context->node.load(std::memory_order_acquire);
  auto state = std::make_shared<Parts>();
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    delivery::OperationCommand copy = command;
    copy.position = shard;
    absl::Status status = node->Post(shard, std::move(copy));
    if (status.ok()) {
      ++state->open;
    } else {
      state->status = std::move(status);
    }
  }
  const size_t open = state->open;
  call->state = std::move(state);
  if (open == 0) Answer(call);
}

void OperationHandlers::OnOperationReply(UnaryCall* call, const delivery::OperationReply& reply) {
  auto* state = static_cast<Parts*>(call->state.get());
  DT_CHECK(state != nullptr && state->open > 0);
  if (reply.status.ok()) {
    state->parts.push_back(reply.operation);
  } else {
    state->status = reply.status;
  }
  if (--state->open == 0) Answer(call);
}

void OperationHandlers::Answer(UnaryCall* call) {
  const auto* state = static_cast<Parts*>(call->state.get());
  // A shard may have dropped its part of an old operation a moment before another does.
  const bool found = absl::IsNotFound(state->status) && !state->parts.empty();
  if (!state->status.ok() && !found) return call->FinishWithError(state->status);
  const Operation operation = Merge(state->parts);
  if (call->method() == metrics::RpcMethod::kDeleteTopic) {
    v1::DeleteTopicResponse deleted;
    deleted.set_operation(operation.name);
    return call->Finish(deleted);
  }
  v1::Operation response;
  Fill(operation, &response);
  call->Finish(response);
}

void OperationHandlers::Fill(const Operation& operation, v1::Operation* proto) const {
  FillOperation(operation, env_.context->topics.Name(operation.spec.topic).value_or(""), proto);
}

void OperationHandlers::Start(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::StartBulkRequest request;
  delivery::OperationCommand command;
  delivery::OperationSpec spec;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateBulk(request, context->options.limits, &spec);
  if (!status.ok()) return call->FinishWithError(status);
  const auto topic = context->topics.Find(request.topic());
  if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(request.topic()));
  spec.topic = topic->id;
  if (request.dry_run()) {
    auto run = std::make_shared<DryRun>();
    run->operation.spec = spec;
    run->operation.create_ms = context->clock->Read().wall_ms;
    run->topic = request.topic();
    run->range.topic = topic->id;
    run->range.key_prefix = spec.filter.key_prefix;
    run->range.labels = spec.filter.labels;
    run->range.from_ms = spec.filter.from_ms;
    // What was late when it was accepted lies behind its deliver time.
    run->range.until_ms = std::max(spec.filter.until_ms, run->operation.create_ms + 1);
    return ReadNextPage(call, run);
  }
  Operation content;
  content.spec = spec;
  command.tag = call->tag();
  command.content = ContentHash(delivery::EncodeOperation(content));
  command.name = request.name();
  if (command.name.empty()) command.name = RandomName();
  command.spec = std::move(spec);
  PostToAll(call, command);
}

void OperationHandlers::StartPurge(UnaryCall* call, storage::TopicId topic) {
  delivery::OperationSpec spec;
  spec.topic = topic;
  spec.action = delivery::BulkAction::kPurge;
  Operation content;
  content.spec = spec;
  delivery::OperationCommand command;
  command.tag = call->tag();
  command.content = ContentHash(delivery::EncodeOperation(content));
  command.name = RandomName();
  command.spec = std::move(spec);
  PostToAll(call, command);
}

void OperationHandlers::ReadNextPage(UnaryCall* call, const std::shared_ptr<DryRun>& run) {
  const auto read = [](storage::MessageStore* store, DryRun* of) {
    ListBudget budget;
    budget.rows = kPageSizeMax;
    ListPage page;
    absl::Status status = ReadListPage(store, of->range, of->from, budget, &page);
    storage::MessageRecord record;
    for (ListRow& row : page.rows) {
      if (!storage::DecodeMessageHead(row.head, &record).ok()) continue;
      if (!of->operation.spec.filter.Matches(record)) continue;
      ++of->operation.matched;
      if (of->sample.size() < kSampleMax) of->sample.push_back(std::move(row));
    }
    of->done = !page.next.has_value();
    if (!of->done) of->from = *page.next;
    return status;
  };
  env_.ReadThen(call, run, read, [this, call, run](DryRun* of) {
    if (call->gone()) return call->FinishWithError(absl::CancelledError("the client is gone"));
    if (!of->done) return ReadNextPage(call, run);
    const uint64_t now_ms = env_.context->clock->Read().wall_ms;
    of->operation.state = delivery::OperationState::kDone;
    of->operation.end_ms = now_ms;
    v1::Operation response;
    FillOperation(of->operation, of->topic, &response);
    response.set_dry_run(true);
    storage::MessageRecord sampled;
    for (const ListRow& row : of->sample) {
      if (!storage::DecodeMessageHead(row.head, &sampled).ok()) continue;
      v1::Message* message = response.add_sample();
      FillRecord(sampled, of->topic, row.bytes - row.head.size(), /*full=*/false, message);
      message->set_id(row.key.id.ToString());
      message->set_state(row.key.due_ms <= now_ms ? v1::Message::DUE : v1::Message::SCHEDULED);
    }
    call->Finish(response);
  });
}

void OperationHandlers::Get(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::GetOperationRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateOperationName(request.name(), "name");
  if (!status.ok()) return call->FinishWithError(status);
  const auto state = std::make_shared<ReadState>();
  state->name = request.name();
  const auto read = [](storage::MessageStore* store, ReadState* of) {
    return ReadParts(store, of->name, &of->parts);
  };
  env_.ReadThen(call, state, read, [this, call](ReadState* of) {
    if (of->parts.empty()) return call->FinishWithError(NotFoundError(of->name));
    v1::Operation response;
    Fill(Merge(of->parts), &response);
    call->Finish(response);
  });
}

void OperationHandlers::List(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ListOperationsRequest request;
  const auto state = std::make_shared<ListState>();
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) {
    state->token_filter = absl::StrCat("operations;", request.topic());
    status = ValidatePage(request.page_size(), request.page_token(), state->token_filter,
                          &state->page_size, &state->after);
  }
  if (status.ok() && !request.topic().empty()) status = ValidateTopic(request.topic(), "topic");
  if (!status.ok()) return call->FinishWithError(status);
  if (!request.topic().empty()) {
    const auto topic = context->topics.FindEvenIfDeleted(request.topic());
    if (!topic.has_value()) return call->Finish(v1::ListOperationsResponse());
    state->topic = topic->id;
  }
  env_.ReadThen(call, state, ReadOperations, [this, call](ListState* of) {
    v1::ListOperationsResponse response;
    for (const Operation& operation : of->operations) Fill(operation, response.add_operations());
    if (of->more) {
      response.set_next_page_token(
          MakePageToken(of->token_filter, {.place = {}, .key = of->last_looked_at}));
    }
    call->Finish(response);
  });
}

void OperationHandlers::Cancel(UnaryCall* call) {
  if (absl::Status status = env_.context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::CancelOperationRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateOperationName(request.name(), "name");
  if (!status.ok()) return call->FinishWithError(status);
  delivery::OperationCommand command;
  command.tag = call->tag();
  command.name = request.name();
  PostToAll(call, command);
}

}  // namespace duetime::rpc
