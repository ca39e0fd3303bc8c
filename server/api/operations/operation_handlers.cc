// SPDX-License-Identifier: Apache-2.0
#include "server/api/operations/operation_handlers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/messages/content_hash.h"
#include "server/api/messages/message_view.h"
#include "server/api/operations/operation_view.h"
#include "server/api/page_token.h"
#include "server/api/query_validation.h"
#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "server/protocol/request_content.h"
#include "server/query/list_query.h"
#include "server/query/operation_query.h"
#include "server/rpc/stream_count.h"

namespace duetime::api {
namespace {

using protocol::Operation;

constexpr size_t kSampleMax = 20;

absl::Status OperationNotFoundError(const std::string& name) {
  return base::MakeError(
      absl::StatusCode::kNotFound,
      absl::StrCat("there is no operation ", name, ", or it ended and is no longer kept"),
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

void Fill(ApiWorker& worker, const WholeOperation& operation, v1::Operation* proto) {
  FillOperation(operation, worker.context().catalog().TopicName(operation.sum.spec.topic), proto);
}

// Sends a command to every shard, and merges the parts of their answers.
Co<absl::StatusOr<WholeOperation>> AskAllShards(ApiWorker& worker,
                                                protocol::OperationCommand command) {
  Replies<protocol::OperationReply> replies(&worker);
  replies.PostToAll(command);
  absl::Status status = co_await replies;
  protocol::OperationParts parts;
  for (auto& [shard, reply] : replies.all()) {
    if (reply.status.ok()) parts.emplace(shard, std::move(reply.operation));
  }
  // Shards may drop their parts of an old operation at slightly different times.
  const bool found = absl::IsNotFound(status) && !parts.empty();
  if (!status.ok() && !found) co_return status;
  co_return Merge(parts, worker.node().shard_count());
}

Co<absl::StatusOr<WholeOperation>> ReadWhole(ApiWorker& worker, std::string name) {
  ReadStore reading(
      worker, [name](storage::MessageStore* store) { return query::ReadOperation(store, name); });
  const auto parts = co_await reading;
  if (!parts.ok()) co_return parts.status();
  if (parts->empty()) co_return OperationNotFoundError(name);
  co_return Merge(*parts, worker.node().shard_count());
}

// One call that sends OperationCommands, from before the first until the shards have answered the
// last: a call that the server refuses halfway would leave an operation half started.
class OperationCall : public rpc::OpenCount {
 public:
  explicit OperationCall(ServingContext* context)
      : OpenCount(&context->operation_calls, context->node_options.mailbox.commands_max) {}

  absl::Status status() const { return Admit("calls for bulk operations"); }
};

// Starts an operation, or ends the start of one. `starting`: the operation starts in other cells as
// well, and a repeat without `starting` will say that they have it.
Co<absl::StatusOr<WholeOperation>> StartOperation(ApiWorker& worker, std::string name,
                                                  protocol::OperationSpec spec, bool starting) {
  const OperationCall open(&worker.context());
  if (absl::Status status = open.status(); !status.ok()) co_return status;
  protocol::OperationCommand command;
  command.content = ContentHash(protocol::ContentOf(spec));
  command.name = name.empty() ? RandomName() : std::move(name);
  command.spec = std::move(spec);
  // All shards check first, so that an operation that one of them refuses runs in none.
  command.validate_only = true;
  auto checked = co_await AskAllShards(worker, command);
  if (!checked.ok()) co_return checked.status();
  command.validate_only = false;
  command.starting = starting || worker.node().shard_count() > 1;
  command.elsewhere = starting;
  // Shard 0 starts alone. It decides between requests whose checks all passed, because a request
  // that it refuses reaches no other shard. The others have at most its operations, and a few that
  // it dropped earlier.
  Ask<protocol::OperationReply, protocol::OperationCommand> first(&worker, 0, command);
  const auto started = co_await first;
  if (!started.ok()) co_return started.status();
  command.first_ms = started->operation.first_ms;
  absl::StatusOr<WholeOperation> whole;
  if (!started->operation.starting && command.first_ms != 0) {
    // All shards had it or, if it was stopped, must not get it. Those that dropped it must not
    // repeat it. Of an operation that an older program started, nothing is known.
    whole = co_await ReadWhole(worker, command.name);
  } else {
    whole = co_await AskAllShards(worker, command);
  }
  if (!whole.ok()) co_return whole;
  bool stopped = whole->stopped;
  if (whole->sum.starting && !stopped && !starting) {
    // All shards have the operation.
    command.starting = command.elsewhere = false;
    Ask<protocol::OperationReply, protocol::OperationCommand> last(&worker, 0, command);
    const auto confirmed = co_await last;
    if (!confirmed.ok()) co_return confirmed.status();
    stopped = confirmed->operation.state == protocol::OperationState::kStopped;
    whole->starting = false;
  }
  if (!stopped) co_return whole;
  // A CancelOperation that came in between may not have reached all shards.
  command.spec.reset();
  co_return co_await AskAllShards(worker, std::move(command));
}

// Reads an operation on whose topic the client of the call may do this.
Co<absl::StatusOr<WholeOperation>> ReadFor(ApiWorker& worker, access::CallerPtr caller,
                                           access::Verb verb, std::string name) {
  auto operation = co_await ReadWhole(worker, name);
  if (operation.ok() && !Allows(worker, caller, verb, operation->sum.spec.topic)) {
    co_return OperationNotFoundError(name);
  }
  co_return operation;
}

// One page of a dry run.
struct DryRunPage {
  uint64_t matched = 0;
  std::vector<query::ListRow> sample;
  std::optional<query::ListPosition> next;
};

absl::StatusOr<DryRunPage> ReadDryRun(storage::MessageStore* store,
                                      const query::MessageFilter& range,
                                      const query::ListPosition& from,
                                      const protocol::OperationSpec& spec) {
  query::ListBudget budget;
  budget.rows = kPageSizeMax;
  query::ListPage page;
  if (absl::Status status = query::ReadListPage(store, range, from, budget, &page); !status.ok()) {
    return status;
  }
  DryRunPage result;
  storage::MessageRecord record;
  for (query::ListRow& row : page.rows) {
    if (!storage::DecodeMessageHead(row.head, &record).ok()) continue;
    if (!spec.filter.Matches(row.key.id, record)) continue;
    ++result.matched;
    if (result.sample.size() < kSampleMax) result.sample.push_back(std::move(row));
  }
  result.next = page.next;
  return result;
}

void FillSample(const query::ListRow& row, const std::string& topic, uint64_t now_ms,
                v1::Operation* response) {
  storage::MessageRecord record;
  if (!storage::DecodeMessageHead(row.head, &record).ok()) return;
  v1::Message* message = response->add_sample();
  FillRecord(record, row.key.id, topic, row.bytes - row.head.size(), /*full=*/false, message);
  message->set_state(row.key.due_ms <= now_ms ? v1::Message::STATE_DUE
                                              : v1::Message::STATE_SCHEDULED);
}

Co<absl::Status> DryRun(ApiWorker& worker, rpc::Call& call, std::string topic,
                        protocol::OperationSpec spec, v1::Operation* response) {
  WholeOperation whole;
  Operation& operation = whole.sum;
  operation.spec = spec;
  operation.create_ms = worker.context().clock->Read().wall_ms;
  query::MessageFilter range;
  range.topic = spec.topic;
  range.key_prefix = spec.filter.key_prefix;
  range.labels = spec.filter.labels;
  range.from_ms = spec.filter.from_ms;
  range.id = spec.filter.id;
  // The place of a message that was late at its acceptance has the time of the acceptance.
  range.until_ms = std::max(spec.filter.until_ms, operation.create_ms + 1);
  std::vector<query::ListRow> sample;
  std::optional<query::ListPosition> from = query::ListPosition{};
  while (from.has_value()) {
    ReadStore reading(worker, [range, from = *from, spec](storage::MessageStore* store) {
      return ReadDryRun(store, range, from, spec);
    });
    absl::StatusOr<DryRunPage> page = co_await reading;
    if (!page.ok()) co_return page.status();
    if (call.gone()) co_return absl::CancelledError("the client is gone");
    operation.matched += page->matched;
    for (query::ListRow& row : page->sample) {
      if (sample.size() < kSampleMax) sample.push_back(std::move(row));
    }
    from = page->next;
  }
  operation.state = protocol::OperationState::kDone;
  operation.end_ms = worker.context().clock->Read().wall_ms;
  FillOperation(whole, topic, response);
  response->set_dry_run(true);
  for (const query::ListRow& row : sample) FillSample(row, topic, operation.end_ms, response);
  co_return absl::OkStatus();
}

}  // namespace

Co<absl::Status> StartBulk(ApiWorker& worker, rpc::Call& call, const v1::StartBulkRequest& request,
                           v1::StartBulkResponse* response) {
  ServingContext& context = worker.context();
  protocol::OperationSpec spec;
  absl::Status status = ValidateBulk(request, context.options.limits, &spec);
  if (!status.ok()) co_return status;
  const auto topic = context.FindTopic(request.topic(), "topic");
  if (!topic.ok()) co_return topic.status();
  spec.topic = (*topic)->id;
  if (request.dry_run()) {
    co_return co_await DryRun(worker, call, request.topic(), std::move(spec),
                              response->mutable_operation());
  }
  auto operation =
      co_await StartOperation(worker, request.name(), std::move(spec), request.starting());
  if (operation.ok()) Fill(worker, *operation, response->mutable_operation());
  co_return operation.status();
}

Co<absl::StatusOr<std::string>> StartPurge(ApiWorker& worker, storage::TopicId topic) {
  protocol::OperationSpec spec;
  spec.topic = topic;
  spec.action = protocol::BulkAction::kPurge;
  const auto operation = co_await StartOperation(worker, "", std::move(spec), /*starting=*/false);
  if (!operation.ok()) co_return operation.status();
  co_return operation->sum.name;
}

Co<absl::Status> GetOperation(ApiWorker& worker, rpc::Call& call,
                              const v1::GetOperationRequest& request,
                              v1::GetOperationResponse* response) {
  absl::Status status = ValidateOperationName(request.name(), "name");
  if (!status.ok()) co_return status;
  const auto operation = co_await ReadFor(worker, call.caller, access::Verb::kRead, request.name());
  if (operation.ok()) Fill(worker, *operation, response->mutable_operation());
  co_return operation.status();
}

Co<absl::Status> ListOperations(ApiWorker& worker, rpc::Call& call,
                                const v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) {
  const std::string filter = absl::StrCat("operations;", request.topic());
  size_t page_size = 0;
  std::string after;
  absl::Status status =
      ValidatePage(request.page_size(), request.page_token(), filter, &page_size, &after);
  if (status.ok() && !request.topic().empty()) status = ValidateTopic(request.topic(), "topic");
  if (!status.ok()) co_return status;
  std::optional<storage::TopicId> topic;
  if (!request.topic().empty()) {
    const auto found = worker.context().catalog().FindTopicEvenIfDeleted(request.topic());
    if (found == nullptr) co_return absl::OkStatus();
    topic = found->id;
  }
  std::optional<std::string> next = after;
  // The token names the last operation of the page, so it must be one that the client may see.
  while (next.has_value() && response->operations().empty()) {
    ReadStore reading(worker, [topic, from = *next, page_size](storage::MessageStore* store) {
      return query::ReadOperations(store, topic, from, page_size);
    });
    const auto page = co_await reading;
    if (!page.ok()) co_return page.status();
    next = page->next;
    for (const auto& parts : page->operations) {
      const WholeOperation operation = Merge(parts, worker.node().shard_count());
      if (!Allows(worker, call.caller, access::Verb::kRead, operation.sum.spec.topic)) continue;
      Fill(worker, operation, response->add_operations());
    }
  }
  if (next.has_value()) {
    const std::string& last = response->operations().rbegin()->name();
    response->set_next_page_token(MakePageToken(filter, {.place = {}, .key = last}));
  }
  co_return absl::OkStatus();
}

Co<absl::Status> CancelOperation(ApiWorker& worker, rpc::Call& call,
                                 const v1::CancelOperationRequest& request,
                                 v1::CancelOperationResponse* response) {
  absl::Status status = ValidateOperationName(request.name(), "name");
  if (!status.ok()) co_return status;
  if (call.caller != nullptr) {
    // The name of an operation never leads to another one: a shard keeps it for
    // request_retention_ms after its end, and longer if nothing needs its place.
    const auto known = co_await ReadFor(worker, call.caller, access::Verb::kAdmin, request.name());
    if (!known.ok()) co_return known.status();
  }
  const OperationCall open(&worker.context());
  if (status = open.status(); !status.ok()) co_return status;
  protocol::OperationCommand command;
  command.name = request.name();
  auto operation = co_await AskAllShards(worker, std::move(command));
  if (operation.ok()) Fill(worker, *operation, response->mutable_operation());
  co_return operation.status();
}

}  // namespace duetime::api
