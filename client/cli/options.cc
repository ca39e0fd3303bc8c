// SPDX-License-Identifier: Apache-2.0
#include "client/cli/options.h"

#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"

#include "client/cli/time_text.h"
#include "client/convert.h"

namespace duetime::cli {

void AddLatePolicy(CLI::App* command, v1::Message::LatePolicy* policy) {
  AddChoice<v1::Message::LatePolicy>(command, "--late", policy,
                                     {{"deliver", v1::Message::DELIVER},
                                      {"drop", v1::Message::DROP},
                                      {"dead-letter", v1::Message::DEAD_LETTER}},
                                     "What to do after that: deliver it all the same (default), "
                                     "end it as expired, or make it a dead letter");
}

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("it is empty") : std::string();
      },
      "");
}

CLI::Option* AddPairs(CLI::App* app, const std::string& name, std::vector<std::string>* texts,
                      const std::string& help) {
  return app->add_option(name, *texts, help)->type_name("KEY=VALUE")->allow_extra_args(false);
}

absl::StatusOr<Pairs> ReadPairs(const std::string& name, const std::vector<std::string>& texts) {
  Pairs pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " \"", text, "\" is not of the form KEY=VALUE"));
    }
    if (!pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " \"", text.substr(0, equals), "\" is given twice"));
    }
  }
  return pairs;
}

absl::Status ReadOptional(const std::string& text, std::optional<absl::Duration>* duration) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> read = ParseDurationText(text);
  if (read.ok()) *duration = *read;
  return read.status();
}

absl::Status ReadOptional(const std::string& text,
                          const std::function<google::protobuf::Duration*()>& field) {
  std::optional<absl::Duration> duration;
  absl::Status status = ReadOptional(text, &duration);
  if (duration.has_value()) *field() = client::ToProto(*duration);
  return status;
}

absl::Status ReadSetting(const std::string& text, const std::string& default_word,
                         const std::string& path, google::protobuf::FieldMask* paths,
                         const std::function<google::protobuf::Duration*()>& field) {
  if (text.empty()) return absl::OkStatus();
  paths->add_paths(path);
  return text == default_word ? absl::OkStatus() : ReadOptional(text, field);
}

absl::StatusOr<absl::Time> ReadMoment(const std::string& text) {
  if (text == "now") return absl::Now();
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    const absl::StatusOr<absl::Duration> distance = ParseDurationText(text.substr(1));
    if (!distance.ok()) return distance.status();
    return text[0] == '+' ? absl::Now() + *distance : absl::Now() - *distance;
  }
  return ParseTimeText(text, std::nullopt, absl::LocalTimeZone());
}

absl::Status ReadOptional(const std::string& text,
                          const std::function<google::protobuf::Timestamp*()>& field) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<absl::Time> time = ReadMoment(text);
  if (time.ok()) *field() = client::ToProto(*time);
  return time.status();
}

absl::Status FirstError(std::initializer_list<absl::Status> statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void WhenOptions::AddTo(CLI::App* command) {
  CLI::Option_group* when = command->add_option_group("Time (one of the three)");
  when->add_option("--in", in, "Deliver this long from now: 90s, 1h30m, 2d, 1w, 500ms");
  when->add_option("--at", at,
                   "Deliver at this time: \"2026-12-24 18:00\" or 2026-12-24T18:00:00+08:00; a "
                   "time that the zone's clocks skip or show twice is refused");
  when->add_option("--local", local,
                   "Deliver at this local time of --tz; the server keeps both, and takes the next "
                   "or the first moment if the clocks skip it or show it twice");
  when->require_option(1);
  command->add_option("--tz", zone,
                      "The time zone of --at (default: this machine's) or --local, such as "
                      "Asia/Shanghai");
}

absl::StatusOr<client::When> WhenOptions::Read() const {
  if (!in.empty()) {
    if (!zone.empty()) return absl::InvalidArgumentError("--tz goes with --at or --local");
    const absl::StatusOr<absl::Duration> delay = ParseDurationText(in);
    if (!delay.ok()) return delay.status();
    return *delay;
  }
  if (!local.empty()) {
    if (zone.empty())
      return absl::InvalidArgumentError("--local needs --tz, such as Europe/Berlin");
    client::CivilTime civil{.local = local, .time_zone = zone};
    // As people write it.
    if (civil.local.size() > 10 && civil.local[10] == ' ') civil.local[10] = 'T';
    return civil;
  }
  std::optional<absl::TimeZone> place;
  if (!zone.empty()) {
    const absl::StatusOr<absl::TimeZone> named = ParseTimeZone(zone);
    if (!named.ok()) return named.status();
    place = *named;
  }
  const absl::StatusOr<absl::Time> time = ParseTimeText(at, place, absl::LocalTimeZone());
  if (!time.ok()) return time.status();
  return *time;
}

void PayloadOptions::AddTo(CLI::App* command) {
  CLI::Option* payload = command->add_option(
      "PAYLOAD", argument, "What to deliver; - reads it from standard input; default empty");
  command->add_option("--file", file, "Deliver what is in this file")->excludes(payload);
}

absl::StatusOr<std::string> PayloadOptions::Read() const {
  std::ostringstream bytes;
  if (!file.empty()) {
    std::ifstream in(file, std::ios::binary);
    // peek() finds what can be opened but not read, such as a directory. Nothing to read is no
    // error.
    in.peek();
    if (in.good()) bytes << in.rdbuf();
    if (!in.is_open() || in.bad() || bytes.bad()) {
      return absl::InvalidArgumentError("cannot read the file " + file);
    }
    return bytes.str();
  }
  if (argument.value_or("") != "-") return argument.value_or("");
  bytes << std::cin.rdbuf();
  if (bytes.bad()) return absl::InvalidArgumentError("cannot read standard input");
  return bytes.str();
}

void TargetOptions::AddTo(CLI::App* command, bool several) {
  CLI::Option* id = command->add_option("ID", ids, "The id that schedule printed")
                        ->expected(0, several ? CLI::detail::expected_max_vector_size : 1);
  CLI::Option* place = command->add_option("--topic", topic, "The topic of --key")->excludes(id);
  CLI::Option* key = command
                         ->add_option("--key", keys,
                                      several ? "The key that schedule was given; may be repeated"
                                              : "The key that schedule was given")
                         ->allow_extra_args(false)
                         ->needs(place)
                         ->excludes(id);
  if (!several) key->expected(1);
  place->needs(key);
}

absl::StatusOr<std::vector<client::Target>> TargetOptions::Read() const {
  std::vector<client::Target> targets;
  for (const std::string& id : ids) targets.push_back(client::Target::Id(id));
  for (const std::string& key : keys) targets.push_back(client::Target::Key(topic, key));
  if (targets.empty()) {
    return absl::InvalidArgumentError("say which message: an ID, or --topic TOPIC --key KEY");
  }
  return targets;
}

void FilterOptions::AddTo(CLI::App* command) {
  command->add_option("--key-prefix", key_prefix, "Only messages whose key begins with this");
  AddPairs(command, "--label", &labels, "Only messages with this label; may be repeated: all hold");
  command->add_option("--from", from,
                      "Only messages due at or after this: \"2026-12-24 18:00\", now, +2h or -1h");
  command->add_option("--to", to, "Only messages due before this");
}

void PageOptions::AddTo(CLI::App* command) {
  command->add_option("--page-size", size, "How many on a page (default: the server's, 100)")
      ->check(CLI::Range(1, 1'000));
  command->add_option("--page-token", token, "Go on behind an earlier page");
  command->add_flag("--all", all, "Print all pages, one after the other");
}

}  // namespace duetime::cli
