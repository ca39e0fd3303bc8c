// SPDX-License-Identifier: Apache-2.0
//
// The command import.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/json_util.h"

#include "client/cli/commands.h"
#include "client/cli/show.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {
namespace {

using client::Client;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenReports = std::chrono::milliseconds(200);

// The same in each run, so that a repeated import makes no second message. FNV-1a: it need not
// resist an attacker, who could name the request himself.
uint64_t HashOf(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

// Messages of consecutive lines, and the numbers of these lines.
struct Batch {
  v1::ScheduleBatchRequest request;
  std::vector<int64_t> lines;
  int64_t bytes = 0;
  // Lines that are no message.
  std::map<int64_t, absl::Status> refused{};
};
using Results = absl::StatusOr<std::vector<absl::StatusOr<v1::ScheduleResponse>>>;

class Importer {
 public:
  Importer(const Settings& settings, const Input& input, Client* client)
      : settings_(settings),
        client_(client),
        name_(input.Text("FILE")),
        topic_(input.Text("--topic")),
        text_(input.Has("--text")),
        dry_run_(input.Has("--dry-run")),
        first_(std::max<int64_t>(input.Number("--from-line"), 1)),
        shows_progress_(!settings.json && isatty(STDERR_FILENO) != 0) {}

  ExitCode Run() {
    std::ifstream file;
    if (name_ != "-") {
      file.open(name_, std::ios::binary);
      file.peek();  // fails for a directory
      if (!file.is_open() || file.bad()) {
        return Fail(settings_, absl::InvalidArgumentError("cannot read the file " + name_));
      }
    }
    std::istream& in = name_ == "-" ? std::cin : file;
    // One batch is read while the server works on the one before.
    Batch batch = Read(in);
    while (!batch.lines.empty() || !batch.refused.empty()) {
      auto answer = std::async(std::launch::async, [this, request = std::move(batch.request)] {
        return client_->ScheduleBatch(request);
      });
      Batch next = Read(in);
      Count(&batch, answer.get());
      ShowProgress();
      if (!ended_.ok()) break;
      batch = std::move(next);
    }
    return Finish(in);
  }

 private:
  // Reads lines up to a full batch.
  Batch Read(std::istream& in) {
    Batch batch;
    std::string line;
    while (std::ssize(batch.lines) + std::ssize(batch.refused) < kBatchMessages &&
           batch.bytes < kBatchBytes && std::getline(in, line)) {
      ++line_;
      if (line_ < first_ || line.find_first_not_of(" \t\r") == std::string::npos) continue;
      v1::ScheduleRequest* const request = batch.request.add_messages();
      const absl::Status status = Parse(line, request);
      if (!status.ok()) {
        batch.request.mutable_messages()->RemoveLast();
        batch.refused.emplace(line_, status);
        continue;
      }
      batch.lines.push_back(line_);
      batch.bytes += static_cast<int64_t>(request->ByteSizeLong());
    }
    return batch;
  }

  absl::Status Parse(const std::string& line, v1::ScheduleRequest* request) const {
    std::string json = line;
    if (text_) {
      nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!object.is_object()) return absl::InvalidArgumentError("this is no JSON object");
      if (const auto payload = object.find("payload"); payload != object.end()) {
        if (!payload->is_string()) return absl::InvalidArgumentError("the payload is no text");
        *payload = absl::Base64Escape(payload->get<std::string>());
      }
      json = object.dump();
    }
    const auto status = google::protobuf::util::JsonStringToMessage(json, request);
    if (!status.ok()) return absl::InvalidArgumentError(std::string(status.message()));
    if (request->topic().empty()) request->set_topic(topic_);
    if (dry_run_) request->set_validate_only(true);
    if (request->request_id().empty()) {
      request->set_request_id(absl::StrFormat("import-%d-%016x", line_, HashOf(line)));
    }
    return absl::OkStatus();
  }

  void Count(Batch* batch, const Results& results) {
    if (!results.ok()) {
      ended_ = results.status();
      next_line_ = batch->lines.front();
      return;
    }
    for (size_t i = 0; i < results->size(); ++i) {
      const auto& result = (*results)[i];
      if (!result.ok()) {
        batch->refused.emplace(batch->lines[i], result.status());
      } else if (result->outcome() == v1::SCHEDULE_OUTCOME_UNCHANGED) {
        ++unchanged_;
      } else {
        ++scheduled_;
      }
    }
    PrintRefused(batch->refused);
  }

  void PrintRefused(const std::map<int64_t, absl::Status>& refused) {
    if (!refused.empty()) ClearProgress();
    for (const auto& [line, status] : refused) {
      ++refused_;
      const std::string place = absl::StrCat(name_, ":", line, ": ");
      if (settings_.json) {
        absl::Status placed(status.code(), absl::StrCat(place, status.message()));
        status.ForEachPayload([&placed](absl::string_view type, const absl::Cord& detail) {
          placed.SetPayload(type, detail);
        });
        PrintError(ErrorJson(placed));
        continue;
      }
      const std::string text = ErrorText(status, settings_.server.target);
      PrintError(place + std::string(absl::StripPrefix(text, "duetime: ")));
    }
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void ShowProgress() {
    if (!shows_progress_ || Clock::now() < shown_ + kBetweenReports) return;
    shown_ = Clock::now();
    const int64_t done = scheduled_ + unchanged_ + refused_;
    std::cerr << absl::StrFormat("\r\033[K%d lines, %.0f/s", done,
                                 static_cast<double>(done) / Seconds())
              << std::flush;
    cleared_ = false;
  }
  void ClearProgress() {
    if (!std::exchange(cleared_, true)) std::cerr << "\r\033[K";
  }

  ExitCode Finish(const std::istream& in) {
    ClearProgress();
    if (settings_.json) {
      Print(absl::StrFormat("{\"scheduled\":%d,\"unchanged\":%d,\"refused\":%d}\n", scheduled_,
                            unchanged_, refused_));
    } else {
      const std::string unchanged =
          unchanged_ > 0 ? absl::StrCat(", ", unchanged_, " were there already") : "";
      Print(absl::StrFormat("%s %d messages%s, %d lines refused, in %.1f s\n",
                            dry_run_ ? "dry run, nothing is changed:" : "scheduled", scheduled_,
                            unchanged, refused_, Seconds()));
    }
    if (!ended_.ok()) {
      PrintError(absl::StrCat(name_, ": stopped; --from-line ", next_line_, " continues\n"));
      return Fail(settings_, ended_);
    }
    if (in.bad()) {
      return Fail(settings_, absl::InvalidArgumentError("cannot read on: " + name_));
    }
    return refused_ > 0 ? kNotAsWished : kDone;
  }

  const Settings& settings_;
  Client* const client_;
  const std::string name_;
  const std::string topic_;
  const bool text_;
  const bool dry_run_;
  const int64_t first_;
  const bool shows_progress_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = Clock::now();
  bool cleared_ = true;
  // The number of the last line that was read, from 1.
  int64_t line_ = 0;
  int64_t scheduled_ = 0;
  int64_t unchanged_ = 0;
  int64_t refused_ = 0;
  // Why the import ended early, and the first line without an answer.
  absl::Status ended_;
  int64_t next_line_ = 0;
};

}  // namespace

Command ImportCommand() {
  return {
      "import",
      "Schedule the messages of a file",
      "Each line is a message in proto3 JSON, with the fields of ScheduleRequest; empty lines are "
      "left out.\nEach message gets a request id from its line and the line's number, unless it "
      "has one: to repeat\nan import within an hour makes no second message. Prints a line for "
      "each refused message and\ngoes on. Exit code 3: lines were refused.",
      {"orders.ndjson", "orders.ndjson --topic orders --text --dry-run",
       "orders.ndjson --from-line 20001"},
      {Row("", "FILE", "The file; - reads standard input, as in: zcat f.gz | duetime import -",
           {Required()}),
       Row("", "--topic", "The topic of messages that name none"),
       Row("", "--text", "Payloads are text (default: base64, as in proto3 JSON)",
           {Type(Row::Type::kFlag)}),
       Row("", "--from-line", "Begin with this line", {Type(Row::Type::kNumber), Range(1)}),
       Row("", "--dry-run", "Check every message and change nothing", {Type(Row::Type::kFlag)})},
      {.run = [](const Settings& settings, const Input& input) {
        return With<Client>(
            settings, [&](Client* client) { return Importer(settings, input, client).Run(); });
      }}};
}

}  // namespace duetime::cli
