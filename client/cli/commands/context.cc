// SPDX-License-Identifier: Apache-2.0
//
// The commands for contexts, which keep the options of a connection under a name.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/connection/connection.h"
#include "client/cli/show.h"

namespace duetime::cli {
namespace {

Rows ContextRows() {
  return Join({{Row("current", {WordForTrue("*"), Column(" ")}),
                Row("name", "CONTEXT", "The name of the context",
                    {Required(), NotEmpty(), Line("context"), Column("NAME")}),
                Row("current", {Line("current")})},
               ConnectionRows()});
}

Row NameRow() { return Row("", "CONTEXT", "The name of the context", {Required(), NotEmpty()}); }

// A context can be used in any folder, so the names of its files are absolute.
std::string AbsolutePath(const std::string& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

ExitCode FailNoContext(const Settings& settings, const std::string& name) {
  Fail(settings, absl::NotFoundError(
                     absl::StrCat("there is no context \"", name, "\"; see duetime context list")));
  return kNotAsWished;
}

// Writes the file, and prints `text` if that succeeds.
ExitCode Save(const Settings& settings, const ContextFile& file, const std::string& text) {
  if (const absl::Status status = WriteContexts(file); !status.ok()) return Fail(settings, status);
  if (!settings.json) Print(text);
  return kDone;
}

// An action that reads the file of contexts.
Action WithContexts(
    const std::function<ExitCode(const Settings&, const Input&, ContextFile)>& use) {
  return {.run = [use](const Settings& settings, const Input& input) {
    absl::StatusOr<ContextFile> file = ReadContexts();
    return file.ok() ? use(settings, input, *std::move(file)) : Fail(settings, file.status());
  }};
}

ExitCode AddContext(const Settings& settings, const Input& input, ContextFile file) {
  Context added = input.As<Context>();
  added.set_tls_ca(AbsolutePath(added.tls_ca()));
  added.set_tls_cert(AbsolutePath(added.tls_cert()));
  added.set_tls_key(AbsolutePath(added.tls_key()));
  added.set_token_file(AbsolutePath(added.token_file()));
  const std::string name = added.name();
  Context* old = FindContext(name, &file);
  if (old != nullptr && !input.Has("--replace")) {
    return Fail(settings, absl::AlreadyExistsError(absl::StrCat("there is a context \"", name,
                                                                "\"; --replace replaces it")));
  }
  if (old != nullptr) {
    added.set_current(old->current());
    *old = added;
    return Save(settings, file, absl::StrCat("context ", name, " is replaced\n"));
  }
  *file.add_contexts() = added;
  std::sort(file.mutable_contexts()->begin(), file.mutable_contexts()->end(),
            [](const Context& a, const Context& b) { return a.name() < b.name(); });
  return Save(
      settings, file,
      absl::StrCat("context ", name, " is added; to use it: duetime context use ", name, "\n"));
}

ExitCode UseContext(const Settings& settings, const Input& input, ContextFile file) {
  const std::string name = input.Text("CONTEXT");
  if (name != kNoContext && FindContext(name, &file) == nullptr) {
    return FailNoContext(settings, name);
  }
  for (Context& context : *file.mutable_contexts()) context.set_current(context.name() == name);
  return Save(settings, file,
              name == kNoContext ? "no context is used\n"
                                 : absl::StrCat("context ", name, " is used from now on\n"));
}

ExitCode ListContexts(const Settings& settings, const Input&, const ContextFile& file) {
  ShowPage(settings, file, ContextRows(), /*first=*/true);
  ShowEndOfPages(settings, ContextFile(), "", file.contexts().empty());
  return kDone;
}

ExitCode ShowContext(const Settings& settings, const Input& input, const ContextFile& file) {
  const std::string name = input.Text("CONTEXT");
  for (const Context& context : file.contexts()) {
    if (name.empty() ? !context.current() : context.name() != name) continue;
    Print(settings.json ? JsonLine(context) : LinesText(ContextRows(), context, settings.zone));
    return kDone;
  }
  if (!name.empty()) return FailNoContext(settings, name);
  Fail(settings, absl::NotFoundError("no context is used"));
  return kNotAsWished;
}

ExitCode RemoveContext(const Settings& settings, const Input& input, ContextFile file) {
  const std::string name = input.Text("CONTEXT");
  auto* contexts = file.mutable_contexts();
  const auto removed = std::remove_if(contexts->begin(), contexts->end(),
                                      [&](const Context& one) { return one.name() == name; });
  if (removed == contexts->end()) return FailNoContext(settings, name);
  contexts->erase(removed, contexts->end());
  return Save(settings, file, absl::StrCat("context ", name, " is removed\n"));
}

absl::Status CheckAdded(Input* input) {
  const auto& added = input->As<Context>();
  if (added.name() == kNoContext || added.name()[0] == '-') {
    return absl::InvalidArgumentError("a context cannot be called " + added.name());
  }
  std::string target = added.server();
  return CompleteTarget(&target);
}

// The rows of the options, without the environment: a context keeps what its command line says.
Rows AddRows() {
  Rows rows = OptionsBelow("", ContextRows());
  for (Row& row : rows) row.environment.clear();
  rows.push_back(Row("", "--replace", "Replace the context if there is one of this name",
                     {Type(Row::Type::kFlag)}));
  return rows;
}

}  // namespace

Commands ContextCommands() {
  Action add = WithContexts(AddContext);
  add.request = &Context::default_instance();
  Commands commands = {
      {"context",
       "Keep the options of connections under names",
       "An option of the command line wins over the environment (DUETIME_SERVER, DUETIME_TLS_CA, "
       "...), which wins over\nthe context in use. With --context, the environment does not count. "
       "The file is "
       "contexts.json in\n$XDG_CONFIG_HOME/duetime or ~/.config/duetime. It holds the names of key "
       "files, never the keys.\nEach command has its own help: duetime context add --help",
       {"add prod --server duetime.example:7788 --tls-ca ca.pem", "use prod", "list"}},
      {"context add",
       "Keep these options under a name",
       "",
       {"prod --server duetime.example:7788 --tls-ca ca.pem --timeout 30s",
        "local --server unix:/run/duetime.sock --replace"},
       AddRows(),
       add.After(CheckAdded)},
      {"context use",
       "Use a context from now on; none: use no context",
       "For one command: --context NAME. For one shell: export DUETIME_CONTEXT=NAME.",
       {"prod", "none"},
       {NameRow()},
       WithContexts(UseContext)},
      {"context list", "List the contexts", "", {""}, {}, WithContexts(ListContexts)},
      {"context show",
       "Show a context",
       "",
       {"", "prod"},
       {Row("", "CONTEXT", "The name of the context (default: the one in use)")},
       WithContexts(ShowContext)},
      {"context remove",
       "Remove a context",
       "",
       {"prod"},
       {NameRow()},
       WithContexts(RemoveContext)},
  };
  for (Command& command : commands) command.needs_server = false;
  return commands;
}

}  // namespace duetime::cli
