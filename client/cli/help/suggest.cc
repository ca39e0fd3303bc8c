// SPDX-License-Identifier: Apache-2.0
#include "client/cli/help/suggest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/text.h"

namespace duetime::cli {
namespace {

constexpr size_t kDistanceMax = 2;
constexpr size_t kShownWordBytes = 100;

using Apps = std::vector<const CLI::App*>;

// The number of letters to change, add or leave out so that one word becomes the other, or two
// neighbours to exchange (optimal string alignment).
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// The subcommands of `app`; or its groups of options, which the parser holds as apps without name.
Apps Below(const CLI::App& app, bool groups) {
  return app.get_subcommands(
      [groups](const CLI::App* one) { return one->get_name().empty() == groups; });
}

void AddOptions(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names->push_back("--" + name);
    for (const std::string& name : option->get_snames()) names->push_back("-" + name);
  }
}

std::string SuggestionText(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string closest = Closest(word, candidates);
  return closest.empty() ? "" : absl::StrCat("; did you mean ", closest, "?");
}

// What other tools call a command.
std::string CommandCalled(absl::string_view word) {
  static constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"server", "info"},      {"status", "info"},      {"stats", "top"},
      {"ls", "list"},          {"show", "get"},         {"delete", "cancel"},
      {"publish", "schedule"}, {"send", "schedule"},    {"receive", "subscribe"},
      {"tail", "subscribe"},   {"recurrence", "recur"}, {"repeat", "recur"}};
  for (const auto& [name, command] : kNames) {
    if (name == word) return std::string(command);
  }
  return "";
}

// What other tools call an option of `names`.
std::string OptionCalled(absl::string_view word, const std::vector<std::string>& names) {
  static constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"--limit", "--page-size"}, {"--count", "--page-size"}, {"--size", "--page-size"},
      {"-n", "--page-size"},      {"--max", "--page-size"},   {"--delay", "--in"},
      {"--after", "--in"},        {"--when", "--at"},         {"--time", "--at"},
      {"--attribute", "--attr"},  {"--header", "--attr"},     {"--tag", "--label"},
      {"--verbose", "--full"},    {"--host", "--server"},     {"--timezone", "--tz"},
      {"--zone", "--tz"}};
  for (const auto& [name, option] : kNames) {
    if (name == word && std::find(names.begin(), names.end(), option) != names.end()) {
      return std::string(option);
    }
  }
  return "";
}

// The commands from `app` to the last one that the command line names.
Apps ParsedPath(const CLI::App& app) {
  Apps path = {&app};
  while (true) {
    const std::vector<CLI::App*> parsed = path.back()->get_subcommands();
    const auto named = std::find_if(parsed.begin(), parsed.end(),
                                    [](const CLI::App* one) { return !one->get_name().empty(); });
    if (named == parsed.end()) return path;
    path.push_back(*named);
  }
}

std::string UnknownOptionText(const Apps& path, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> names;
  AddOptions(*path.back(), &names);
  for (const CLI::App* group : Below(*path.back(), /*groups=*/true)) AddOptions(*group, &names);
  if (path.size() > 1) AddOptions(*path.front(), &names);
  // Some commands take TOPIC as an argument, and others as the option --topic.
  for (const CLI::Option* option : path.back()->get_options()) {
    const std::string positional = option->get_name(/*positional=*/true);
    if (option->get_positional() && "--" + absl::AsciiStrToLower(positional) == name) {
      return absl::StrCat("there is no option ", name, ": write ", positional, " without it");
    }
  }
  const std::string called = OptionCalled(name, names);
  return absl::StrCat(
      "there is no option ", Printable(name, kShownWordBytes),
      called.empty() ? SuggestionText(name, names) : absl::StrCat("; did you mean ", called, "?"));
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : Below(app, /*groups=*/false)) names.push_back(command->get_name());
  return names;
}

std::string UnknownWordText(const Apps& path, const std::string& word) {
  const std::vector<std::string> names = CommandNames(*path.back());
  const std::string shown = Printable(word, kShownWordBytes);
  const std::string called = CommandCalled(word);
  if (names.empty()) {
    return absl::StrCat("\"", shown, "\" is one word too many",
                        called.empty() ? "" : absl::StrCat("; did you mean duetime ", called, "?"));
  }
  return absl::StrCat("there is no command \"", shown, "\"",
                      called.empty() || path.size() > 1
                          ? SuggestionText(word, names)
                          : absl::StrCat("; did you mean ", called, "?"));
}

}  // namespace

std::string Closest(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string* closest = nullptr;
  size_t least = kDistanceMax + 1;
  const auto letters = word.size() - static_cast<size_t>(std::count(word.begin(), word.end(), '-'));
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(candidate, word);
    // A word of which no letter stays resembles nothing.
    if (distance >= least || distance >= letters) continue;
    least = distance;
    closest = &candidate;
  }
  if (closest != nullptr) return *closest;
  for (const std::string& candidate : candidates) {
    if (word.size() > kDistanceMax && absl::StartsWith(candidate, word)) return candidate;
  }
  return "";
}

std::string UsageErrorText(const CLI::App& app, const std::string& otherwise) {
  const Apps path = ParsedPath(app);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  std::string text = otherwise;
  if (!rest.empty()) {
    const bool is_option = rest[0].size() > 1 && rest[0][0] == '-';
    text = is_option ? UnknownOptionText(path, rest[0]) : UnknownWordText(path, rest[0]);
  }
  if (const auto names = CommandNames(*path.back()); rest.empty() && !names.empty()) {
    text = absl::StrCat("say which command: ", absl::StrJoin(names, ", "));
  }
  std::string words;
  for (const CLI::App* command : path) absl::StrAppend(&words, command->get_name(), " ");
  return absl::StrCat(text, " (see ", words, "--help)");
}

}  // namespace duetime::cli
