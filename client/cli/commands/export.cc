// SPDX-License-Identifier: Apache-2.0
//
// The command export.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {
namespace {

using client::Client;
using google::protobuf::util::TimeUtil;
using Clock = std::chrono::steady_clock;

constexpr int32_t kPageSize = 1'000;
// Passes for messages that changed while the pass before read. After the last one the command says
// that messages still change.
constexpr int kPassesMax = 5;

// Where an export stands. It is kept in a file beside the output, so that a later run goes on.
struct ExportPlace {
  int pass = 0;
  // The server's times at which the export, the pass before, and this pass began: RFC 3339.
  std::string started;
  std::string since;
  std::string pass_started;
  std::string page_token;
  int64_t bytes = 0;
  int64_t messages = 0;
  int64_t unreadable = 0;
  // The messages that this pass wrote.
  int64_t pass_messages = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExportPlace, pass, started, since, pass_started, page_token,
                                   bytes, messages, unreadable, pass_messages)

// The request that makes the same message again.
v1::ScheduleRequest RequestOf(const v1::Message& message, bool is_newer) {
  v1::ScheduleRequest request;
  request.set_topic(message.topic());
  request.set_payload(message.payload());
  *request.mutable_attributes() = message.attributes();
  *request.mutable_labels() = message.labels();
  request.set_ordering_key(message.ordering_key());
  request.set_key(message.key());
  // A later line replaces a message with a key, so it is another request. Without a key it would
  // make a second message; the same request_id lets the server refuse it.
  request.set_request_id(absl::StrCat("export-", message.id(), message.key().empty() ? "" : "-",
                                      message.key().empty() ? "" : message.etag()));
  // A civil time with a spread would lead to another time.
  if (message.has_civil_time() && !message.has_spread()) {
    *request.mutable_civil_time() = message.civil_time();
  } else {
    *request.mutable_deliver_time() = message.deliver_time();
  }
  if (message.has_ttl()) *request.mutable_ttl() = message.ttl();
  if (message.late_policy() != v1::Message::LATE_POLICY_DELIVER) {
    request.set_late_policy(message.late_policy());
  }
  // An earlier line of the file may have the message as it was before.
  if (is_newer && !message.key().empty()) {
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
  }
  return request;
}

class Exporter {
 public:
  Exporter(const Settings& settings, const Input& input, const v1::ListRequest& request,
           Client* client)
      : settings_(settings),
        client_(client),
        request_(request),
        file_name_(input.Text("--output")),
        text_(input.Has("--text")),
        resume_(input.Has("--resume")),
        shows_progress_(!settings.json && isatty(STDERR_FILENO) != 0) {}

  ExitCode Run() {
    absl::Status status = Open();
    while (status.ok()) {
      status = Pass();
      if (!status.ok() || IsLast()) break;
      status = BeginPass();
    }
    return Finish(status);
  }

 private:
  std::string ProgressName() const { return file_name_ + ".progress"; }

  // Opens the output, and finds out where to begin.
  absl::Status Open() {
    if (file_name_.empty()) return BeginPass();
    std::error_code error;
    const bool goes_on = std::filesystem::exists(ProgressName(), error);
    if (goes_on != resume_) {
      return absl::InvalidArgumentError(
          goes_on ? ProgressName() + " is of an export that did not end: --resume continues it"
                  : "there is nothing to continue: no file " + ProgressName());
    }
    if (resume_) {
      std::ifstream in(ProgressName());
      const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
      if (json.is_discarded()) return absl::InvalidArgumentError("cannot read " + ProgressName());
      at_ = json.get<ExportPlace>();
      // What came after the last note is written again.
      if (static_cast<int64_t>(std::filesystem::file_size(file_name_, error)) < at_.bytes ||
          error) {
        return absl::DataLossError(file_name_ + " is shorter than " + ProgressName() + " says");
      }
      std::filesystem::resize_file(file_name_, static_cast<uintmax_t>(at_.bytes), error);
    } else if (std::filesystem::exists(file_name_, error)) {
      return absl::AlreadyExistsError("the file " + file_name_ + " exists");
    }
    file_.open(file_name_, std::ios::binary | std::ios::app);
    if (!file_.is_open()) return absl::InvalidArgumentError("cannot write the file " + file_name_);
    return resume_ ? absl::OkStatus() : BeginPass();
  }

  bool IsLast() const { return (at_.pass > 1 && at_.pass_messages == 0) || at_.pass == kPassesMax; }

  absl::Status BeginPass() {
    const auto info = client_->ServerInfo();
    if (!info.ok()) return info.status();
    ++at_.pass;
    at_.pass_messages = 0;
    at_.since = std::exchange(at_.pass_started, TimeUtil::ToString(info->server_time()));
    if (at_.pass == 1) at_.started = at_.pass_started;
    return Note(/*now=*/true);
  }

  absl::Status Pass() {
    v1::ListRequest request = request_;
    request.set_page_size(kPageSize);
    request.set_view(at_.pass == 1 ? v1::MESSAGE_VIEW_FULL : v1::MESSAGE_VIEW_BASIC);
    request.set_page_token(at_.page_token);
    absl::StatusOr<v1::ListResponse> page = client_->List(request);
    while (page.ok()) {
      // The next page is read while this one is written.
      std::future<absl::StatusOr<v1::ListResponse>> next;
      request.set_page_token(page->next_page_token());
      if (!request.page_token().empty()) {
        next = std::async(std::launch::async, [&] { return client_->List(request); });
      }
      const absl::Status written = WritePage(*page);
      if (next.valid()) page = next.get();
      if (!written.ok()) return written;
      at_.page_token = request.page_token();
      if (absl::Status noted = Note(/*now=*/false); !noted.ok()) return noted;
      ShowProgress();
      if (at_.page_token.empty()) return absl::OkStatus();
    }
    return page.status();
  }

  // An export has the messages that were there when it began. The first pass takes those that have
  // not changed since. Each later pass takes those that changed after the pass before began:
  // such a message may have moved to where that pass had been.
  absl::StatusOr<bool> Belongs(const v1::Message& message) const {
    google::protobuf::Timestamp started;
    google::protobuf::Timestamp since;
    if (!TimeUtil::FromString(at_.started, &started) ||
        (at_.pass > 1 && !TimeUtil::FromString(at_.since, &since))) {
      return absl::InvalidArgumentError("cannot read " + ProgressName());
    }
    if (message.accept_time() >= started) return false;
    return at_.pass == 1 ? message.update_time() < started : message.update_time() >= since;
  }

  absl::Status WritePage(const v1::ListResponse& page) {
    std::string lines;
    for (const v1::Message& message : page.messages()) {
      const absl::StatusOr<bool> belongs = Belongs(message);
      if (!belongs.ok()) return belongs.status();
      if (!*belongs) continue;
      if (at_.pass == 1) {
        if (absl::Status added = Add(message, &lines); !added.ok()) return added;
        continue;
      }
      v1::GetRequest get;
      get.set_message_id(message.id());
      get.set_view(v1::MESSAGE_VIEW_FULL);
      const auto whole = client_->Get(get);
      if (absl::IsNotFound(whole.status())) continue;
      if (!whole.ok()) return whole.status();
      if (whole->message().has_end_time()) continue;
      if (absl::Status added = Add(whole->message(), &lines); !added.ok()) return added;
    }
    if (file_name_.empty()) {
      if (!Print(lines)) return base::OutputStatus();
    } else if (!(file_ << lines << std::flush)) {
      return absl::ResourceExhaustedError("cannot write the file " + file_name_);
    }
    const int64_t messages = std::count(lines.begin(), lines.end(), '\n');
    at_.bytes += std::ssize(lines);
    at_.messages += messages;
    at_.pass_messages += messages;
    return absl::OkStatus();
  }

  absl::Status Add(const v1::Message& message, std::string* lines) {
    if (std::ssize(message.payload()) != message.payload_bytes()) {
      ++at_.unreadable;
      PrintError("duetime: message " + message.id() + " cannot be read; see: duetime damage\n");
      return absl::OkStatus();
    }
    v1::ScheduleRequest request = RequestOf(message, at_.pass > 1);
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    std::string line;
    if (text_) request.clear_payload();
    const auto status = google::protobuf::util::MessageToJsonString(request, &line, options);
    if (!status.ok()) return absl::InternalError(std::string(status.message()));
    if (text_) {
      nlohmann::json object = nlohmann::json::parse(line);
      object["payload"] = message.payload();
      try {
        line = object.dump();
      } catch (const nlohmann::json::type_error&) {
        return absl::InvalidArgumentError("the payload of message " + message.id() +
                                          " is no UTF-8 text: leave out --text");
      }
    }
    absl::StrAppend(lines, line, "\n");
    return absl::OkStatus();
  }

  // Notes in a file where the export stands, from time to time.
  absl::Status Note(bool now) {
    if (file_name_.empty() || (!now && Clock::now() < noted_ + kBetweenReports)) {
      return absl::OkStatus();
    }
    noted_ = Clock::now();
    const std::string next = ProgressName() + ".new";
    std::ofstream out(next, std::ios::binary);
    out << nlohmann::json(at_) << std::flush;
    std::error_code error;
    // Half a note would end the export for good.
    if (out.good()) std::filesystem::rename(next, ProgressName(), error);
    return out.good() && !error
               ? absl::OkStatus()
               : absl::ResourceExhaustedError("cannot write the file " + ProgressName());
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void ShowProgress() {
    if (!shows_progress_ || Clock::now() < shown_ + kBetweenReports) return;
    shown_ = Clock::now();
    std::cerr << absl::StrFormat("\r\033[K%d messages, %.0f/s", at_.messages,
                                 static_cast<double>(at_.messages) / Seconds())
              << std::flush;
    cleared_ = false;
  }

  ExitCode Finish(const absl::Status& status) {
    if (!std::exchange(cleared_, true)) std::cerr << "\r\033[K";
    if (!status.ok()) {
      if (!file_name_.empty() && at_.pass > 0) {
        static_cast<void>(Note(/*now=*/true));
        PrintError(absl::StrCat("duetime: stopped after ", at_.messages,
                                " messages; --resume continues\n"));
      }
      return Fail(settings_, status);
    }
    if (!file_name_.empty()) {
      std::error_code error;
      std::filesystem::remove(ProgressName(), error);
    }
    const std::string totals =
        settings_.json
            ? absl::StrFormat("{\"messages\":%d,\"unreadable\":%d}\n", at_.messages, at_.unreadable)
            : absl::StrFormat("exported %d messages in %.1f s\n", at_.messages, Seconds());
    // The lines of the messages have the standard output for themselves.
    if (file_name_.empty()) {
      PrintError(totals);
    } else {
      Print(totals);
    }
    if (at_.pass == kPassesMax && at_.pass_messages > 0) {
      PrintError("duetime: messages still change; some that were moved may be missing\n");
      return kNotAsWished;
    }
    return at_.unreadable > 0 ? kNotAsWished : kDone;
  }

  const Settings& settings_;
  Client* const client_;
  const v1::ListRequest& request_;
  // Empty: standard output.
  const std::string file_name_;
  const bool text_;
  const bool resume_;
  const bool shows_progress_;
  std::ofstream file_;
  ExportPlace at_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = Clock::now();
  Clock::time_point noted_;
  bool cleared_ = true;
};

}  // namespace

Command ExportCommand() {
  return {
      "export",
      "Write the pending messages of a topic to a file",
      "Each line is a message as duetime import reads it, with the payload and everything "
      "that was asked of the message.\nIt does not have the attempts, the recurrence, and the "
      "origin of a dead letter.\n\nAn export has each message that was there when it began and "
      "is there at the end. A message that\nchanges meanwhile may be there twice; the later "
      "line replaces the earlier one if the message has\na key, and else the import refuses it. "
      "Exit code 3: some messages cannot be read, or did not\ncome to rest.\n\nThe file "
      "FILE.progress says where the export stands: --resume continues it, whatever ended it.",
      {"orders > orders.ndjson", "orders --output orders.ndjson",
       "orders --output orders.ndjson --resume",
       "orders --text --key-prefix user/ | gzip > users.gz"},
      Join({{Row("topic", "TOPIC", "The topic", {Required(), Key()})},
            FilterRows(),
            {Row("", "--text", "Write payloads as text (default: base64, as in proto3 JSON)",
                 {Type(Row::Type::kFlag)}),
             Row("", "--output", "The file; default: the standard output"),
             Row("", "--resume", "Continue the export into this file",
                 {Type(Row::Type::kFlag), Needs({"--output"})})}}),
      Do<Client, v1::ListRequest>(
          [](const Settings& settings, const Input& input, const v1::ListRequest& request,
             Client* client) { return Exporter(settings, input, request, client).Run(); })};
}

}  // namespace duetime::cli
