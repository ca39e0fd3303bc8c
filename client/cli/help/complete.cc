// SPDX-License-Identifier: Apache-2.0
#include "client/cli/help/complete.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/cli/command.h"
#include "client/cli/connection/connection.h"
#include "client/cli/options.h"

namespace duetime::cli {
namespace {

// The name of a row says what its value is.
const std::map<std::string, NameKind>& KindsOfRows() {
  static const auto& kinds = *new std::map<std::string, NameKind>{
      {"TOPIC", NameKind::kTopic},
      {"--topic", NameKind::kTopic},
      {"--dead-letter-topic", NameKind::kTopic},
      {"SUBSCRIPTION", NameKind::kSubscription},
      {"-s,--subscription", NameKind::kSubscription},
      {"RECURRENCE", NameKind::kRecurrence},
      {"OPERATION", NameKind::kOperation},
      {"CONTEXT", NameKind::kContext},
      {"--context", NameKind::kContext},
  };
  return kinds;
}

bool TakesFile(const Row& row) {
  static const auto& names = *new Names{"FILE",     "--output",   "--assets",  "--data-dir",
                                        "--tls-ca", "--tls-cert", "--tls-key", "--token-file"};
  return row.from_file || std::find(names.begin(), names.end(), row.option) != names.end();
}

bool IsOption(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// The command that `word` names below the group `group`, or null.
const Command* FindCommand(const std::string& group, const std::string& word) {
  const std::string words = group.empty() ? word : absl::StrCat(group, " ", word);
  for (const Command& command : AllCommands()) {
    if (command.words == words) return &command;
  }
  return nullptr;
}

// A row, and the command that it belongs to.
struct Place {
  const Command* command = nullptr;
  const Row* row = nullptr;
};

// Reads the words of a line from left to right, as the parser does.
class TypedLine {
 public:
  void Take(const std::string& word) {
    if (value_of_.row != nullptr) {
      given_[value_of_.row->option] = word;
      value_of_ = {};
    } else if (IsOption(word)) {
      TakeOption(word);
    } else if (const Place place = NextArgument(); place.row != nullptr) {
      given_[place.row->option] = word;
      ++arguments_;
    } else if (const Command* below = FindCommand(GroupWords(), word)) {
      command_ = below;
    }
  }

  Completion CompleteWord(const std::string& word, const FindNames& find) const {
    Completion completion;
    if (value_of_.row != nullptr) {
      AddValues(value_of_, "", word, find, &completion);
    } else if (const size_t equals = word.find('='); IsOption(word) && equals != word.npos) {
      const Place place = FindOption(word.substr(0, equals));
      AddValues(place, word.substr(0, equals + 1), word.substr(equals + 1), find, &completion);
    } else if (!word.empty() && word[0] == '-') {
      AddOptions(word, &completion);
    } else if (const Place place = NextArgument(); place.row != nullptr) {
      AddValues(place, "", word, find, &completion);
    } else {
      AddCommands(word, &completion);
    }
    return completion;
  }

 private:
  bool IsLeaf() const { return command_ != nullptr && command_->action.run; }
  std::string GroupWords() const { return command_ == nullptr ? "" : command_->words; }

  // The options that may stand here: those of the command, and those of every command.
  template <typename Visit>
  void EachOption(const Visit& visit) const {
    for (const Command* command : {command_, &GlobalOptions()}) {
      if (command == nullptr) continue;
      for (const Row& row : command->rows) {
        if (row.option[0] == '-') visit(Place{command, &row});
      }
    }
  }

  Place FindOption(const std::string& name) const {
    Place found;
    EachOption([&](const Place& place) {
      const Names names = absl::StrSplit(place.row->option, ',');
      const bool named = std::find(names.begin(), names.end(), name) != names.end();
      if (found.row == nullptr && named) found = place;
    });
    return found;
  }

  void TakeOption(const std::string& word) {
    const size_t equals = word.find('=');
    const Place place = FindOption(word.substr(0, equals));
    if (place.row == nullptr) return;
    given_[place.row->option] = equals == word.npos ? "" : word.substr(equals + 1);
    const bool flag = ShapeOf(*place.command, *place.row).type == Row::Type::kFlag;
    if (!flag && equals == word.npos) value_of_ = place;
  }

  // The argument that the next word is. The last one of a list takes all further words.
  Place NextArgument() const {
    if (!IsLeaf()) return {};
    size_t left = arguments_;
    for (const Row& row : command_->rows) {
      if (row.option.empty() || row.option[0] == '-') continue;
      const bool list = ShapeOf(*command_, row).type == Row::Type::kList;
      if (list || left == 0) return {command_, &row};
      --left;
    }
    return {};
  }

  void AddValues(const Place& place, const std::string& before, const std::string& word,
                 const FindNames& find, Completion* completion) const {
    if (place.row == nullptr) return;
    completion->files = TakesFile(*place.row);
    Names values = ShapeOf(*place.command, *place.row).words;
    if (!place.row->reset_word.empty()) values.push_back(place.row->reset_word);
    const auto kind = KindsOfRows().find(place.row->option);
    if (kind != KindsOfRows().end()) values = find(kind->second, word, given_);
    for (const std::string& value : values) {
      if (absl::StartsWith(value, word)) completion->candidates.push_back({before + value});
    }
  }

  void AddOptions(const std::string& word, Completion* completion) const {
    EachOption([&](const Place& place) {
      const Names names = absl::StrSplit(place.row->option, ',');
      const bool list = ShapeOf(*place.command, *place.row).type == Row::Type::kList;
      const bool fits = absl::StartsWith(names.back(), word);
      if (!fits || (given_.count(place.row->option) > 0 && !list)) return;
      // `context add` has own options with the names of global options: such a name is listed once.
      for (const Candidate& one : completion->candidates) {
        if (one.text == names.back()) return;
      }
      completion->candidates.push_back({names.back(), place.row->help});
    });
    if (absl::StartsWith("--help", word)) {
      completion->candidates.push_back({"--help", "Print the help and exit"});
    }
  }

  void AddCommands(const std::string& word, Completion* completion) const {
    const std::string prefix = command_ == nullptr ? "" : command_->words + " ";
    for (const Command& command : AllCommands()) {
      if (!absl::StartsWith(command.words, prefix + word)) continue;
      const std::string last = command.words.substr(prefix.size());
      if (last.find(' ') == last.npos) completion->candidates.push_back({last, command.help});
    }
  }

  const Command* command_ = nullptr;
  size_t arguments_ = 0;
  // The option whose value comes next.
  Place value_of_;
  GivenWords given_;
};

}  // namespace

Completion Complete(const Names& words, const FindNames& find) {
  TypedLine line;
  for (size_t i = 0; i + 1 < words.size(); ++i) line.Take(words[i]);
  return line.CompleteWord(words.empty() ? "" : words.back(), find);
}

}  // namespace duetime::cli
