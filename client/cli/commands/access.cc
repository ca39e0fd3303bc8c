// SPDX-License-Identifier: Apache-2.0
//
// The commands for access: may a client do this, and the tokens of a token file.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/commands/commands.h"
#include "client/cli/connection/token_file.h"
#include "client/cli/sha256.h"
#include "client/cli/show.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using client::AdminClient;

constexpr char kMe[] = "me";
constexpr size_t kIdBytes = 8;
// The server refuses a file with a longer one.
constexpr size_t kNameBytesMax = 512;

Words VerbWords() {
  return {
      {"schedule", v1::ACCESS_VERB_SCHEDULE},   {"cancel", v1::ACCESS_VERB_CANCEL},
      {"read", v1::ACCESS_VERB_READ},           {"read_payloads", v1::ACCESS_VERB_READ_PAYLOADS},
      {"subscribe", v1::ACCESS_VERB_SUBSCRIBE}, {"admin", v1::ACCESS_VERB_ADMIN},
      {"operate", v1::ACCESS_VERB_OPERATE}};
}

std::string QuotaText(absl::string_view name, int64_t limit, const std::string& use) {
  return limit == 0 ? "" : absl::StrCat("  ", name, " ", limit, use, "\n");
}

std::string CanText(const v1::CheckAccessResponse& answer) {
  std::string text = absl::StrCat(answer.explanation(), "\n");
  if (!answer.has_quota()) return text;
  const v1::AccessQuota& quota = answer.quota();
  return absl::StrCat(
      text, "quota\n", QuotaText("messages_per_second", quota.messages_per_second(), ""),
      QuotaText("bytes_per_second", quota.bytes_per_second(), ""),
      QuotaText("pending_messages", quota.pending_messages(),
                absl::StrCat(", ", quota.now_pending_messages(), " pending")),
      QuotaText("pending_bytes", quota.pending_bytes(),
                absl::StrCat(", ", quota.now_pending_bytes(), " pending")),
      QuotaText("streams", quota.streams(), absl::StrCat(", ", quota.open_streams(), " open")),
      QuotaText("calls_in_flight", quota.calls_in_flight(),
                absl::StrCat(", ", quota.open_calls(), " open")));
}

ExitCode Can(const Settings& settings, const v1::CheckAccessRequest& asked, AdminClient* client) {
  v1::CheckAccessRequest request = asked;
  if (request.principal() == kMe) request.clear_principal();
  const auto answer = client->CheckAccess(request);
  const ExitCode shown = Show(settings, answer, CanText);
  return shown == kDone && !answer->allowed() ? kNotAsWished : shown;
}

// ---- Tokens

std::string ExpiresText(const Token& token, const absl::TimeZone& zone) {
  return token.has_expires() ? FormatTimeText(client::FromProto(token.expires()), zone) : "never";
}

std::string GroupsText(const Token& token, const absl::TimeZone&) {
  return absl::StrJoin(token.groups(), ",");
}

Rows TokenRows() {
  return {Row("id", {Column("ID")}), Row("name", {Column("NAME")}),
          Row("groups", {As(GroupsText), Column("GROUPS")}), Row("created", {Column("CREATED")}),
          Row("expires", {As(ExpiresText), Column("EXPIRES")})};
}

Row FileRow() {
  return Row("", "--file", "The token file: the server's knob tokens_file",
             {Required(), NotEmpty()});
}

Row GroupRow(const std::string& help) { return Row("", "--group", help, {Type(Row::Type::kList)}); }

template <typename Request>
void TakeGroups(Input* input) {
  for (const std::string& group : input->List("--group")) {
    input->Mutable<Request>()->add_groups(group);
  }
}

ExitCode CreateToken(const Settings& settings, const Input& input) {
  const std::string path = input.Text("--file");
  const auto lock = LockTokenFile(path);
  if (!lock.ok()) return Fail(settings, lock.status());
  absl::StatusOr<TokenFile> file = ReadTokenFile(path);
  if (!file.ok()) return Fail(settings, file.status());
  const std::string text = NewTokenText();
  if (text.empty()) return Fail(settings, absl::InternalError("no random numbers"));
  Token token = input.As<Token>();
  token.set_sha256(Sha256(text));
  token.set_id(token.sha256().substr(0, kIdBytes));
  *token.mutable_created() = client::ToProto(absl::Now());
  *file->add_tokens() = token;
  // Print first: if that fails, the file must not hold a valid token that nobody knows.
  if (!Print(absl::StrCat(text, "\n"))) return kNotWritten;
  if (const absl::Status status = WriteTokenFile(path, *file); !status.ok()) {
    return Fail(settings, status);
  }
  PrintError(absl::StrCat("token ", token.id(), " of ", token.name(),
                          "; it is shown this once, and the file holds only its hash\n"));
  return kDone;
}

ExitCode ListTokens(const Settings& settings, const Input& input) {
  const absl::StatusOr<TokenFile> file = ReadTokenFile(input.Text("--file"));
  if (!file.ok()) return Fail(settings, file.status());
  ShowPage(settings, *file, TokenRows(), /*first=*/true);
  ShowEndOfPages(settings, TokenFile(), "", file->tokens().empty());
  return kDone;
}

ExitCode RevokeToken(const Settings& settings, const Input& input) {
  const std::string path = input.Text("--file");
  const std::string id = input.Text("ID");
  const auto lock = LockTokenFile(path);
  if (!lock.ok()) return Fail(settings, lock.status());
  absl::StatusOr<TokenFile> file = ReadTokenFile(path);
  if (!file.ok()) return Fail(settings, file.status());
  auto* tokens = file->mutable_tokens();
  const auto revoked = std::remove_if(tokens->begin(), tokens->end(),
                                      [&](const Token& token) { return token.id() == id; });
  if (revoked == tokens->end()) {
    Fail(settings, absl::NotFoundError(absl::StrCat("there is no token ", id, " in ", path)));
    return kNotAsWished;
  }
  tokens->erase(revoked, tokens->end());
  if (const absl::Status status = WriteTokenFile(path, *file); !status.ok()) {
    return Fail(settings, status);
  }
  if (!settings.json) Print(absl::StrCat("token ", id, " is revoked\n"));
  return kDone;
}

absl::Status CheckName(Input* input) {
  const std::string& name = input->As<Token>().name();
  if (name.size() > kNameBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a name has at most ", kNameBytesMax, " bytes"));
  }
  if (name == "anonymous" || name.find_first_of(":*") != std::string::npos) {
    return absl::InvalidArgumentError("a name has no : and no *, and is not \"anonymous\"");
  }
  return absl::OkStatus();
}

}  // namespace

Commands AccessCommands() {
  const Action create = {.request = &Token::default_instance(), .run = CreateToken};
  Commands commands = {
      {"access",
       "Show what a client may do, and why",
       "The rules are in the server's access_file. Each command has its own help: duetime access "
       "can --help",
       {"can alice cancel orders"}},
      {"access can",
       "Tell whether a client may do something, and which rule allows it",
       "The exit code is 0 if it may, 3 if not. To ask about another client than \"me\" needs the "
       "right to operate.",
       {"alice cancel orders", "me subscribe orders", "jwt:billing admin orders --group jwt:ops"},
       {Row("principal", "CLIENT",
            "A token's name, jwt:SUBJECT, cert:NAME, unix:USER, anonymous, or me",
            {Required(), NotEmpty()}),
        Row("verb", "VERB", "The action", {Required(), OneOf(VerbWords())}),
        Row("topic", "TOPIC", "The topic; it need not exist"),
        GroupRow(
            "A group of the client's credential (default: those of the tokens of this name); may "
            "be given several times")},
       Do<AdminClient, v1::CheckAccessRequest>([](const Settings& settings, const Input&,
                                                  const v1::CheckAccessRequest& request,
                                                  AdminClient* client) {
         return Can(settings, request, client);
       }).After(TakeGroups<v1::CheckAccessRequest>)},
      {"token",
       "Make, list and revoke the tokens of a token file",
       "The server reads the file again within a second. For rotation, make a second token of the "
       "same name, give it to the\nclients, and revoke the first one.\nEach command has its own "
       "help: duetime token create --help",
       {"create orders-service --file /etc/duetime/tokens.toml --expires +90d",
        "list --file /etc/duetime/tokens.toml"}},
      {"token create",
       "Make a token and print it",
       "Clients send it as \"authorization: Bearer TOKEN\"; the tool reads it from --token-file.",
       {"orders-service --file /etc/duetime/tokens.toml --group payments --expires +90d > token"},
       {Row("name", "NAME", "The principal, as rules name it", {Required(), NotEmpty()}), FileRow(),
        GroupRow("A group of the principal; may be given several times"),
        Row("expires", "--expires", "When the token ends (default: never)")},
       create.After(CheckName).After(TakeGroups<Token>)},
      {"token list",
       "List the tokens of a file",
       "",
       {"--file tokens.toml"},
       {FileRow()},
       {.run = ListTokens}},
      {"token revoke",
       "Remove a token from the file",
       "",
       {"3f2a90c1 --file tokens.toml"},
       {Row("", "ID", "The id that token list shows", {Required(), NotEmpty()}), FileRow()},
       {.run = RevokeToken}},
  };
  for (Command& command : commands) command.needs_server = command.words == "access can";
  return commands;
}

}  // namespace duetime::cli
