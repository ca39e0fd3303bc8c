// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands have. Each struct here holds their text as given: AddTo declares
// them on a command, and a Read function makes sense of them once the command line is parsed, with
// INVALID_ARGUMENT and a text for people if there is none. Internal to the reading of arguments.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/cli/arguments.h"

namespace duetime::cli {

using Pairs = std::map<std::string, std::string>;

// A command that does something, and how to understand it if it was given.
struct Leaf {
  CLI::App* app;
  std::function<absl::StatusOr<Command>()> read;
};
using Leaves = std::vector<Leaf>;

// The commands of one subject each, added to `app` and to `leaves`.
void AddScheduleCommands(CLI::App* app, Leaves* leaves);
void AddMessageCommands(CLI::App* app, Leaves* leaves);
void AddReceiveCommands(CLI::App* app, Leaves* leaves);
void AddBulkCommands(CLI::App* app, Leaves* leaves);
void AddRecurrenceCommands(CLI::App* app, Leaves* leaves);
void AddTopicCommands(CLI::App* app, Leaves* leaves);
void AddSubscriptionCommands(CLI::App* app, Leaves* leaves);
void AddDeadLetterCommands(CLI::App* app, Leaves* leaves);
void AddForecastCommand(CLI::App* app, Leaves* leaves);

// Declares an option whose value is one of a few words.
template <typename Enum>
CLI::Option* AddChoice(CLI::App* app, const std::string& name, Enum* value,
                       const std::vector<std::pair<std::string, Enum>>& choices,
                       const std::string& help) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  return app
      ->add_option_function<std::string>(
          name,
          [value, choices](const std::string& word) {
            for (const auto& choice : choices) {
              if (choice.first == word) *value = choice.second;
            }
          },
          help)
      ->check(CLI::IsMember(words));
}

// --late: what to do when the time to live has run out.
void AddLatePolicy(CLI::App* command, v1::Message::LatePolicy* policy);

// Refuses an empty value.
CLI::Validator NotEmpty();

// Declares an option that may be repeated and takes one KEY=VALUE each time.
CLI::Option* AddPairs(CLI::App* app, const std::string& name, std::vector<std::string>* texts,
                      const std::string& help);
// `name` is the option, for the complaint.
absl::StatusOr<Pairs> ReadPairs(const std::string& name, const std::vector<std::string>& texts);

// Reads `text` into `duration` unless it is empty.
absl::Status ReadOptional(const std::string& text, std::optional<absl::Duration>* duration);
// The same into a field of a proto: `field` gives the field to fill.
absl::Status ReadOptional(const std::string& text,
                          const std::function<google::protobuf::Duration*()>& field);

// The same for a setting with a word for its default: unless `text` is empty, names `path` in
// `paths`, and fills the field unless it is the word.
absl::Status ReadSetting(const std::string& text, const std::string& default_word,
                         const std::string& path, google::protobuf::FieldMask* paths,
                         const std::function<google::protobuf::Duration*()>& field);

// A moment as ParseTimeText reads it in this machine's zone, or "now", or from now: "+2h", "-1h".
absl::StatusOr<absl::Time> ReadMoment(const std::string& text);
// The same into a field of a proto, unless it is empty.
absl::Status ReadOptional(const std::string& text,
                          const std::function<google::protobuf::Timestamp*()>& field);

// The first of these that is not OK.
absl::Status FirstError(std::initializer_list<absl::Status> statuses);

// When: --in, --at, --local, --tz.
struct WhenOptions {
  std::string in{};
  std::string at{};
  std::string local{};
  std::string zone{};

  void AddTo(CLI::App* command);
  absl::StatusOr<client::When> Read() const;
};

// What: a payload as an argument, from a file or from standard input.
struct PayloadOptions {
  std::optional<std::string> argument{};
  std::string file{};

  void AddTo(CLI::App* command);
  bool Given() const { return argument.has_value() || !file.empty(); }
  absl::StatusOr<std::string> Read() const;
};

// Which messages: ids as arguments, or --topic with --key.
struct TargetOptions {
  std::vector<std::string> ids{};
  std::string topic{};
  std::vector<std::string> keys{};

  // `several`: any number, else one.
  void AddTo(CLI::App* command, bool several);
  // At least one.
  absl::StatusOr<std::vector<client::Target>> Read() const;
};

// Which messages of a topic: --key-prefix, --label, --from, --to.
struct FilterOptions {
  std::string key_prefix{};
  std::vector<std::string> labels{};
  std::string from{};
  std::string to{};

  void AddTo(CLI::App* command);
  bool Given() const {
    return !key_prefix.empty() || !labels.empty() || !from.empty() || !to.empty();
  }
  // `Filter` is a proto with the fields of BulkFilter.
  template <typename Filter>
  absl::Status Read(Filter* filter) const {
    filter->set_key_prefix(key_prefix);
    const absl::StatusOr<Pairs> pairs = ReadPairs("--label", labels);
    if (!pairs.ok()) return pairs.status();
    filter->mutable_labels()->insert(pairs->begin(), pairs->end());
    return FirstError({ReadOptional(from, [&] { return filter->mutable_start_time(); }),
                       ReadOptional(to, [&] { return filter->mutable_end_time(); })});
  }
};

// Which messages of a topic, and how to work on all of them: a filter or --all, --dry-run, --wait,
// --name. The topic is not among them.
struct BulkOptions {
  FilterOptions filter{};
  std::string by{};
  std::string name{};
  bool all = false;
  bool dry_run = false;
  bool wait = false;

  void AddTo(CLI::App* command, const std::string& all_help);
  absl::StatusOr<BulkArguments> Read(v1::BulkAction action) const;
};

// Which pages of a list: --page-size, --page-token, --all.
struct PageOptions {
  int size = 0;
  std::string token{};
  bool all = false;

  void AddTo(CLI::App* command);
  template <typename Request>
  ListArguments<Request> Read(Request request) const {
    request.set_page_size(size);
    request.set_page_token(token);
    return {.request = std::move(request), .all = all};
  }
};

}  // namespace duetime::cli
