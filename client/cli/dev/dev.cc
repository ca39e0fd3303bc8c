// SPDX-License-Identifier: Apache-2.0
#include "client/cli/dev/dev.h"

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdlib.h>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "client/cli/connection/connection.h"
#include "client/cli/console/console_server.h"
#include "client/cli/console/history.h"
#include "client/cli/console/metrics.h"
#include "client/cli/dev/child_server.h"
#include "client/cli/dev/event_counter.h"
#include "client/cli/show.h"

namespace duetime::cli {
namespace {

namespace fs = std::filesystem;

// How often the server's counters are read.
constexpr absl::Duration kRound = absl::Milliseconds(200);

constexpr char kAnyone[] =
    "Whoever reaches these ports may do everything: there are no passwords and no encryption.\n";

constexpr char kInContainer[] = " (if this is a container, with docker exec CONTAINER before each)";

// A directory that goes at its end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const std::string parent = EnvironmentOf("TMPDIR");
    path_ = absl::StrCat(parent.empty() ? "/tmp" : parent, "/duetime-dev.XXXXXX");
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~TemporaryDirectory() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // Empty if it could not be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct DevOptions {
  Names listen;
  ConsoleAddress console;
  std::string directory;
  bool open = false;
};

absl::StatusOr<DevOptions> ReadOptions(const Input& input) {
  DevOptions options = {.listen = input.List("--listen"),
                        .console = {},
                        .directory = input.Text("--dir"),
                        .open = input.Has("--insecure-nonloopback")};
  if (options.listen.empty()) options.listen = {client::ServerAddress().target};
  auto console = ReadConsoleAddress("--console", input.Text("--console"));
  if (!console.ok()) return console.status();
  options.console = *std::move(console);
  bool loopback = options.console.IsLoopback();
  for (const std::string& listen : options.listen) {
    if (absl::StartsWith(listen, "unix:")) continue;
    const auto address = ReadConsoleAddress("--listen", listen);
    if (!address.ok()) return address.status();
    loopback = loopback && address->IsLoopback();
  }
  if (loopback || options.open) return options;
  return absl::InvalidArgumentError(
      "without --insecure-nonloopback, --listen and --console must be loopback addresses, such as "
      "127.0.0.1:7788: whoever reaches them may do everything");
}

// How programs of this machine reach the server that listens on `address`.
std::string TargetOf(const std::string& address) {
  auto read = ReadConsoleAddress("", address);
  if (!read.ok() || !read->IsWildcard()) return address;
  read->host = "127.0.0.1";
  return read->Text();
}

// What a dev server has: its addresses, and where its messages are.
struct Place {
  std::string server;
  // Empty if the page is not installed.
  std::string console;
  std::string metrics;
  std::string directory;
  bool kept = false;
  bool open = false;
};

std::string PlaceJson(const Place& place) {
  const nlohmann::ordered_json json = {{"server", place.server},
                                       {"console", place.console},
                                       {"metrics", place.metrics},
                                       {"dir", place.directory}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// How a shell finds this program.
std::string ToolText() {
  std::error_code error;
  const fs::path tool = fs::read_symlink("/proc/self/exe", error);
  const std::string path = EnvironmentOf("PATH");
  for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    const fs::path found = fs::path(std::string(folder)) / "duetime";
    if (fs::exists(found, error)) return fs::equivalent(found, tool, error) ? "duetime" : tool;
  }
  return tool;
}

std::string PlaceText(const Place& place) {
  const std::string tool = absl::StrCat("  ", ToolText(), " ");
  // A person who pastes these may have a context or an environment that leads elsewhere.
  const std::string at = absl::StrCat(" --server ", place.server, "\n");
  return absl::StrCat("A server to try things on. ",
                      place.kept ? absl::StrCat("Its messages stay in ", place.directory, ".\n")
                                 : "Its messages go when it ends; --dir DIR keeps them.\n",
                      place.open ? kAnyone : "", "\n  server   ", place.server, "\n  console  ",
                      place.console.empty() ? "the page is not installed" : place.console,
                      // Not published, if this is a container.
                      place.open ? "" : absl::StrCat("\n  metrics  ", place.metrics),
                      "\n\nTo paste into another terminal", place.open ? kInContainer : "", ":\n\n",
                      tool, "subscription create orders worker", at, tool,
                      "schedule orders 'hello in five seconds' --in 5s", at, tool,
                      "subscribe orders --subscription worker", at,
                      "\nCtrl-C ends it. What happens from now on, five looks a second:\n\n");
}

std::string EventText(const Settings& settings, absl::Time now, const DevEvent& event) {
  if (settings.json) {
    nlohmann::ordered_json json = {{"time", FormatTimeText(now, settings.zone)},
                                   {"event", event.what},
                                   {"count", static_cast<int64_t>(event.count)},
                                   {"topic", event.topic}};
    if (!event.subscription.empty()) json["subscription"] = event.subscription;
    return json.dump() + "\n";
  }
  return absl::StrFormat("%s  %6d  %-13s  %s%s\n",
                         absl::FormatTime("%H:%M:%E1S", now, settings.zone),
                         static_cast<int64_t>(event.count), event.what, event.topic,
                         event.subscription.empty() ? "" : "  " + event.subscription);
}

// Prints the events until a signal comes, the server ends, or the output cannot be written.
void Follow(const Settings& settings, const ConsoleAddress& metrics, ChildServer* server,
            ConsoleServer* console, Signals* signals) {
  EventCounter counter;
  absl::Time next_record = absl::Now();
  while (signals->Wait(kRound) == 0 && !server->Look().has_value()) {
    const std::string page = FetchMetrics(metrics).value_or("");
    const absl::Time now = absl::Now();
    for (const DevEvent& event : counter.Take(page)) {
      if (!Print(EventText(settings, now, event))) return;
    }
    if (console == nullptr || now < next_record) continue;
    console->Record();
    next_record = now + History::kPeriod;
  }
}

ExitCode FailText(const Settings& settings, const absl::Status& status, ExitCode code) {
  PrintError(settings.json ? ErrorJson(status)
                           : absl::StrCat("duetime: ", std::string(status.message()), "\n"));
  return code;
}

// The server has ended by itself.
ExitCode Ended(const Settings& settings, const ChildServer& server, int code) {
  return FailText(
      settings,
      absl::UnavailableError(absl::StrCat(
          "the server ended with exit code ", code, "; the end of its log:\n", server.LastLines(),
          absl::StrContains(server.LastLines(), "Address already in use")
              ? "name another address with --listen; port 0 is any free one"
              : "the reason is above")),
      static_cast<ExitCode>(code));
}

// The server serves.
ExitCode Play(Settings settings, const DevOptions& options, const std::string& directory,
              ChildServer* server, Signals* signals) {
  const auto metrics = ReadConsoleAddress("", server->ReadyValue("metrics"));
  if (!metrics.ok()) return FailText(settings, metrics.status(), kRefused);
  const std::string grpc = server->ReadyValue("grpc");
  settings.server = {.target = TargetOf(grpc.substr(0, grpc.find(',')))};
  std::unique_ptr<ConsoleServer> console;
  absl::StatusOr<Assets> page = ReadAssets("");
  if (page.ok()) {
    auto started = ConsoleServer::Start(settings, {.listen = options.console, .metrics = *metrics},
                                        *std::move(page), signals);
    if (!started.ok()) return FailText(settings, started.status(), kRefused);
    console = *std::move(started);
  } else if (!absl::IsNotFound(page.status())) {
    return FailText(settings, page.status(), kRefused);
  }
  const Place place = {.server = settings.server.target,
                       .console = console == nullptr ? "" : console->url(),
                       .metrics = absl::StrCat("http://", metrics->Text(), "/metrics"),
                       .directory = directory,
                       .kept = !options.directory.empty(),
                       .open = options.open};
  // Nobody can use a server whose address was not written.
  if (Print(settings.json ? PlaceJson(place) : PlaceText(place))) {
    Follow(settings, *metrics, server, console.get(), signals);
  }
  console.reset();
  if (const std::optional<int> code = server->Look()) return Ended(settings, *server, *code);
  return static_cast<ExitCode>(server->Stop(signals));
}

ExitCode RunDev(const Settings& settings, const Input& input) {
  const absl::StatusOr<DevOptions> options = ReadOptions(input);
  if (!options.ok()) return FailText(settings, options.status(), kBadUsage);
  const std::string program = FindProgram("duetimed");
  if (program.empty()) {
    return FailText(settings,
                    absl::NotFoundError("there is no duetimed beside this program, nor in PATH"),
                    kNotAsWished);
  }
  // Before the child and before gRPC starts threads.
  Signals signals({SIGINT, SIGTERM, SIGHUP});
  std::optional<TemporaryDirectory> temporary;
  std::string directory = options->directory;
  if (directory.empty()) {
    temporary.emplace();
    if (temporary->path().empty()) {
      return FailText(settings,
                      absl::UnavailableError(absl::StrCat("cannot make a temporary directory: ",
                                                          std::generic_category().message(errno))),
                      kRefused);
    }
    directory = temporary->path() + "/data";
  }
  Names flags = {"--data-dir=" + directory, "--init", "--metrics-listen=127.0.0.1:0",
                 // A person waits.
                 "--drain-grace-ms=500ms"};
  for (const std::string& listen : options->listen) flags.push_back("--listen=" + listen);
  if (options->open) flags.emplace_back("--insecure-nonloopback");
  const auto server = ChildServer::Start(program, flags);
  if (!server.ok()) return FailText(settings, server.status(), kRefused);
  if (const std::optional<int> code = (*server)->WaitUntilReady(&signals)) {
    // A signal came before.
    if (*code == kDone) return kDone;
    return Ended(settings, **server, *code);
  }
  return Play(settings, *options, directory, server->get(), &signals);
}

}  // namespace

Command DevCommand() {
  return {"dev",
          "Start a server to try things on, with its console",
          "Starts the duetimed beside this program on an empty store, and the console, and prints "
          "what happens:\nhow many messages are scheduled, delivered, acked and failed, by topic "
          "and subscription. All of it ends\nwith this command, in whatever way that ends. Not for "
          "messages that matter: there are no passwords.",
          {"", "--dir /tmp/orders", "--listen 127.0.0.1:0 --console 127.0.0.1:0 --json"},
          {Row("", "--listen",
               "An address for the server, host:port or unix:/path; port 0: any free one; may be "
               "repeated (default: 127.0.0.1:7788)",
               {Type(Row::Type::kList)}),
           Row("", "--console", "The address and port of the console; port 0: any free one",
               {Default("127.0.0.1:7790")}),
           Row("", "--dir", "Keep the messages in this directory, and go on with those in it",
               {NotEmpty()}),
           Row("", "--insecure-nonloopback",
               "Let --listen and --console be addresses that other machines reach: whoever does "
               "may do everything",
               {Type(Row::Type::kFlag)})},
          {.run = RunDev},
          /*needs_server=*/false};
}

}  // namespace duetime::cli
