// SPDX-License-Identifier: Apache-2.0
//
// Show: calls the server and prints the answer or the error.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cpp/client_options.h"
#include "client/cpp/pager.h"
#include "server/base/standard_output.h"

namespace duetime::cli {

// ---- Text by the rows of a table. Lines end with a line break.

// The value of a row, or `otherwise` if it has none.
std::string ValueText(const Row& row, const Message& message, const std::string& otherwise,
                      const absl::TimeZone& zone);
// One line for each row that has a label and a value.
std::string LinesText(const Rows& rows, const Message& message, const absl::TimeZone& zone);
// One line for each message, below the headers of the rows that are columns.
std::string TableText(const Rows& rows, const std::vector<const Message*>& messages,
                      const absl::TimeZone& zone);
template <typename Proto>
std::string TableText(const Rows& rows, const google::protobuf::RepeatedPtrField<Proto>& messages,
                      const absl::TimeZone& zone) {
  return TableText(rows, {messages.pointer_begin(), messages.pointer_end()}, zone);
}

// ---- Printing.

// The time between two texts about the progress of a command.
inline constexpr auto kBetweenReports = std::chrono::milliseconds(200);

// The only way to standard output. Returns false if this text or an earlier one could not be
// written. The end of the program reports that, so a command only has to stop.
bool Print(absl::string_view text);
void PrintError(const std::string& text);
// The exit code of a program whose command ended with `code`: kNotWritten, after an error on
// stderr, if not all output was written. REQUIRES: called last in main.
ExitCode EndOutput(bool json, ExitCode code);
// Prints the error and returns its exit code. Leaves an error of the output to EndOutput.
ExitCode Fail(const Settings& settings, const absl::Status& error);
// The reason, the text, and when to try again. Names `server` if it gave no answer.
std::string ReasonText(const absl::Status& error, absl::string_view server);
// The same as a line that begins with the name of the program.
std::string ErrorText(const absl::Status& error, absl::string_view server);

// Prints the answer as `text(answer)` or as JSON; or fails.
template <typename Answer, typename Text>
ExitCode Show(const Settings& settings, const absl::StatusOr<Answer>& answer, const Text& text) {
  if (!answer.ok()) return Fail(settings, answer.status());
  Print(settings.json ? JsonLine(*answer) : text(*answer));
  return kDone;
}

// Prints the items of one page of a list; `first` says that no page came before. Returns false if
// the page has no items.
bool ShowPage(const Settings& settings, const Message& page, const Rows& rows, bool first);
// Prints that the list is empty, or that `token` leads to more pages. `rest` is a page with only
// this token.
void ShowEndOfPages(const Settings& settings, const Message& rest, const std::string& token,
                    bool empty);

// Prints one page of a list, or all pages, each as it arrives. People get a table. Programs get a
// line of JSON for each item, and a page with only its next_page_token if there are more.
template <typename Request, typename Fetch>
ExitCode ShowPages(const Settings& settings, const Request& request, bool all, const Rows& rows,
                   const Fetch& fetch) {
  using Page = typename std::invoke_result_t<Fetch, const Request&>::value_type;
  client::PageReader<Request, Page> pages(request, fetch);
  bool empty = true;
  Page rest;
  do {
    const absl::StatusOr<std::optional<Page>> page = pages.Next();
    if (!page.ok()) return Fail(settings, page.status());
    if (!page->has_value()) break;
    if (ShowPage(settings, **page, rows, empty)) empty = false;
    rest.set_next_page_token((*page)->next_page_token());
    if (!base::OutputStatus().ok()) return kNotWritten;
  } while (all);
  ShowEndOfPages(settings, rest, rest.next_page_token(), empty);
  return kDone;
}

// ---- Actions.

// The waits between the tries of a call: short, because a person waits.
inline constexpr client::BackoffOptions kWaits = {.max = absl::Milliseconds(200)};

// Runs `use(client)` with a Client or an AdminClient.
template <typename AnyClient, typename Use>
ExitCode With(const Settings& settings, const Use& use) {
  client::ClientOptions options;
  options.server = settings.server;
  options.backoff = kWaits;
  options.deadline = settings.deadline;
  options.attempts_max = kTriesMax;
  // One call gains nothing from a stream.
  options.separate_calls = true;
  const absl::StatusOr<std::unique_ptr<AnyClient>> connected = AnyClient::Create(options);
  return connected.ok() ? use(connected->get()) : Fail(settings, connected.status());
}

// An action that needs a request and a client.
template <typename AnyClient, typename Request, typename Use>
Action Do(const Use& use) {
  return {.request = &Request::default_instance(),
          .run = [use](const Settings& settings, const Input& input) {
            return With<AnyClient>(settings, [&](AnyClient* client) {
              return use(settings, input, input.As<Request>(), client);
            });
          }};
}

// Makes one call, `call(client, request)`, and prints its answer. `text` makes the text: it is the
// table's rows, or a function of (answer, zone) or of (request, answer, zone).
template <typename AnyClient, typename Request, typename MakeCall, typename Text>
Action Call(MakeCall call, Text text) {
  return Do<AnyClient, Request>([call, text](const Settings& settings, const Input&,
                                             const Request& request, AnyClient* client) {
    return Show(settings, std::invoke(call, client, request), [&](const auto& answer) {
      const absl::TimeZone& zone = settings.zone;
      if constexpr (std::is_invocable_v<Text, decltype(request), decltype(answer),
                                        decltype(zone)>) {
        return text(request, answer, zone);
      } else if constexpr (std::is_invocable_v<Text, decltype(answer), decltype(zone)>) {
        return text(answer, zone);
      } else {
        return LinesText(text, answer, zone);
      }
    });
  });
}
template <typename AnyClient, typename Request, typename Answer, typename Text>
Action Call(absl::StatusOr<Answer> (AnyClient::*call)(const Request&), Text text) {
  return Call<AnyClient, Request, decltype(call)>(call, text);
}

// Makes a call that answers with pages.
template <typename AnyClient, typename Request, typename Page>
Action Pages(absl::StatusOr<Page> (AnyClient::*call)(const Request&), const Rows& rows) {
  return Do<AnyClient, Request>([call, rows](const Settings& settings, const Input& input,
                                             const Request& request, AnyClient* client) {
    return ShowPages(settings, request, input.Has("--all"), rows,
                     [&](const Request& page) { return (client->*call)(page); });
  });
}
// The options of a call that answers with pages.
Rows PageRows();

// Puts the paths of `given`, as seen from the resource, into `mask`. INVALID_ARGUMENT if there are
// none.
absl::Status FillMask(const google::protobuf::FieldMask& given, const std::string& resource,
                      google::protobuf::FieldMask* mask);

// Makes a call that updates the resource in the field `resource` of the request.
template <typename AnyClient, typename Request, typename Answer>
Action Update(absl::StatusOr<Answer> (AnyClient::*call)(const Request&),
              const std::string& resource, const Rows& rows) {
  return Call(call, rows).After([resource](Input* input) {
    return FillMask(input->given, resource, input->Mutable<Request>()->mutable_update_mask());
  });
}

// Makes a call that updates the resource to pause or resume it.
template <typename AnyClient, typename Request, typename Answer>
Action SetPaused(absl::StatusOr<Answer> (AnyClient::*call)(const Request&),
                 const std::string& resource, const Rows& rows, bool paused) {
  return Call(call, rows).After([resource, paused](Input* input) {
    const std::string path = resource + ".settings.paused";
    Message* parent = MutableParentOf(input->request.get(), path);
    parent->GetReflection()->SetBool(parent, FieldOf(input->request->GetDescriptor(), path),
                                     paused);
    input->Mutable<Request>()->mutable_update_mask()->add_paths("settings.paused");
  });
}

}  // namespace duetime::cli
