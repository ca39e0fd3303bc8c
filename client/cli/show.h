// SPDX-License-Identifier: Apache-2.0
//
// What the commands have in common: connect, print the answer or the error, return the exit code.
// Internal to the commands.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/pager.h"

namespace duetime::cli {

inline void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// A Client or an AdminClient.
template <typename AnyClient>
absl::StatusOr<std::unique_ptr<AnyClient>> Connect(const Settings& settings) {
  client::ClientOptions options;
  options.server = settings.server;
  options.deadline = settings.deadline;
  return AnyClient::Create(options);
}

// Prints one answer: `text(answer)` for people, its JSON for programs.
template <typename Answer, typename Text>
ExitCode Show(const Settings& settings, const absl::StatusOr<Answer>& answer, const Text& text) {
  if (!answer.ok()) return Fail(settings, answer.status());
  Print(settings.json ? Line(ToJson(*answer)) : text(*answer));
  return kDone;
}

// Prints one page, or all of them, as they come: `table(items)` for people; a line of JSON for each
// item for programs, and one with next_page_token if more is there. `items(page)` are those of a
// page.
template <typename Response, typename Request, typename Fetch, typename Items, typename Table>
ExitCode ShowPages(const Settings& settings, const ListArguments<Request>& arguments,
                   const Fetch& fetch, const Items& items, const Table& table) {
  client::PageReader<Request, Response> pages(arguments.request, fetch);
  bool printed = false;
  std::string token;
  do {
    const absl::StatusOr<std::optional<Response>> page = pages.Next();
    if (!page.ok()) return Fail(settings, page.status());
    if (!page->has_value()) break;
    token = (*page)->next_page_token();
    if (items(**page).empty()) continue;
    if (settings.json) {
      for (const auto& item : items(**page)) Print(Line(ToJson(item)));
    } else {
      // Each page is a table of its own, since a long list is not held to find its widest cell.
      if (printed) Print("\n");
      Print(table(items(**page)));
    }
    printed = true;
  } while (arguments.all);
  if (settings.json) {
    if (!token.empty()) Print(Line({{"next_page_token", token}}));
    return kDone;
  }
  if (!printed) std::fputs(token.empty() ? "nothing\n" : "nothing on this page\n", stderr);
  if (!token.empty()) {
    std::fprintf(stderr, "there is more: --all, or --page-token %s\n", token.c_str());
  }
  return kDone;
}

}  // namespace duetime::cli
