// SPDX-License-Identifier: Apache-2.0
#include "server/config/load.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>
#include <toml++/toml.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "server/config/exit_code.h"
#include "server/config/knobs.h"
#include "server/config/quantity.h"
#include "server/config/version.h"

namespace duetime::config {
namespace {

constexpr size_t kConfigFileBytesMax = 1 << 20;

// ---- TOML

// Puts one TOML value into a field of the config, by the field's type.
struct TomlSetter {
  Config* config;
  const Knob& knob;
  const toml::node& node;

  absl::Status WrongType(absl::string_view expected) const {
    std::ostringstream type;
    type << node.type();
    return absl::InvalidArgumentError(
        absl::StrCat(knob.name, " must be ", expected, ", not ", type.str()));
  }

  absl::Status operator()(const Field<std::string>& field) const {
    const toml::value<std::string>* text = node.as_string();
    if (text == nullptr) return WrongType("a string");
    field(*config) = text->get();
    return absl::OkStatus();
  }

  absl::Status operator()(const Field<bool>& field) const {
    const toml::value<bool>* flag = node.as_boolean();
    if (flag == nullptr) return WrongType("true or false");
    field(*config) = flag->get();
    return absl::OkStatus();
  }

  absl::Status operator()(const Field<uint64_t>& field) const {
    if (const toml::value<int64_t>* number = node.as_integer()) {
      if (number->get() < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            knob.name, " = ", number->get(), " is out of bounds: ", knob.min, " to ", knob.max));
      }
      field(*config) = static_cast<uint64_t>(number->get());
      return absl::OkStatus();
    }
    const toml::value<std::string>* text = node.as_string();
    if (text == nullptr) return WrongType("an integer, or a string like \"30s\" or \"64MiB\"");
    const absl::StatusOr<uint64_t> value = ParseQuantity(text->get(), knob.unit);
    if (!value.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(knob.name, ": ", value.status().message()));
    }
    field(*config) = *value;
    return absl::OkStatus();
  }

  absl::Status operator()(const Field<std::vector<std::string>>& field) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) return WrongType("an array of strings");
    std::vector<std::string> items;
    for (const toml::node& item : *array) {
      const toml::value<std::string>* text = item.as_string();
      if (text == nullptr) return WrongType("an array of strings only");
      items.push_back(text->get());
    }
    field(*config) = std::move(items);
    return absl::OkStatus();
  }
};

const Knob* FindKnob(absl::string_view name) {
  for (const Knob& knob : Knobs()) {
    if (name == knob.name) return &knob;
  }
  return nullptr;
}

std::string Place(absl::string_view file, const toml::source_region& region) {
  return absl::StrCat(file, ":", region.begin.line, ":", region.begin.column, ": ");
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kConfigFileBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in.eof() && in.gcount() == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kConfigFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is larger than ", kConfigFileBytesMax, " bytes"));
  }
  return text;
}

// ---- Flags

// Puts the texts given for one flag into a field of the config, by the field's type.
struct FlagSetter {
  Config* config;
  const Knob& knob;
  const std::vector<std::string>& values;

  absl::Status Wrong(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat("--", FlagName(knob.name), ": ", why));
  }

  absl::Status operator()(const Field<std::string>& field) const {
    field(*config) = values.back();
    return absl::OkStatus();
  }

  absl::Status operator()(const Field<bool>& field) const {
    if (values.back() != "true" && values.back() != "false") {
      return Wrong(absl::StrCat("\"", values.back(), "\" is neither true nor false"));
    }
    field(*config) = values.back() == "true";
    return absl::OkStatus();
  }

  absl::Status operator()(const Field<uint64_t>& field) const {
    const absl::StatusOr<uint64_t> value = ParseQuantity(values.back(), knob.unit);
    if (!value.ok()) return Wrong(value.status().message());
    field(*config) = *value;
    return absl::OkStatus();
  }

  absl::Status operator()(const Field<std::vector<std::string>>& field) const {
    field(*config) = values;
    return absl::OkStatus();
  }
};

// Columns of --help: the flag, then its text.
constexpr size_t kFlagColumns = 36;
constexpr size_t kTextColumns = 76;

// Breaks a text into lines of at most kTextColumns at its spaces.
std::string Wrap(absl::string_view text) {
  std::string wrapped;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool fits = column + 1 + word.size() <= kTextColumns;
    if (column > 0) wrapped += fits ? ' ' : '\n';
    column = column > 0 && fits ? column + 1 + word.size() : word.size();
    absl::StrAppend(&wrapped, word);
  }
  return wrapped;
}

// CLI11's view of the command line. CLI11 reads every flag as text; the table knows the types.
class CommandLine {
 public:
  CommandLine() : app_("duetimed: a durable delayed-message daemon.", "duetimed") {
    app_.get_formatter()->column_width(kFlagColumns);
    app_.set_help_flag("--help,-h", "Print this and exit.");
    app_.set_version_flag("--version", absl::StrCat("duetimed ", Version()));
    app_.add_option("--config", config_file_, "TOML file; its keys are the flags' names with _.")
        ->type_name("FILE");
    app_.add_flag("--check-config", check_, "Check the configuration, print it and exit.");
    app_.add_flag(
        "--init", init_,
        "Create a new, empty store if the data directory is missing or empty. Refused if other "
        "files are in it.");
    app_.add_flag("--into-cell", into_cell_,
                  "Make the data directory of a server without a cell that of the first member of "
                  "a new cell (cell_brokers), and exit. The cell's log must be new.");
    app_.add_option("--verify", verify_dir_,
                    "Read all of a data directory that no daemon uses, print what is damaged and "
                    "exit: 0 intact, 3 intact but for a torn end of the log, 65 damaged, 66 not "
                    "readable. Changes nothing.")
        ->type_name("DIR");
    app_.add_option("--repair", repair_dir_,
                    "Write what can be read of a damaged data directory that no daemon uses into "
                    "a new one (--into), print what is lost and exit: 0 nothing, 2 something. "
                    "Changes nothing in DIR.")
        ->type_name("DIR");
    app_.add_option("--restore", restore_dir_,
                    "Make a new data directory (--into) from a backup that `duetime backup` wrote, "
                    "and exit: 0 done, 65 the backup is damaged. The new directory starts with all "
                    "topics paused.")
        ->type_name("DIR");
    app_.add_option("--into", into_dir_,
                    "The new directory of --repair or --restore: empty or missing, with room for "
                    "all of it.")
        ->type_name("DIR");
    app_.footer(absl::StrCat(
        "Times may be written with ms, s, m, h or d and sizes with B, KiB, MiB, GiB or TiB. A flag "
        "goes before the file, the file before the default.\n\n",
        ExitCodesText()));
    values_.resize(Knobs().size());
    for (size_t i = 0; i < Knobs().size(); ++i) AddKnob(Knobs()[i], &values_[i]);
  }

  // Returns the answer to --help, --version or a fault of syntax. nullopt: Load continues.
  std::optional<Loaded> Parse(int argc, const char* const* argv) {
    std::vector<std::string> words = SplitEmptyValues(argc, argv);
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      std::ostringstream out;
      const int code = app_.exit(error, out, out);
      Loaded loaded;
      loaded.exit_code = code == 0 ? ExitCode::kStopped : ExitCode::kConfiguration;
      loaded.output = out.str();
      return loaded;
    }
    return std::nullopt;
  }

  absl::Status Apply(Config* config) const {
    std::vector<std::string> faults;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].empty()) continue;
      const Knob& knob = Knobs()[i];
      const absl::Status status = std::visit(FlagSetter{config, knob, values_[i]}, knob.field);
      if (!status.ok()) faults.emplace_back(status.message());
    }
    if (faults.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(faults, "\n"));
  }

  bool has_config_file() const { return app_.count("--config") > 0; }
  const std::string& config_file() const { return config_file_; }
  bool check() const { return check_; }
  bool init() const { return init_; }
  bool into_cell() const { return into_cell_; }
  bool has_verify() const { return app_.count("--verify") > 0; }
  const std::string& verify_dir() const { return verify_dir_; }
  bool makes_directory() const {
    return app_.count("--repair") + app_.count("--restore") + app_.count("--into") > 0;
  }
  const std::string& repair_dir() const { return repair_dir_; }
  const std::string& restore_dir() const { return restore_dir_; }
  const std::string& into_dir() const { return into_dir_; }

 private:
  // The words of the command line, last first, as CLI11 takes them. "--name=" becomes two words,
  // because CLI11 would take the next word as its value.
  std::vector<std::string> SplitEmptyValues(int argc, const char* const* argv) const {
    std::vector<std::string> words;
    for (int i = argc - 1; i > 0; --i) {
      const absl::string_view word = argv[i];
      absl::string_view name = word;
      const CLI::Option* option = nullptr;
      if (absl::StartsWith(word, "--") && absl::ConsumeSuffix(&name, "=")) {
        option = app_.get_option_no_throw(std::string(name));
      }
      if (option == nullptr || option->get_items_expected_max() == 0) {
        words.emplace_back(word);
      } else {
        words.insert(words.end(), {"", std::string(name)});
      }
    }
    return words;
  }

  void AddKnob(const Knob& knob, std::vector<std::string>* values) {
    const std::string flag = absl::StrCat("--", FlagName(knob.name));
    const std::string help = absl::StrCat(Wrap(knob.description), "\n[", BoundsText(knob), "]");
    if (std::holds_alternative<Field<bool>>(knob.field)) {
      app_.add_flag(flag, *values, help)->group(knob.group);
      return;
    }
    if (knob.bare != nullptr) {
      app_.add_flag(absl::StrCat(flag, "{", knob.bare, "}"), *values, help)->group(knob.group);
      return;
    }
    CLI::Option* option = app_.add_option(flag, *values, help);
    option->group(knob.group)->expected(1)->allow_extra_args(false);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    option->type_name(knob.unit == Unit::kNone ? "TEXT" : "NUMBER");
  }

  CLI::App app_;
  std::string config_file_;
  bool check_ = false;
  bool init_ = false;
  bool into_cell_ = false;
  std::string verify_dir_;
  std::string repair_dir_;
  std::string restore_dir_;
  std::string into_dir_;
  std::vector<std::vector<std::string>> values_;
};

}  // namespace

absl::Status ApplyToml(absl::string_view text, absl::string_view file, Config* config) {
  toml::table table;
  try {
    table = toml::parse(std::string_view(text.data(), text.size()));
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(file, error.source()),
                     absl::string_view(error.description().data(), error.description().size())));
  }
  std::vector<std::string> faults;
  for (auto&& [key, node] : table) {
    const absl::string_view name(key.str().data(), key.str().size());
    const Knob* knob = FindKnob(name);
    if (knob == nullptr) {
      faults.push_back(absl::StrCat(Place(file, key.source()), "unknown key ", name));
      continue;
    }
    const absl::Status status = std::visit(TomlSetter{config, *knob, node}, knob->field);
    if (!status.ok()) faults.push_back(absl::StrCat(Place(file, node.source()), status.message()));
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(faults, "\n"));
}

std::string ToToml(const Config& config) {
  std::string text;
  for (const Knob& knob : Knobs()) {
    absl::StrAppend(&text, knob.name, " = ", ValueText(knob, config), "\n");
  }
  return text;
}

Loaded Load(int argc, const char* const* argv) {
  CommandLine line;
  if (std::optional<Loaded> done = line.Parse(argc, argv)) return *done;
  Loaded loaded;
  loaded.init = line.init();
  loaded.into_cell = line.into_cell();
  if (line.into_cell() && (line.init() || line.makes_directory() || line.has_verify())) {
    loaded.exit_code = ExitCode::kConfiguration;
    loaded.output = "--into-cell stands alone: not with --init, --verify, --repair or --restore\n";
    return loaded;
  }
  if (line.makes_directory()) {
    if (line.repair_dir().empty() == line.restore_dir().empty() || line.into_dir().empty()) {
      loaded.exit_code = ExitCode::kConfiguration;
      loaded.output =
          "--repair DIR or --restore DIR needs --into NEWDIR, and neither may be empty\n";
      return loaded;
    }
    loaded.repair_dir = line.repair_dir();
    loaded.restore_dir = line.restore_dir();
    loaded.into_dir = line.into_dir();
    return loaded;
  }
  if (line.has_verify()) {
    // An empty variable of a script must not start the daemon.
    if (line.verify_dir().empty()) {
      loaded.exit_code = ExitCode::kConfiguration;
      loaded.output = "--verify: the directory is empty\n";
    }
    loaded.verify_dir = line.verify_dir();
    return loaded;
  }
  loaded.config.server.version = Version();
  std::vector<std::string> faults;
  const auto note = [&faults](const absl::Status& status) {
    if (!status.ok()) faults.emplace_back(status.message());
  };
  if (line.has_config_file()) {
    const absl::StatusOr<std::string> text = ReadFile(line.config_file());
    note(text.status());
    if (text.ok()) note(ApplyToml(*text, line.config_file(), &loaded.config));
  }
  note(line.Apply(&loaded.config));
  note(Validate(loaded.config));
  if (loaded.into_cell && loaded.config.cell.cell_brokers.empty()) {
    note(absl::InvalidArgumentError("--into-cell needs cell_brokers"));
  }
  if (!faults.empty()) {
    loaded.exit_code = ExitCode::kConfiguration;
    loaded.output = absl::StrCat(absl::StrJoin(faults, "\n"), "\n");
  } else if (line.check()) {
    loaded.output = ToToml(loaded.config);
  } else {
    loaded.run = true;
  }
  return loaded;
}

}  // namespace duetime::config
