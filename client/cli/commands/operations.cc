// SPDX-License-Identifier: Apache-2.0
//
// Operations on many messages, and the commands for dead letters, which use such operations.
#include <poll.h>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/terminal/signals.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/error.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;
using client::FromProto;

// The pause between two polls of an operation.
constexpr int kBetweenPollsMs = 200;
constexpr size_t kReasonBytes = 60;
// The most dead letters whose origins are looked at.
constexpr int kLettersMax = 1'000;

// ---- Operations

std::string NameText(const v1::Operation& operation, const absl::TimeZone&) {
  return operation.dry_run() ? "a dry run: nothing is changed" : operation.name();
}

std::string ActionText(const v1::Operation& operation, const absl::TimeZone&) {
  std::string text = WordOf(operation.action());
  if (operation.has_shift_by()) {
    const absl::Duration by = FromProto(operation.shift_by());
    absl::StrAppend(&text, " by ", by > absl::ZeroDuration() ? "+" : "", FormatDurationText(by));
  }
  return text;
}

std::string FilterText(const v1::Operation& operation, const absl::TimeZone& zone) {
  Names parts;
  for (const auto& [field, word] : {std::pair{"key_prefix", "key prefix "},
                                    {"labels", "labels "},
                                    {"start_time", "from "},
                                    {"end_time", "to "},
                                    {"message_id", "id "}}) {
    const std::string value = ValueText(Row(field, {}), operation.filter(), "", zone);
    if (!value.empty()) parts.push_back(word + value);
  }
  return absl::StrJoin(parts, ", ");
}

std::string ProgressText(const v1::Operation& operation, const absl::TimeZone& zone) {
  if (operation.state() != v1::Operation::STATE_RUNNING) return "";
  return ValueText(Row("progress_time", {}), operation, "", zone);
}

std::string ChangedText(const v1::Operation& operation, const absl::TimeZone&) {
  return operation.dry_run() ? "" : absl::StrCat(operation.changed());
}

std::string UnchangedText(const v1::Operation& operation, const absl::TimeZone&) {
  return operation.dry_run() ? "" : absl::StrCat(operation.unchanged());
}

std::string MissingPlacesText(const v1::Operation& operation, const absl::TimeZone&) {
  return absl::StrJoin(operation.missing_places(), "; ");
}

std::string OperationErrorText(const v1::Operation& operation, const absl::TimeZone&) {
  return Printable(operation.error().message(), kShownBytesMax);
}

Rows OperationRows() {
  return {Row("name", {As(NameText), Line("operation")}),
          Row("name", {Column("NAME")}),
          Row("topic", {Line("topic"), Column("TOPIC")}),
          Row("filter", {As(FilterText), Line("messages", "all messages")}),
          Row("action", {As(ActionText), Line("action"), Column("ACTION")}),
          Row("state", {Line("state"), Column("STATE")}),
          Row("create_time", {Line("started")}),
          Row("end_time", {Line("ended")}),
          Row("missing_places", {As(MissingPlacesText), Line("missing in")}),
          Row("progress_time", {As(ProgressText), Line("decided up to")}),
          Row("matched", {Line("matched"), Column("MATCHED")}),
          Row("changed", {As(ChangedText), Line("changed")}),
          Row("changed", {Column("CHANGED")}),
          Row("unchanged", {As(UnchangedText), Line("left alone")}),
          Row("error", {As(OperationErrorText), Line("error")}),
          Row("create_time", {Column("STARTED")})};
}

std::string OperationText(const v1::Operation& operation, const absl::TimeZone& zone) {
  std::string text = LinesText(OperationRows(), operation, zone);
  if (!operation.sample().empty()) {
    absl::StrAppend(&text, "\nsome of them\n", TableText(MessageRows(), operation.sample(), zone));
  }
  return text;
}

// An operation on one message must have it in its filter: a server that does not know such filters
// would take all messages. NOT_FOUND without a reason if no message matches.
absl::Status CheckOne(const v1::StartBulkRequest& request, const v1::Operation& operation) {
  const std::string& id = request.filter().message_id();
  if (operation.filter().message_id() != id) {
    return absl::FailedPreconditionError(
        "the server is older than --id, and would take all messages");
  }
  if (operation.matched() > 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("no pending message ", id, " of ", request.topic(), " matches"));
}

// As Fail, and kNotAsWished for a NOT_FOUND of CheckOne or CheckLetter.
ExitCode FailOne(const Settings& settings, const absl::Status& error) {
  const ExitCode code = Fail(settings, error);
  const bool own = client::GetErrorInfo(error).reason.empty();
  return own && absl::IsNotFound(error) ? kNotAsWished : code;
}

// True if the request repeats one that began an operation, whose message may have ended since.
bool Repeats(const v1::StartBulkRequest& request, AdminClient* client) {
  v1::GetOperationRequest get;
  get.set_name(request.name());
  return !request.name().empty() && client->GetOperation(get).ok();
}

// Sets `ended`, if it is not null, to the operation as it is at the end.
ExitCode RunBulk(const Settings& settings, const Input& input, const v1::StartBulkRequest& request,
                 AdminClient* client, v1::Operation* ended = nullptr) {
  if (!request.filter().message_id().empty() && !Repeats(request, client)) {
    v1::StartBulkRequest count = request;
    count.clear_name();
    count.set_dry_run(true);
    const absl::StatusOr<v1::Operation> counted = client->StartBulk(count);
    const absl::Status one = counted.ok() ? CheckOne(request, *counted) : counted.status();
    if (!one.ok()) return FailOne(settings, one);
  }
  absl::StatusOr<v1::Operation> operation = client->StartBulk(request);
  if (operation.ok() && input.Has("--wait")) {
    operation = WaitForEnd(settings, client, *std::move(operation));
  }
  const ExitCode shown = Show(settings, operation, [&](const v1::Operation& answer) {
    return OperationText(answer, settings.zone);
  });
  if (shown != kDone) return shown;
  if (ended != nullptr) *ended = *operation;
  if (operation->state() == v1::Operation::STATE_RUNNING && !settings.json) {
    Print(
        absl::StrCat("\nthe server goes on in the background; to see the progress: duetime bulk "
                     "get ",
                     operation->name(), "\n"));
  }
  const bool starting = operation->state() == v1::Operation::STATE_STARTING;
  if (starting && !settings.json) {
    Print(absl::StrCat("\nthe start did not reach all places; repeat the command with --name ",
                       operation->name(), "\n"));
  }
  const bool failed = starting || operation->state() == v1::Operation::STATE_FAILED ||
                      operation->state() == v1::Operation::STATE_STOPPED;
  return failed ? kNotAsWished : kDone;
}

// The options of commands that work on many messages. `all_help` is the help text of --all.
Rows BulkRows(const std::string& all_help) {
  return Join({OptionsBelow("filter", FilterRows()),
               {Row("filter.message_id", "--id", "Only the message with this id", {NotEmpty()}),
                Row("", "--all", all_help, {Type(Row::Type::kFlag)}), DryRunRow(), WaitRow(),
                Row("name", "--name",
                    "A name for the operation, so that repeating the command is safe (default: a "
                    "random one)")}});
}

// Refuses a command without a filter: a forgotten option must not end all messages of a topic.
absl::Status CheckFilter(Input* input) {
  const auto& request = input->As<v1::StartBulkRequest>();
  const bool has_filter = request.filter().ByteSizeLong() > 0;
  const bool all = input->Has("--all");
  if (has_filter && all) {
    return absl::InvalidArgumentError("--all and a filter contradict each other");
  }
  if (has_filter || all || request.dry_run()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "say which messages (--key-prefix, --label, --from, --to, --id), or --all for the whole "
      "topic");
}

Command BulkCommand(const std::string& verb, v1::BulkAction action, const std::string& help,
                    const Names& examples, const Rows& more = {}) {
  return {"bulk " + verb,
          help,
          "",
          examples,
          Join({{Row("topic", "TOPIC", "The topic", {Required()})},
                BulkRows("All messages of the topic, instead of a filter"),
                more}),
          StartBulk(action).After(CheckFilter)};
}

// ---- Dead letters

struct DeadLetterTopic {
  std::string name;
  // True if the original topic exists. If the dead-letter topic then does not exist, the original
  // topic has no dead letters.
  bool origin_exists = false;
};

absl::StatusOr<DeadLetterTopic> FindDeadLetters(AdminClient* client, const Input& input) {
  const std::string name = input.Text("TOPIC");
  if (const std::string own = input.Text("--dead-letter-topic"); !own.empty()) {
    return DeadLetterTopic{.name = own};
  }
  if (const std::string reader = input.Text("-s,--subscription"); !reader.empty()) {
    v1::GetSubscriptionRequest request;
    request.set_topic(name);
    request.set_name(reader);
    const absl::StatusOr<v1::Subscription> subscription = client->GetSubscription(request);
    if (!subscription.ok()) return subscription.status();
    const std::string& own = subscription->settings().dead_letter_topic();
    if (!own.empty()) return DeadLetterTopic{.name = own, .origin_exists = true};
  }
  v1::GetTopicRequest request;
  request.set_name(name);
  const absl::StatusOr<v1::Topic> topic = client->GetTopic(request);
  // Dead letters outlive their topic.
  if (!topic.ok() && !absl::IsNotFound(topic.status())) return topic.status();
  const std::string named = topic.ok() ? topic->settings().dead_letter_topic() : "";
  return DeadLetterTopic{.name = named.empty() ? name + ".dlq" : named,
                         .origin_exists = topic.ok()};
}

std::string DeadLetterReasonText(const v1::Message& message, const absl::TimeZone&) {
  // A dead-letter topic may hold other messages.
  if (!message.has_dead_letter()) return "(no dead letter)";
  const v1::DeadLetter& letter = message.dead_letter();
  const std::string reason = WordOf(letter.reason());
  if (letter.reason_text().empty()) return reason;
  return absl::StrCat(reason, ": ", Printable(letter.reason_text(), kReasonBytes));
}

Rows DeadLetterRows() {
  return {Row("accept_time", {Column("SINCE")}),
          Row("id", {Column("ID")}),
          Row("dead_letter.subscription", {Column("SUBSCRIPTION")}),
          Row("dead_letter.attempts", {Column("ATTEMPTS", "0")}),
          Row("dead_letter.message_id", {Column("WAS")}),
          Row("dead_letter.key", {Column("KEY")}),
          Row("dead_letter.reason", {As(DeadLetterReasonText), Column("REASON")})};
}

ExitCode ListDeadLetters(const Settings& settings, const Input& input, v1::ListRequest request,
                         AdminClient* admin) {
  const absl::StatusOr<DeadLetterTopic> topic = FindDeadLetters(admin, input);
  if (!topic.ok()) return Fail(settings, topic.status());
  request.set_topic(topic->name);
  return With<Client>(settings, [&](Client* client) {
    return ShowPages(settings, request, input.Has("--all"), DeadLetterRows(),
                     [&](const v1::ListRequest& page) -> absl::StatusOr<v1::ListResponse> {
                       absl::StatusOr<v1::ListResponse> answer = client->List(page);
                       const bool none = absl::IsNotFound(answer.status()) && topic->origin_exists;
                       return none ? v1::ListResponse() : answer;
                     });
  });
}

// FAILED_PRECONDITION if the message is no dead letter of the topic; NOT_FOUND if it has ended.
absl::Status CheckLetter(const std::string& id, const std::string& topic, Client* client) {
  const auto found = client->Get(client::Target::Id(id));
  if (!found.ok()) return found.status();
  const v1::Message& letter = found->message();
  const bool pending = letter.state() == v1::Message::STATE_SCHEDULED ||
                       letter.state() == v1::Message::STATE_DUE ||
                       letter.state() == v1::Message::STATE_IN_FLIGHT;
  if (letter.topic() != topic || (pending && !letter.has_dead_letter())) {
    return absl::FailedPreconditionError(absl::StrCat(id, " is no dead letter of ", topic));
  }
  if (pending) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("the message ", id, " has ended: ", EndedWord(letter.state())));
}

// Some of the messages that the request selects, to tell where they came from.
absl::StatusOr<v1::ListResponse> FirstLetters(const v1::StartBulkRequest& request, Client* client) {
  const v1::BulkFilter& filter = request.filter();
  if (!filter.message_id().empty()) {
    const auto found = client->Get(client::Target::Id(filter.message_id()));
    if (!found.ok()) return found.status();
    v1::ListResponse one;
    *one.add_messages() = found->message();
    return one;
  }
  v1::ListRequest list;
  list.set_topic(request.topic());
  *list.mutable_labels() = filter.labels();
  if (filter.has_start_time()) *list.mutable_start_time() = filter.start_time();
  if (filter.has_end_time()) *list.mutable_end_time() = filter.end_time();
  list.set_page_size(kLettersMax);
  return client->List(list);
}

// Why the topics from which the first dead letters came take nothing back: they are full, or, after
// the redrive, they are not there. `all`: these are the topics of all dead letters.
absl::StatusOr<Names> ClosedOrigins(const v1::StartBulkRequest& request, bool after, Client* client,
                                    AdminClient* admin, bool* all) {
  const absl::StatusOr<v1::ListResponse> page = FirstLetters(request, client);
  if (!page.ok()) return page.status();
  std::set<std::string> origins;
  for (const v1::Message& letter : page->messages()) {
    if (letter.has_dead_letter()) origins.insert(letter.dead_letter().topic());
  }
  Names closed;
  for (const std::string& origin : origins) {
    v1::GetTopicRequest get;
    get.set_name(origin);
    const absl::StatusOr<v1::Topic> topic = admin->GetTopic(get);
    if (absl::IsNotFound(topic.status())) {
      // While the server knows the name of a deleted topic, a redrive creates the topic.
      if (after) {
        closed.push_back(absl::StrCat("there is no topic ", origin,
                                      "; create it by duetime topic create ", origin,
                                      ", then redrive again"));
      }
      continue;
    }
    if (!topic.ok()) return topic.status();
    const int64_t max = topic->settings().max_pending();
    if (max == 0 || topic->counts().pending() < max) continue;
    closed.push_back(absl::StrCat("the topic ", origin, " is full: ", topic->counts().pending(),
                                  " of max_pending ", max, "; raise it by duetime topic update ",
                                  origin, " --max-pending N"));
  }
  *all = !closed.empty() && closed.size() == origins.size() && page->next_page_token().empty();
  return closed;
}

// As RunBulk, and says why dead letters stay.
ExitCode Redrive(const Settings& settings, const Input& input, const v1::StartBulkRequest& request,
                 Client* client, AdminClient* admin) {
  bool all = false;
  absl::StatusOr<Names> closed = ClosedOrigins(request, /*after=*/false, client, admin, &all);
  // An error is ignored, because `closed` only explains the result: a client may redrive without
  // the right to read these topics. In the common case every topic has no limit, or has room.
  const bool had_room = !closed.ok() || closed->empty();
  if (all && !input.Has("--wait") && !request.dry_run()) {
    return Fail(settings, absl::ResourceExhaustedError(absl::StrCat(
                              "nothing was sent back, because ", absl::StrJoin(*closed, "; "))));
  }
  v1::Operation operation;
  const ExitCode code = RunBulk(settings, input, request, admin, &operation);
  const int64_t stay = operation.unchanged();
  if (code != kDone || stay == 0 || request.dry_run()) return code;
  if (had_room) closed = ClosedOrigins(request, /*after=*/true, client, admin, &all);
  const std::string letters =
      stay == 1 ? "1 dead letter stays" : absl::StrCat(stay, " dead letters stay");
  if (closed.ok() && !closed->empty()) {
    PrintError(absl::StrCat(letters, ", because ", absl::StrJoin(*closed, "; "), "\n"));
    return kRefused;
  }
  if (operation.changed() > 0 || operation.state() != v1::Operation::STATE_DONE) return code;
  PrintError(absl::StrCat(letters, stay == 1 ? ": it was in flight, had ended, or is none\n"
                                             : ": they were in flight, had ended, or are none\n"));
  return kRefused;
}

ExitCode ChangeDeadLetters(const Settings& settings, const Input& input,
                           v1::StartBulkRequest request, AdminClient* admin) {
  const absl::StatusOr<DeadLetterTopic> topic = FindDeadLetters(admin, input);
  if (!topic.ok()) return Fail(settings, topic.status());
  request.set_topic(topic->name);
  return With<Client>(settings, [&](Client* client) {
    const std::string& id = request.filter().message_id();
    if (!id.empty() && !Repeats(request, admin)) {
      const absl::Status checked = CheckLetter(id, request.topic(), client);
      if (!checked.ok()) return FailOne(settings, checked);
    }
    return request.action() == v1::BULK_ACTION_REDRIVE
               ? Redrive(settings, input, request, client, admin)
               : RunBulk(settings, input, request, admin);
  });
}

Rows DeadLetterTopicRows() {
  return {Row("", "TOPIC", "The topic of the messages", {Required()}),
          Row("", "-s,--subscription",
              "Look in the dead-letter topic of this subscription, if it has its own"),
          Row("", "--dead-letter-topic",
              "Look in this topic (default: the one in the settings of TOPIC, else TOPIC.dlq)",
              {Excludes({"-s,--subscription"})})};
}

Command DeadLetterCommand(const std::string& verb, v1::BulkAction action, const std::string& help) {
  return {"dlq " + verb,
          help,
          "",
          {"orders --label customer=42 --dry-run", "orders --all --wait",
           "orders --id 0g1yay0000000000g9r8cwx3v4 --wait"},
          Join({DeadLetterTopicRows(), BulkRows("All dead letters, instead of a filter")}),
          Do<AdminClient, v1::StartBulkRequest>(ChangeDeadLetters)
              .After([action](Input* input) {
                input->Mutable<v1::StartBulkRequest>()->set_action(action);
              })
              .After(CheckFilter)};
}

}  // namespace

absl::StatusOr<v1::Operation> WaitForEnd(const Settings& settings, AdminClient* client,
                                         v1::Operation operation) {
  const std::string name = operation.name();
  const LastLine last_line(settings, [&name] {
    return absl::StrCat("interrupted; the server goes on. To see the progress: duetime bulk get ",
                        name, "; to end it: duetime bulk stop ", name);
  });
  Progress progress(settings);
  v1::GetOperationRequest request;
  request.set_name(name);
  while (operation.state() == v1::Operation::STATE_RUNNING) {
    progress.Show(
        absl::StrCat(operation.matched(), " matched, ", operation.changed(), " changed so far"));
    poll(nullptr, 0, kBetweenPollsMs);
    absl::StatusOr<v1::Operation> now = client->GetOperation(request);
    if (!now.ok()) return now.status();
    operation = *std::move(now);
  }
  return operation;
}

Rows FilterRows() {
  return {Row("key_prefix", "--key-prefix", "Only messages whose key begins with this"),
          Row("labels", "--label", "Only messages with this label; may be repeated"),
          Row("start_time", "--from",
              "Only messages due at or after this: \"2026-12-24 18:00\", now, +2h or -1h"),
          Row("end_time", "--to", "Only messages due before this")};
}

Row DryRunRow() {
  return Row("dry_run", "--dry-run", "Count the messages and show some of them; change nothing");
}

Row WaitRow() {
  return Row("", "--wait", "Wait until the operation has ended", {Type(Row::Type::kFlag)});
}

Action StartBulk(v1::BulkAction action) {
  return Do<AdminClient, v1::StartBulkRequest>(
             [](const Settings& settings, const Input& input, const v1::StartBulkRequest& request,
                AdminClient* client) { return RunBulk(settings, input, request, client); })
      .After(
          [action](Input* input) { input->Mutable<v1::StartBulkRequest>()->set_action(action); });
}

Commands OperationCommands() {
  const Rows name = {
      Row("name", "OPERATION", "The name that the start of the operation printed", {Required()})};
  return {
      {"bulk",
       "Change all messages of a topic that match a filter",
       "The server works in the background and continues after a restart. First look what would "
       "change.\nEach command has its own help: duetime bulk cancel --help",
       {"cancel orders --label customer=42 --dry-run", "cancel orders --label customer=42 --wait"}},
      BulkCommand("cancel", v1::BULK_ACTION_CANCEL, "Cancel them, except those in flight",
                  {"orders --label customer=42 --dry-run", "orders --key-prefix order-17/ --wait"}),
      BulkCommand("shift", v1::BULK_ACTION_SHIFT, "Move them all by the same length of time",
                  {"orders --by 1h --from now --to +1d", "orders --by -15m --all"},
                  {Row("shift_by", "--by", "How much later: 1h30m; or earlier: -15m",
                       {Signed(), NotEmpty(), Required()})}),
      BulkCommand("release", v1::BULK_ACTION_RELEASE, "Make them due now",
                  {"orders --label campaign=spring"}),
      BulkCommand("purge", v1::BULK_ACTION_PURGE, "End them all, also those in flight",
                  {"orders --all --dry-run", "orders --all --wait"}),
      BulkCommand("redrive", v1::BULK_ACTION_REDRIVE,
                  "Send dead letters back to the topics they came from (see duetime dlq)",
                  {"orders.dlq --all --wait"}),
      {"bulk list",
       "List operations: those that run, and those that ended within a day",
       "",
       {"orders"},
       Join({{Row("topic", "TOPIC", "Only operations on this topic")}, PageRows()}),
       Pages(&AdminClient::ListOperations, OperationRows())},
      {"bulk get",
       "Show the progress of an operation",
       "",
       {"cleanup-7"},
       name,
       Call(&AdminClient::GetOperation, OperationText)},
      {"bulk stop",
       "Stop an operation; its changes so far stay",
       "",
       {"cleanup-7"},
       name,
       Call(&AdminClient::CancelOperation, OperationText)},
      {"dlq",
       "Manage dead letters: messages that failed too often or were given up",
       "Dead letters are messages of a topic of their own, so every command for messages works on "
       "them. Look at\nthem, repair the cause, and send them back.\nEach command has its own "
       "help: duetime dlq redrive --help",
       {"list orders", "redrive orders --all --wait"}},
      {"dlq list",
       "List dead letters, with their origin and reason",
       "To see all of one dead letter: duetime get ID --full",
       {"orders", "orders --label customer=42 --from -1h --all --json"},
       Join({DeadLetterTopicRows(), FilterRows(), PageRows()}),
       Do<AdminClient, v1::ListRequest>(ListDeadLetters)},
      DeadLetterCommand("redrive", v1::BULK_ACTION_REDRIVE,
                        "Send them back: each becomes a new message of its topic, due now"),
      DeadLetterCommand("purge", v1::BULK_ACTION_PURGE, "End them all, also those in flight"),
  };
}

}  // namespace duetime::cli
