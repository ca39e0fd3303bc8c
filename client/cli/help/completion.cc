// SPDX-License-Identifier: Apache-2.0
//
// The commands for completion: a script for each shell, and the words that the scripts ask for.
#include <string>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/connection/connection.h"
#include "client/cli/help/complete.h"
#include "client/cli/show.h"
#include "client/cpp/admin_client.h"

namespace duetime::cli {
namespace {

using client::AdminClient;

// A person waits for the list, and can go on without it.
constexpr absl::Duration kLookupTime = absl::Milliseconds(500);
constexpr int kLookupMax = 1'000;

// bash splits words at ":" and "=", too, and replaces only what stands after the last of them. The
// tool gets the words as they stand between blanks, and `kept` is what bash keeps.
constexpr char kBash[] = R"(# bash completion of duetime
_duetime() {
  local line=${COMP_LINE:0:COMP_POINT} words current breaks kept= item files=
  read -ra words <<<"$line"
  [[ $line == *[[:blank:]] ]] && words+=("")
  current=${words[-1]}
  breaks=${COMP_WORDBREAKS//[^:=]/}
  [[ -n $breaks ]] && kept=${current%"${current##*[$breaks]}"}
  COMPREPLY=()
  while IFS= read -r item; do
    if [[ $item == :files ]]; then
      files=1
      continue
    fi
    item=${item%%$'\t'*}
    COMPREPLY+=("${item#"$kept"}")
  done < <("${words[0]/#\~\//$HOME/}" completion words -- "${words[@]:1}" 2>/dev/null)
  if [[ -n $files ]]; then
    compopt -o filenames
    while IFS= read -r item; do COMPREPLY+=("$item"); done < <(compgen -f -- "${current##*=}")
  fi
}
complete -F _duetime duetime
)";

constexpr char kZsh[] = R"(#compdef duetime
# zsh completion of duetime
_duetime() {
  local line files
  local -a items
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=1
    else
      items+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done < <("${(Q)~words[1]}" completion words -- "${(Q@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#items )); then
    _describe 'duetime' items
  fi
  if [[ -n $files ]]; then
    compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _duetime ]]; then
  _duetime "$@"
else
  compdef _duetime duetime
fi
)";

constexpr char kFish[] = R"(# fish completion of duetime
function __duetime_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] completion words -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (string replace -r '.*=' '' -- "$current")
        else
            printf '%s\n' "$line"
        end
    end
end
complete -c duetime -f -a '(__duetime_complete)'
)";

Names ContextNames() {
  Names names;
  const absl::StatusOr<ContextFile> file = ReadContexts();
  if (!file.ok()) return names;
  for (const Context& context : file->contexts()) names.push_back(context.name());
  return names;
}

// The settings of a command with the options for the connection that `given` has.
absl::StatusOr<Settings> SettingsOf(const GivenWords& given) {
  Names words = {"duetime"};
  for (const Row& row : GlobalOptions().rows) {
    const auto value = given.find(row.option);
    if (value == given.end() || value->second.empty()) continue;
    words.push_back(absl::StrCat(row.option, "=", value->second));
  }
  words.push_back("info");
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  const auto parsed = ParseArguments(static_cast<int>(pointers.size()), pointers.data());
  const auto* invocation = std::get_if<Invocation>(&parsed);
  if (invocation == nullptr) return absl::InvalidArgumentError("no settings");
  Settings settings = invocation->settings;
  settings.deadline = kLookupTime;
  return settings;
}

Names FindServerNames(AdminClient* client, NameKind kind, const std::string& prefix,
                      const std::string& topic) {
  const auto list = [](const auto& answer, auto items) {
    Names names;
    if (!answer.ok()) return names;
    for (const auto& item : items(*answer)) names.push_back(item.name());
    return names;
  };
  if (kind == NameKind::kTopic) {
    v1::ListTopicsRequest request;
    request.set_name_prefix(prefix);
    request.set_page_size(kLookupMax);
    return list(client->ListTopics(request), [](const auto& page) { return page.topics(); });
  }
  if (kind == NameKind::kSubscription) {
    v1::ListSubscriptionsRequest request;
    request.set_topic(topic);
    request.set_page_size(kLookupMax);
    return list(client->ListSubscriptions(request),
                [](const auto& page) { return page.subscriptions(); });
  }
  if (kind == NameKind::kRecurrence) {
    v1::ListRecurrencesRequest request;
    request.set_page_size(kLookupMax);
    return list(client->ListRecurrences(request),
                [](const auto& page) { return page.recurrences(); });
  }
  v1::ListOperationsRequest request;
  request.set_page_size(kLookupMax);
  return list(client->ListOperations(request), [](const auto& page) { return page.operations(); });
}

// Asks the server, or the file of contexts. No answer is no name.
Names FindAnyNames(NameKind kind, const std::string& prefix, const GivenWords& given) {
  if (kind == NameKind::kContext) return ContextNames();
  std::string topic;
  for (const char* name : {"TOPIC", "--topic"}) {
    if (const auto value = given.find(name); value != given.end()) topic = value->second;
  }
  if (kind == NameKind::kSubscription && topic.empty()) return {};
  const absl::StatusOr<Settings> settings = SettingsOf(given);
  if (!settings.ok()) return {};
  client::ClientOptions options;
  options.server = settings->server;
  options.deadline = settings->deadline;
  options.attempts_max = kTriesMax;
  const absl::StatusOr<std::unique_ptr<AdminClient>> client = AdminClient::Create(options);
  return client.ok() ? FindServerNames(client->get(), kind, prefix, topic) : Names();
}

ExitCode PrintWords(const Settings&, const Input& input) {
  const Completion completion = Complete(input.List("WORD"), FindAnyNames);
  for (const Candidate& candidate : completion.candidates) {
    Print(absl::StrCat(candidate.text, candidate.help.empty() ? "" : "\t", candidate.help, "\n"));
  }
  if (completion.files) Print(":files\n");
  return kDone;
}

Command ShellCommand(const std::string& shell, const char* script, const std::string& note) {
  return {"completion " + shell,
          absl::StrCat("Print the completion of ", shell),
          note,
          {""},
          {},
          {.run = [script](const Settings&, const Input&) {
            Print(script);
            return kDone;
          }}};
}

}  // namespace

Commands CompletionCommands() {
  Commands commands = {
      {"completion",
       "Let the Tab key of your shell complete commands, options and names",
       "Names of topics, subscriptions, recurrences and operations come from the server, which "
       "has half a second\nto answer.\nEach command has its own help: duetime completion bash "
       "--help",
       {"bash"}},
      ShellCommand("bash", kBash,
                   "For every new shell, add this line to ~/.bashrc: source <(duetime completion "
                   "bash)"),
      ShellCommand("zsh", kZsh,
                   "For every new shell, add this line to ~/.zshrc, below compinit: source "
                   "<(duetime completion zsh)"),
      ShellCommand("fish", kFish,
                   "For every new shell: duetime completion fish > "
                   "~/.config/fish/completions/duetime.fish"),
      {"completion words",
       "Print what can stand in place of the last word, for scripts that complete",
       "Each line is a word, and after a tab its help. The line :files means that names of files "
       "fit, too.",
       {"-- topic upd", "-- list ''"},
       {Row("", "WORD", "The words after duetime; write -- before them", {Type(Row::Type::kList)})},
       {.run = PrintWords}},
  };
  for (Command& command : commands) command.needs_server = false;
  return commands;
}

}  // namespace duetime::cli
