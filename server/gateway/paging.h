// SPDX-License-Identifier: Apache-2.0
//
// Pages of a list that lies in all cells, in one order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/validation_error.h"
#include "server/gateway/ask.h"

namespace duetime::gateway {

// The items of a page, and the order of the list.
inline auto* ItemsOf(v1::ListResponse* page) { return page->mutable_messages(); }
inline auto* ItemsOf(v1::ListRecurrencesResponse* page) { return page->mutable_recurrences(); }
inline bool Before(const v1::Message& a, const v1::Message& b) {
  return std::pair(a.deliver_time().seconds(), a.deliver_time().nanos()) <
         std::pair(b.deliver_time().seconds(), b.deliver_time().nanos());
}
inline bool Before(const v1::Recurrence& a, const v1::Recurrence& b) { return a.name() < b.name(); }

// One page of the lists of all cells. Each cell is asked for as many items as the page has, and the
// page is the first of all of these. A cell of which the page has only a part is then asked again,
// for just that many items. The page has this second answer, and the next page begins at its token.
// So what a cell promises of its list holds for the whole list, whatever changes meanwhile. A page
// token is the tokens of the cells with commas between.
template <typename Request, typename Response>
class MergedPage {
 public:
  MergedPage(GatewayWorker* worker, const Passed* passed, const Request& request)
      : worker_(worker), passed_(passed), request_(request), cells_(worker->map().size()) {}
  MergedPage(const MergedPage&) = delete;
  MergedPage& operator=(const MergedPage&) = delete;

  Co<absl::Status> Get(Response* response) {
    if (!ReadToken()) {
      co_return api::Invalid("INVALID_PAGE_TOKEN", "page_token", "not from this gateway's list");
    }
    const absl::Status asked = co_await AskEach();
    if (!asked.ok()) co_return asked;
    Choose();
    for (size_t i = 0; i < cells_.size(); ++i) {
      const absl::Status cut = co_await Cut(i);
      if (!cut.ok()) co_return cut;
    }
    Fill(response);
    co_return absl::OkStatus();
  }

 private:
  // Stands for the token of a cell that has no further items.
  static constexpr char kEnd[] = "!";

  struct Cell {
    // Where its part of this page begins, and where that of the next one does.
    std::string token;
    std::string next;
    Response page;
    // How many items of `page` are in the whole page.
    size_t chosen = 0;

    size_t size() { return static_cast<size_t>(ItemsOf(&page)->size()); }
    const auto& item(size_t index) { return ItemsOf(&page)->Get(static_cast<int>(index)); }
    void SetNext() { next = page.next_page_token().empty() ? kEnd : page.next_page_token(); }
  };

  bool ReadToken() {
    if (request_.page_token().empty()) return true;
    const std::vector<std::string> tokens = absl::StrSplit(request_.page_token(), ',');
    if (tokens.size() != cells_.size()) return false;
    for (size_t i = 0; i < cells_.size(); ++i) cells_[i].token = tokens[i];
    return true;
  }

  // A cell that does not know the topic has no items, unless none of them knows it.
  Co<absl::Status> AskEach() {
    std::vector<std::unique_ptr<CellCall>> calls(cells_.size());
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (cells_[i].token == kEnd) continue;
      request_.set_page_token(cells_[i].token);
      calls[i] = std::make_unique<CellCall>(worker_, i, *passed_, request_, &cells_[i].page);
    }
    Answers<Response> answers;
    for (size_t i = 0; i < cells_.size(); ++i) {
      absl::Status status;
      if (calls[i] != nullptr) {
        CellCall& call = *calls[i];
        status = co_await call;
      }
      cells_[i].SetNext();
      answers.statuses.push_back(std::move(status));
    }
    co_return answers.Status(worker_->map());
  }

  // Sets how many items of each cell belong to the first ones of all.
  void Choose() {
    size_t size = static_cast<size_t>(std::max(request_.page_size(), 0));
    // By default, as many as a cell gives.
    for (Cell& cell : cells_) size = std::max(size, request_.page_size() > 0 ? 0 : cell.size());
    for (; size > 0; --size) {
      // What follows in a cell may come before the items of the others.
      for (Cell& cell : cells_) {
        if (cell.chosen == cell.size() && cell.next != kEnd) return;
      }
      Cell* const next = Next();
      if (next == nullptr) return;
      ++next->chosen;
    }
  }

  // The cell with the first item that is not chosen; null if there is none.
  Cell* Next() {
    Cell* first = nullptr;
    for (Cell& cell : cells_) {
      if (cell.chosen == cell.size()) continue;
      if (first == nullptr || Before(cell.item(cell.chosen), first->item(first->chosen))) {
        first = &cell;
      }
    }
    return first;
  }

  // Asks a cell again for its part, if it gave more.
  Co<absl::Status> Cut(size_t index) {
    Cell& cell = cells_[index];
    if (cell.chosen == cell.size()) co_return absl::OkStatus();
    request_.set_page_token(cell.token);
    request_.set_page_size(static_cast<int32_t>(cell.chosen));
    cell.page.Clear();
    cell.next = cell.token;
    if (cell.chosen == 0) co_return absl::OkStatus();
    const absl::Status status = co_await Ask(*worker_, *passed_, index, request_, &cell.page);
    cell.SetNext();
    co_return status;
  }

  void Fill(Response* response) {
    for (Cell& cell : cells_) cell.chosen = 0;
    while (Cell* const next = Next()) {
      ItemsOf(response)->Add()->Swap(ItemsOf(&next->page)->Mutable(static_cast<int>(next->chosen)));
      ++next->chosen;
    }
    std::vector<std::string> tokens;
    bool more = false;
    for (const Cell& cell : cells_) {
      more = more || cell.next != kEnd;
      tokens.push_back(cell.next);
    }
    if (more) response->set_next_page_token(absl::StrJoin(tokens, ","));
  }

  GatewayWorker* const worker_;
  const Passed* const passed_;
  Request request_;
  std::vector<Cell> cells_;
};

// A call for one page.
template <typename Request, typename Response>
Co<absl::Status> AskPage(GatewayWorker& worker, const Passed& passed, Request& request,
                         Response* response) {
  MergedPage<Request, Response> page(&worker, &passed, request);
  co_return co_await page.Get(response);
}

}  // namespace duetime::gateway
