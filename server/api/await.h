// SPDX-License-Identifier: Apache-2.0
//
// The objects that a handler can await: the reply of a shard or of the catalog, the replies of
// several shards, a read of the store on the reader's thread, and a callback.
//
// Each object lives in the frame of the coroutine that awaits it. A frame is destroyed early only
// when its worker takes no more tasks (Call::Abandon), so no reply reaches a destroyed frame.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/api/api_worker.h"
#include "server/api/reply_table.h"
#include "server/api/validation_error.h"

namespace duetime::api {

// Posts commands to shards under one tag, and waits for the replies, of type T: co_await gives OK,
// or an error of a Post or of a reply (AddShardError). A handler that answers item by item does not
// need this status: PostItems returns the error of its command, and `all` has the errors of the
// replies.
template <typename T>
class Replies final : public ReplySink {
 public:
  struct FromShard {
    uint16_t shard = 0;
    T reply;
  };

  explicit Replies(ApiWorker* worker) : worker_(worker), tag_(worker->replies().Add(this)) {}
  ~Replies() { worker_->replies().Remove(tag_); }
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  // The tag for commands that carry one per item.
  protocol::CallTag tag() const { return tag_; }

  // Sends a command that gets `items` replies. After an error, the command gets no reply.
  template <typename Command>
  absl::Status PostItems(uint16_t shard, Command command, size_t items) {
    if constexpr (requires { command.tag; }) command.tag = tag_;
    if constexpr (requires { command.position; }) command.position = shard;
    absl::Status status = worker_->node().Post(shard, std::move(command));
    if (status.ok()) {
      open_ += items;
    } else {
      AddShardError(status, &status_);
    }
    return status;
  }
  template <typename Command>
  void Post(uint16_t shard, Command command) {
    // co_await gives the error.
    PostItems(shard, std::move(command), 1).IgnoreError();
  }
  template <typename Command>
  void PostToAll(const Command& command) {
    for (uint16_t shard = 0; shard < worker_->node().shard_count(); ++shard) Post(shard, command);
  }

  std::vector<FromShard>& all() { return replies_; }

  // Called for each reply, before the coroutine is resumed.
  std::function<void(FromShard&)> on_reply;

  void OnReply(uint16_t shard, protocol::Reply reply) override {
    FromShard& added = replies_.emplace_back(FromShard{shard, std::get<T>(std::move(reply))});
    if constexpr (requires { added.reply.status; }) {
      if (!added.reply.status.ok()) AddShardError(added.reply.status, &status_);
    }
    --open_;
    if (on_reply) on_reply(added);
    if (open_ == 0 && waiting_) std::exchange(waiting_, {}).resume();
  }

  bool await_ready() const { return open_ == 0; }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  absl::Status await_resume() { return status_; }

 private:
  ApiWorker* const worker_;
  const protocol::CallTag tag_;
  size_t open_ = 0;
  absl::Status status_;
  std::vector<FromShard> replies_;
  std::coroutine_handle<> waiting_;
};

// Posts one command and waits for its reply: co_await gives the reply, or its error.
template <typename T, typename Command>
class Ask final : public ReplySink {
 public:
  Ask(ApiWorker* worker, uint16_t shard, Command command)
      : worker_(worker), tag_(worker->replies().Add(this)) {
    command.tag = tag_;
    status_ = worker->node().Post(shard, std::move(command));
  }
  ~Ask() { worker_->replies().Remove(tag_); }
  Ask(const Ask&) = delete;
  Ask& operator=(const Ask&) = delete;

  void OnReply(uint16_t shard, protocol::Reply reply) override {
    static_cast<void>(shard);
    reply_ = std::get<T>(std::move(reply));
    waiting_.resume();
  }

  bool await_ready() const { return !status_.ok(); }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  absl::StatusOr<T> await_resume() {
    if (!status_.ok()) return status_;
    if (!reply_.status.ok()) return reply_.status;
    return std::move(reply_);
  }

 private:
  ApiWorker* const worker_;
  const protocol::CallTag tag_;
  absl::Status status_;
  T reply_;
  std::coroutine_handle<> waiting_;
};

// Sends a command to the catalog: co_await gives its reply, whose status may be an error.
class AskCatalog final : public CatalogReplySink {
 public:
  template <typename Command>
  AskCatalog(ApiWorker* worker, Command command)
      : worker_(worker), tag_(worker->catalog_replies().Add(this)) {
    command.tag = tag_;
    reply_.status = worker->node().PostToCatalog(std::move(command));
  }
  ~AskCatalog() { worker_->catalog_replies().Remove(tag_); }
  AskCatalog(const AskCatalog&) = delete;
  AskCatalog& operator=(const AskCatalog&) = delete;

  void OnReply(catalog::Reply reply) override {
    reply_ = std::move(reply);
    waiting_.resume();
  }

  bool await_ready() const { return !reply_.status.ok(); }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  catalog::Reply await_resume() { return std::move(reply_); }

 private:
  ApiWorker* const worker_;
  const catalog::RequestTag tag_;
  catalog::Reply reply_;
  std::coroutine_handle<> waiting_;
};

// Runs `read(store)` on the reader's thread: co_await gives its result, an absl::StatusOr. If the
// result's type has a function AnswerSize, the read is refused with OVERLOADED without room for its
// answer, and the result counts as an open answer while the object lives. ReadError turns an error
// of the store into an error for clients. REQUIRES: `read` owns its arguments.
template <typename Read>
class ReadStore {
 public:
  using Result = std::invoke_result_t<Read&, storage::MessageStore*>;

  ReadStore(ApiWorker& worker, Read read)
      : worker_(&worker), read_(std::make_shared<Read>(std::move(read))) {}
  ReadStore(const ReadStore&) = delete;
  ReadStore& operator=(const ReadStore&) = delete;

  bool await_ready() {
    // The coroutine cannot be resumed before it is suspended: both happen on the worker's thread.
    const absl::Status posted =
        worker_->context().reader->Post([this, worker = worker_, read = read_] {
          protocol::AnswerCharge charge;
          auto result = std::make_shared<Result>(Run(&worker->context(), read.get(), &charge));
          worker->RunHere([this, result, charge = std::move(charge)]() mutable {
            charge_ = std::move(charge);
            result_.emplace(std::move(*result));
            waiting_.resume();
          });
        });
    if (!posted.ok()) result_.emplace(posted);
    return !posted.ok();
  }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  Result await_resume() {
    if (!result_->ok()) return ReadError(result_->status());
    return *std::move(result_);
  }

 private:
  // On the reader's thread.
  static Result Run(ServingContext* context, Read* read, protocol::AnswerCharge* charge) {
    if constexpr (requires(const Result& result) { AnswerSize(*result); }) {
      absl::Status room = context->open_answers->Admit();
      if (!room.ok()) return room;
      Result result = (*read)(context->store);
      if (result.ok()) *charge = protocol::Charge(context->open_answers, AnswerSize(*result));
      return result;
    } else {
      return (*read)(context->store);
    }
  }

  ApiWorker* const worker_;
  const std::shared_ptr<Read> read_;
  protocol::AnswerCharge charge_;
  std::optional<Result> result_;
  std::coroutine_handle<> waiting_;
};

// Calls `start(done)` and waits for `done(result)`, on the worker's thread. `done` may be called
// before `start` returns.
template <typename Result, typename Start>
class Callback {
 public:
  explicit Callback(Start start) : start_(std::move(start)) {}
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  bool await_ready() {
    start_([this](Result result) {
      result_.emplace(std::move(result));
      if (waiting_) waiting_.resume();
    });
    return result_.has_value();
  }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  Result await_resume() { return *std::move(result_); }

 private:
  Start start_;
  std::optional<Result> result_;
  std::coroutine_handle<> waiting_;
};

template <typename Result, typename Start>
Callback<Result, Start> WaitFor(Start start) {
  return Callback<Result, Start>(std::move(start));
}

}  // namespace duetime::api
