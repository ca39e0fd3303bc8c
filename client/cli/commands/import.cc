// SPDX-License-Identifier: Apache-2.0
//
// The command import.
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "client/cli/commands/commands.h"
#include "client/cli/commands/import_source.h"
#include "client/cli/show.h"
#include "client/cli/time_text.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/error.h"
#include "client/cpp/random_id.h"

namespace duetime::cli {
namespace {

using client::Client;
using Clock = std::chrono::steady_clock;

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

// Whether the server refused a message for a reason that is not in the message, and that passes.
bool MayPassLater(const absl::Status& status) {
  const std::string reason = client::GetErrorInfo(status).reason;
  return absl::IsUnavailable(status) || reason == "OVERLOADED" || reason == "QUOTA_EXCEEDED";
}

class Importer {
 public:
  Importer(const Settings& settings, const Input& input, Client* client)
      : settings_(settings),
        client_(client),
        name_(input.Text("FILE")),
        topic_(input.Text("--topic")),
        dry_run_(input.Has("--dry-run")),
        ids_(input.Has("--again") ? absl::StrCat("import-", client::RandomId().Next()) : "import"),
        again_(input.Has("--again")),
        first_(std::max<int64_t>(input.Number("--from-line"), 1)),
        shows_progress_(!settings.json && isatty(STDERR_FILENO) != 0) {}

  ExitCode Run(ImportSource* source) {
    // One batch is read while the server works on the one before.
    Batch batch = Read(source);
    while (!batch.lines.empty() || !batch.refused.empty()) {
      auto answer = std::async(std::launch::async, [this, request = std::move(batch.request)] {
        return client_->ScheduleBatch(request);
      });
      Batch next = Read(source);
      Count(&batch, answer.get());
      ShowProgress(source->Part());
      if (!ended_.ok()) break;
      batch = std::move(next);
    }
    return Finish(source->status());
  }

 private:
  // Reads up to a full batch.
  Batch Read(ImportSource* source) {
    Batch batch;
    // The lines of the texts, and the request ids of their messages.
    std::vector<std::string> texts;
    std::vector<std::pair<int64_t, std::string>> places;
    while (std::ssize(batch.lines) + std::ssize(batch.refused) + std::ssize(texts) <
               kBatchMessages &&
           batch.bytes < kBatchBytes && source->Next()) {
      const int64_t line = source->line();
      if (line < first_) continue;
      batch.bytes += std::ssize(source->text());
      std::string request_id = absl::StrFormat("%s-%d-%016x", ids_, line, HashOf(source->text()));
      std::string json;
      v1::ScheduleRequest request;
      const absl::Status status = source->Read(&json, &request);
      if (status.ok() && !json.empty()) {
        texts.push_back(std::move(json));
        places.emplace_back(line, std::move(request_id));
      } else {
        Take(line, std::move(request_id), status, std::move(request), &batch);
      }
    }
    v1::ScheduleBatchRequest parsed;
    const std::vector<absl::Status> statuses = ParseJsonLines(texts, &parsed);
    for (size_t i = 0, next = 0; i < texts.size(); ++i) {
      v1::ScheduleRequest request;
      if (statuses[i].ok()) request.Swap(parsed.mutable_messages(static_cast<int>(next++)));
      Take(places[i].first, std::move(places[i].second), statuses[i], std::move(request), &batch);
    }
    return batch;
  }

  // Adds a message to the batch, or a line that is none.
  void Take(int64_t line, std::string request_id, const absl::Status& status,
            v1::ScheduleRequest request, Batch* batch) const {
    if (!status.ok()) {
      batch->refused.emplace(line, status);
      return;
    }
    if (request.topic().empty()) request.set_topic(topic_);
    if (dry_run_) request.set_validate_only(true);
    if (request.request_id().empty()) request.set_request_id(std::move(request_id));
    *batch->request.add_messages() = std::move(request);
    batch->lines.push_back(line);
  }

  void Count(Batch* batch, const Results& results) {
    if (!results.ok()) {
      ended_ = results.status();
      next_line_ = batch->lines.front();
      return;
    }
    for (size_t i = 0; i < results->size(); ++i) {
      const auto& result = (*results)[i];
      if (MayPassLater(result.status())) {
        // The next run repeats the later lines of the batch, too: their request ids are the same.
        if (ended_.ok()) next_line_ = batch->lines[i];
        ended_.Update(result.status());
      } else if (!result.ok()) {
        batch->refused.emplace(batch->lines[i], result.status());
      } else if (result->request_repeated() ||
                 result->outcome() == v1::SCHEDULE_OUTCOME_UNCHANGED) {
        ++unchanged_;
        if (result->message_ended()) ++ended_states_[result->message().state()];
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

  // `part`: of the file, as InputFile::Part.
  void ShowProgress(std::optional<double> part) {
    if (!shows_progress_ || Clock::now() < shown_ + kBetweenReports) return;
    shown_ = Clock::now();
    const int64_t done = scheduled_ + unchanged_ + refused_;
    std::string text =
        absl::StrFormat("\r\033[K%d messages, %.0f/s", done, static_cast<double>(done) / Seconds());
    if (part.value_or(0) > 0) {
      const absl::Duration left = absl::Seconds(Seconds() * (1 - *part) / *part);
      absl::StrAppendFormat(&text, ", %.0f%%, %s left", *part * 100,
                            FormatAgeText(absl::Trunc(left, absl::Seconds(1))));
    }
    std::cerr << text << std::flush;
    cleared_ = false;
  }
  void ClearProgress() {
    if (!std::exchange(cleared_, true)) std::cerr << "\r\033[K";
  }

  // How many messages have ended, by state. `format` gets the state and the number.
  std::string EndedText(absl::string_view separator,
                        const std::function<std::string(v1::Message::State, int64_t)>& format) {
    std::vector<std::string> parts;
    for (const auto& [state, count] : ended_states_) parts.push_back(format(state, count));
    return absl::StrJoin(parts, separator);
  }

  ExitCode Finish(const absl::Status& read) {
    ClearProgress();
    if (settings_.json) {
      const std::string ended = EndedText(",", [](v1::Message::State state, int64_t count) {
        return absl::StrCat("\"", v1::Message::State_Name(state), "\":", count);
      });
      Print(absl::StrFormat("{\"scheduled\":%d,\"unchanged\":%d,\"ended\":{%s},\"refused\":%d}\n",
                            scheduled_, unchanged_, ended, refused_));
    } else {
      std::string unchanged =
          unchanged_ > 0 ? absl::StrCat(", ", unchanged_, " were there already") : "";
      if (!ended_states_.empty()) {
        const std::string ended = EndedText(", ", [](v1::Message::State state, int64_t count) {
          return absl::StrCat(count, " ", EndedWord(state));
        });
        absl::StrAppend(&unchanged, " (of these have ended: ", ended, ")");
      }
      Print(absl::StrFormat("%s %d messages%s, %d lines refused, in %.1f s\n",
                            dry_run_ ? "dry run, nothing is changed:" : "scheduled", scheduled_,
                            unchanged, refused_, Seconds()));
      if (!ended_states_.empty() && !again_) {
        Print(
            "nothing is pending for a message that has ended; --again schedules every line once "
            "more, also if "
            "its message is pending\n");
      }
    }
    if (!ended_.ok()) {
      PrintError(absl::StrCat(name_, ": stopped; --from-line ", next_line_, " continues\n"));
      return Fail(settings_, ended_);
    }
    if (!read.ok()) return Fail(settings_, read);
    return refused_ > 0 ? kNotAsWished : kDone;
  }

  const Settings& settings_;
  Client* const client_;
  const std::string name_;
  const std::string topic_;
  const bool dry_run_;
  // How the request ids of this run begin.
  const std::string ids_;
  const bool again_;
  const int64_t first_;
  const bool shows_progress_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = Clock::now();
  bool cleared_ = true;
  int64_t scheduled_ = 0;
  int64_t unchanged_ = 0;
  // How many of the unchanged messages have ended, by state.
  std::map<v1::Message::State, int64_t> ended_states_{};
  int64_t refused_ = 0;
  // Why the import ended early, and the first line without an answer.
  absl::Status ended_;
  int64_t next_line_ = 0;
};

absl::StatusOr<std::unique_ptr<ImportSource>> OpenSource(const Settings& settings,
                                                         const Input& input) {
  const std::string name = input.Text("FILE");
  auto file = InputFile::Open(name);
  if (!file.ok()) return file.status();
  const absl::string_view plain = absl::StripSuffix(name, ".gz");
  if (input.Has("--csv") || input.Has("--column") || absl::EndsWith(plain, ".csv")) {
    return ReadCsv(*std::move(file), input.List("--column"), settings.local(),
                   input.Has("--allow-past"));
  }
  return ReadJsonLines(*std::move(file), input.Has("--text"));
}

}  // namespace

Command ImportCommand() {
  return {
      "import",
      "Schedule the messages of a file",
      "Each line is a message in proto3 JSON, with the fields of ScheduleRequest; empty lines are "
      "left out.\nA file NAME.csv, or any with --csv or --column, is CSV: the first row has the "
      "names "
      "of the columns. They are\nthe names of the fields (also labels.NAME and attributes.NAME), "
      "or --column maps them. An empty cell\nsets nothing, a payload is text, and a time is a "
      "number of seconds since 1970, at most a day ago, or a time as on the command line.\nFiles "
      "may be compressed by "
      "gzip.\n\nEach message gets a request id from its line and the line's number, unless it "
      "has one: to repeat\nan import within an hour makes no second message, not even for a "
      "message that has ended "
      "meanwhile, for\nexample because it was cancelled; the command says how many have. With "
      "--again, every run "
      "makes new\nmessages. Prints a line for each refused message and goes on. Exit code 3: lines "
      "were refused.",
      {"orders.ndjson", "orders.ndjson.gz --topic orders --text --dry-run",
       "orders.ndjson --from-line 20001",
       "users.csv --topic digest --column key=id --column deliver_time=due --column payload=body"},
      {Row("", "FILE", "The file; - reads standard input", {Required()}),
       Row("", "--topic", "The topic of messages that name none"),
       Row("", "--text", "Payloads are text (default: base64, as in proto3 JSON)",
           {Type(Row::Type::kFlag)}),
       Row("", "--csv", "The file is CSV", {Type(Row::Type::kFlag)}),
       Row("", "--column",
           "FIELD=COLUMN: in CSV, the column of a field; other columns are left out",
           {Type(Row::Type::kList)}),
       Row("", "--again",
           "Use new request ids, to schedule the messages of an earlier import once more",
           {Type(Row::Type::kFlag)}),
       AllowPastRow("Take a number for a time more than a day ago, too; in CSV"),
       Row("", "--from-line", "Begin with this line", {Type(Row::Type::kNumber), Range(1)}),
       Row("", "--dry-run", "Check every message and change nothing", {Type(Row::Type::kFlag)})},
      {.run = [](const Settings& settings, const Input& input) {
        const auto source = OpenSource(settings, input);
        if (!source.ok()) return Fail(settings, source.status());
        return With<Client>(settings, [&](Client* client) {
          return Importer(settings, input, client).Run(source->get());
        });
      }}};
}

}  // namespace duetime::cli
