// SPDX-License-Identifier: Apache-2.0
//
// Reading lists that come in pages: PageReader for whole pages of any of them, MessageReader for a
// topic's messages one by one.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

#include "client/delay_client.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// Reads a list page by page. `Request` has a page_token and `Response` a next_page_token, as all
// List calls of the proto have; what they promise about changes between pages stands there.
//
//   PageReader<v1::ListTopicsRequest, v1::ListTopicsResponse> pages(
//       {}, [&](const auto& request) { return admin->ListTopics(request); });
//
// Cost: holds one request, no page. Thread safety: none.
template <typename Request, typename Response>
class PageReader {
 public:
  using Fetch = std::function<absl::StatusOr<Response>(const Request&)>;

  // Begins at the page that `request` asks for.
  PageReader(Request request, Fetch fetch)
      : request_(std::move(request)), fetch_(std::move(fetch)) {}

  // The next page, which may be empty although others follow; nothing after the last one. After an
  // error the same page can be asked for again.
  absl::StatusOr<std::optional<Response>> Next() {
    if (ended_) return std::optional<Response>();
    absl::StatusOr<Response> page = fetch_(request_);
    if (!page.ok()) return page.status();
    // The same question would have the same answer for ever.
    if (!page->next_page_token().empty() && page->next_page_token() == request_.page_token()) {
      return absl::InternalError("the server named a page as the one after itself");
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

// Reads the messages that a List finds, one by one, fetching pages as needed.
//
// Guarantees: those of List in messages.proto. Cost: holds one page (at most 1,000 messages without
// payloads). Thread safety: none. `client` must outlive it.
class MessageReader {
 public:
  MessageReader(Client* client, v1::ListRequest request)
      : pages_(std::move(request),
               [client](const v1::ListRequest& page) { return client->List(page); }) {}

  // The next message; nothing after the last one. After an error the reading can go on with the
  // next call: no message is lost or repeated by it.
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
