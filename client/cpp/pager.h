// SPDX-License-Identifier: Apache-2.0
//
// PageReader reads any list page by page. MessageReader reads the messages of a topic one by one.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

#include "client/cpp/delay_client.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// Reads a list page by page. `Request` has a page_token and `Response` a next_page_token, as in all
// List calls. The protos document the effect of changes between two pages.
//
//   PageReader<v1::ListTopicsRequest, v1::ListTopicsResponse> pages(
//       {}, [&](const auto& request) { return admin->ListTopics(request); });
//
// Cost: holds one request, no page. Thread safety: none.
template <typename Request, typename Response>
class PageReader {
 public:
  using Fetch = std::function<absl::StatusOr<Response>(const Request&)>;

  // Starts at the page of `request`.
  PageReader(Request request, Fetch fetch)
      : request_(std::move(request)), fetch_(std::move(fetch)) {}

  // The next page, or nullopt after the last one. A page may be empty although others follow. After
  // an error, the next call asks for the same page again.
  absl::StatusOr<std::optional<Response>> Next() {
    if (ended_) return std::optional<Response>();
    absl::StatusOr<Response> page = fetch_(request_);
    if (!page.ok()) return page.status();
    // Asking for the same page would never end.
    if (!page->next_page_token().empty() && page->next_page_token() == request_.page_token()) {
      return absl::InternalError("the server returned the same page token twice");
    }
    ended_ = page->next_page_token().empty();
    request_.set_page_token(page->next_page_token());
    return std::optional<Response>(*std::move(page));
  }

 private:
  Request request_;
  Fetch fetch_;
  bool ended_ = false;
};

// Reads the messages of a List one by one, and fetches pages as needed.
//
// Guarantees: those of List in messages.proto. Cost: holds one page (at most 1,000 messages without
// payloads). Thread safety: none. `client` must outlive it.
class MessageReader {
 public:
  MessageReader(Client* client, v1::ListRequest request)
      : pages_(std::move(request),
               [client](const v1::ListRequest& page) { return client->List(page); }) {}

  // The next message, or nullopt after the last one. After an error, the next call continues: no
  // message is lost or repeated.
  absl::StatusOr<std::optional<v1::Message>> Next() {
    while (next_ == page_.messages_size()) {
      absl::StatusOr<std::optional<v1::ListResponse>> page = pages_.Next();
      if (!page.ok()) return page.status();
      if (!page->has_value()) return std::optional<v1::Message>();
      page_ = **std::move(page);
      next_ = 0;
    }
    return std::optional<v1::Message>(std::move(*page_.mutable_messages(next_++)));
  }

 private:
  PageReader<v1::ListRequest, v1::ListResponse> pages_;
  v1::ListResponse page_;
  int next_ = 0;
};

}  // namespace duetime::client
