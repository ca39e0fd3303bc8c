// SPDX-License-Identifier: Apache-2.0
//
// SplitBatch: a batch, divided among the cells, and its results in the order of the request.
#pragma once

#include <algorithm>
#include <coroutine>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/api/failure.h"
#include "server/gateway/cell_call.h"
#include "server/gateway/gateway_worker.h"

namespace duetime::gateway {

// Request has items, Response has results, in the same order. If a cell refuses its part as a
// whole, or gives no answer, each item of the part gets the error. No library repeats single items,
// so a part whose messages can be recognised is repeated here. Thread safety: confined to the
// worker's thread.
template <typename Request, typename Response>
class SplitBatch {
 public:
  explicit SplitBatch(GatewayWorker* worker) : worker_(worker), parts_(worker->map().size()) {}
  SplitBatch(const SplitBatch&) = delete;
  SplitBatch& operator=(const SplitBatch&) = delete;

  // The place for the next item, of this cell.
  auto* Add(size_t cell) {
    Part& part = parts_[cell];
    part.positions.push_back(size_++);
    return AddItem(&part.request);
  }
  // The next item is refused.
  void Refuse(const absl::Status& error) { refused_.emplace_back(size_++, error); }

  // Calls the cells. `on_end` is called once, perhaps before this function returns. REQUIRES: all
  // items are added.
  void Begin(const Passed& passed, absl::AnyInvocable<void()> on_end) {
    on_end_ = std::move(on_end);
    for (size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.positions.empty()) continue;
      ++open_;
      Passed of_part = passed;
      of_part.repeats = MayRepeat(part.request);
      part.call =
          std::make_unique<CellCall>(worker_, i, std::move(of_part), part.request, &part.response);
      part.call->on_end = [this] { EndPart(); };
      part.request.Clear();
    }
    ++open_;
    EndPart();
  }

  // The error of the call. OK if a cell has answered; else UNAVAILABLE, because libraries repeat a
  // call that fails like that. Refused items decide only if no item went to a cell. REQUIRES:
  // on_end was called.
  absl::Status status() const {
    absl::Status status;
    for (const Part& part : parts_) {
      if (part.call == nullptr) continue;
      if (!absl::IsUnavailable(part.call->status())) return absl::OkStatus();
      status = part.call->status();
    }
    if (!status.ok()) return status;
    for (const auto& [position, error] : refused_) {
      if (!absl::IsUnavailable(error)) return absl::OkStatus();
      status = error;
    }
    return status;
  }

  // REQUIRES: on_end was called.
  void TakeResults(Response* response) {
    auto* const results = response->mutable_results();
    results->Reserve(size_);
    for (int i = 0; i < size_; ++i) results->Add();
    for (const auto& [position, error] : refused_) {
      v1::Failure* const failure = results->Mutable(position)->mutable_error();
      api::FillFailure(error, failure);
      if (!failure->field().empty()) {
        SetField(absl::StrCat(kItems, "[", position, "].", failure->field()), failure);
      }
    }
    for (Part& part : parts_) {
      if (part.call == nullptr) continue;
      absl::Status status = part.call->status();
      const int count = static_cast<int>(part.positions.size());
      if (status.ok() && part.response.results_size() != count) {
        status = absl::InternalError("the cell has not answered each item");
      }
      for (int i = 0; i < count; ++i) {
        auto* const result = results->Mutable(part.positions[static_cast<size_t>(i)]);
        if (status.ok()) {
          result->Swap(part.response.mutable_results(i));
          if (result->has_error()) {
            Renumber(part.positions[static_cast<size_t>(i)], result->mutable_error());
          }
        } else {
          api::FillFailure(status, result->mutable_error());
        }
      }
    }
  }

 private:
  struct Part {
    Request request;
    Response response;
    std::vector<int> positions;
    std::unique_ptr<CellCall> call;
  };

  // The field of the request that has the items.
  static constexpr absl::string_view kItems = requires(Request request) { request.add_messages(); }
  ? "messages" : "cancels";

  static auto* AddItem(Request* request) {
    if constexpr (requires { request->add_messages(); }) {
      return request->add_messages();
    } else {
      return request->add_cancels();
    }
  }

  // Not for cancels: a client that does not know of the first try would take its effect for that of
  // another client.
  static bool MayRepeat(const Request& request) {
    if constexpr (requires { request.messages(); }) {
      return std::all_of(request.messages().begin(), request.messages().end(),
                         [](const auto& message) { return !message.request_id().empty(); });
    } else {
      return false;
    }
  }

  // The cell has numbered the field by the item's position in the part: "messages[3].topic".
  static void Renumber(int position, v1::Failure* error) {
    const std::string in_part = error->field();
    const size_t open = in_part.find('[');
    const size_t close = in_part.find(']');
    if (open > close || close == std::string::npos) return;
    SetField(absl::StrCat(in_part.substr(0, open + 1), position, in_part.substr(close)), error);
  }

  // Also in the metadata and at the beginning of the text, if they have the field.
  static void SetField(const std::string& field, v1::Failure* error) {
    const std::string before = error->field();
    error->set_field(field);
    if (error->metadata().contains("field")) (*error->mutable_metadata())["field"] = field;
    if (absl::StartsWith(error->message(), before)) {
      error->set_message(field + error->message().substr(before.size()));
    }
  }

  void EndPart() {
    if (--open_ == 0) std::exchange(on_end_, nullptr)();
  }

  GatewayWorker* const worker_;
  std::vector<Part> parts_;
  std::vector<std::pair<int, absl::Status>> refused_;
  int size_ = 0;
  size_t open_ = 0;
  absl::AnyInvocable<void()> on_end_;
};

// co_await waits for the end of a batch.
template <typename Request, typename Response>
class Sent {
 public:
  Sent(SplitBatch<Request, Response>* batch, const Passed& passed) {
    batch->Begin(passed, [this] {
      ended_ = true;
      if (waiting_) waiting_.resume();
    });
  }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;

  bool await_ready() const { return ended_; }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  void await_resume() const {}

 private:
  bool ended_ = false;
  std::coroutine_handle<> waiting_;
};

}  // namespace duetime::gateway
