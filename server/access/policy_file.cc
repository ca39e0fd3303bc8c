// SPDX-License-Identifier: Apache-2.0
#include "server/access/policy_file.h"

#include <algorithm>
#include <initializer_list>
#include <openssl/sha.h>
#include <optional>
#include <toml++/toml.h>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

#include "server/base/hex.h"
#include "server/base/name_char.h"

namespace duetime::access {
namespace {

constexpr size_t kNameBytesMax = 512;
constexpr int64_t kNumberMax = int64_t{1} << 40;

std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

// Reads values and keeps the first error, with its place.
class Reader {
 public:
  explicit Reader(absl::string_view path) : path_(path) {}

  const absl::Status& status() const { return status_; }

  void Fail(const toml::source_position& at, absl::string_view text) {
    if (!status_.ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat(path_, ":", at.line, ":", at.column, ": ", text));
  }
  void Fail(const toml::node& at, absl::string_view text) { Fail(at.source().begin, text); }

  // An unknown key would be a right, or a limit, that its author believes to exist.
  void AllowKeys(const toml::table& table, std::initializer_list<absl::string_view> known) {
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        Fail(key.source().begin, absl::StrCat("unknown key \"", absl::CHexEscape(name), "\""));
      }
    }
  }

  // The tables of [[name]].
  std::vector<const toml::table*> Tables(const toml::table& root, absl::string_view name) {
    std::vector<const toml::table*> tables;
    const toml::node* const node = root.get(Std(name));
    if (node == nullptr) return tables;
    if (const toml::array* array = node->as_array()) {
      for (const toml::node& item : *array) {
        if (const toml::table* table = item.as_table()) {
          tables.push_back(table);
        } else {
          Fail(item, absl::StrCat("\"", name, "\" must be written as [[", name, "]]"));
        }
      }
    } else {
      Fail(*node, absl::StrCat("\"", name, "\" must be written as [[", name, "]]"));
    }
    return tables;
  }

  std::string Text(const toml::node& node, absl::string_view what) {
    const toml::value<std::string>* const text = node.as_string();
    if (text == nullptr || text->get().empty() || text->get().size() > kNameBytesMax) {
      Fail(node, absl::StrCat(what, " must be a text of 1 to ", kNameBytesMax, " bytes"));
      return "";
    }
    return text->get();
  }
  std::string Text(const toml::table& table, absl::string_view key) {
    const toml::node* const node = table.get(Std(key));
    return node == nullptr ? "" : Text(*node, absl::StrCat("\"", key, "\""));
  }

  std::vector<std::string> Texts(const toml::node& node, absl::string_view key) {
    std::vector<std::string> texts;
    const toml::array* const array = node.as_array();
    if (array == nullptr || array->empty()) {
      Fail(node, absl::StrCat("\"", key, "\" must be a list of texts"));
      return texts;
    }
    for (const toml::node& item : *array) {
      texts.push_back(Text(item, absl::StrCat("an item of \"", key, "\"")));
    }
    return texts;
  }
  std::vector<std::string> Texts(const toml::table& table, absl::string_view key) {
    const toml::node* const node = table.get(Std(key));
    return node == nullptr ? std::vector<std::string>{} : Texts(*node, key);
  }

  // The names of principals and groups. Refuses a name that no client can have: a rule with it
  // would be a right, or a limit, that its author believes to exist. Only "*" alone is a pattern.
  std::vector<std::string> Names(const toml::node& node, absl::string_view key) {
    std::vector<std::string> names = Texts(node, key);
    for (size_t i = 0; i < names.size() && status_.ok(); ++i) {
      const std::string& name = names[i];
      const size_t colon = name.find(':');
      const absl::string_view kind = absl::string_view(name).substr(0, colon + 1);
      const toml::node& item = *node.as_array()->get(i);
      if (name.find('*') != std::string::npos && name != "*") {
        Fail(item, absl::StrCat("no client is \"", absl::CHexEscape(name),
                                "\": names have no patterns, only \"*\" alone means every client; "
                                "use a group"));
      } else if (colon != std::string::npos &&
                 (colon + 1 == name.size() ||
                  !(kind == "jwt:" || kind == "cert:" || kind == "unix:" || kind == "group:"))) {
        Fail(item, absl::StrCat("no client is \"", absl::CHexEscape(name),
                                "\": a name with a colon is jwt:SUBJECT, cert:NAME, unix:USER or "
                                "group:NAME"));
      }
    }
    return names;
  }
  std::vector<std::string> Names(const toml::table& table, absl::string_view key) {
    const toml::node* const node = table.get(Std(key));
    return node == nullptr ? std::vector<std::string>{} : Names(*node, key);
  }

  // Patterns of topics. Refuses one with a byte that no topic's name has.
  std::vector<std::string> TopicPatterns(const toml::table& table, absl::string_view key) {
    const std::vector<std::string> patterns = Texts(table, key);
    for (size_t i = 0; i < patterns.size() && status_.ok(); ++i) {
      const bool fits = std::all_of(patterns[i].begin(), patterns[i].end(),
                                    [](char c) { return base::IsNameChar(c) || c == '*'; });
      if (fits) continue;
      Fail(
          *table.get(Std(key))->as_array()->get(i),
          absl::StrCat("no topic is named like \"", absl::CHexEscape(patterns[i]),
                       "\": names have letters, digits and . _ - : /, and * stands for any bytes"));
    }
    return patterns;
  }

  uint64_t Number(const toml::table& table, absl::string_view key, uint64_t absent,
                  int64_t min = 1) {
    const toml::node* const node = table.get(Std(key));
    if (node == nullptr) return absent;
    const toml::value<int64_t>* const number = node->as_integer();
    if (number == nullptr || number->get() < min || number->get() > kNumberMax) {
      Fail(*node,
           absl::StrCat("\"", key, "\" must be a whole number from ", min, " to ", kNumberMax));
      return absent;
    }
    return static_cast<uint64_t>(number->get());
  }

  // The milliseconds of a date with time and zone. 0 if absent.
  uint64_t Time(const toml::table& table, absl::string_view key) {
    const toml::node* const node = table.get(Std(key));
    if (node == nullptr) return 0;
    const toml::value<toml::date_time>* const value = node->as_date_time();
    if (value == nullptr || !value->get().offset.has_value()) {
      Fail(*node, absl::StrCat("\"", key, "\" must be a time such as 2027-01-01T00:00:00Z"));
      return 0;
    }
    const toml::date_time& time = value->get();
    const absl::CivilSecond civil(time.date.year, time.date.month, time.date.day, time.time.hour,
                                  time.time.minute, time.time.second);
    const absl::Time utc = absl::FromCivil(civil, absl::UTCTimeZone()) -
                           absl::Minutes(time.offset.value_or(toml::time_offset()).minutes);
    return static_cast<uint64_t>(std::max<int64_t>(1, absl::ToUnixMillis(utc)));
  }

 private:
  const std::string path_;
  absl::Status status_;
};

absl::Status ParseToml(absl::string_view text, absl::string_view path, toml::table* root) {
  try {
    *root = toml::parse(std::string_view(text.data(), text.size()));
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.source().begin.line, ":",
                                                   error.source().begin.column, ": ",
                                                   std::string(error.description())));
  }
  return absl::OkStatus();
}

void ReadGroups(const toml::table& root, Reader* reader, Policy* policy) {
  const toml::node* const node = root.get("groups");
  if (node == nullptr) return;
  const toml::table* const table = node->as_table();
  if (table == nullptr) return reader->Fail(*node, "\"groups\" must be written as [groups]");
  for (const auto& [name, members] : *table) {
    auto& group = policy->groups[std::string(name.str())];
    for (std::string& member : reader->Names(members, std::string(name.str()))) {
      if (absl::StartsWith(member, "group:") || member == "*") {
        reader->Fail(members, "a group holds principals, no groups and no *");
      }
      group.insert(std::move(member));
    }
  }
}

Rule ReadRule(const toml::table& table, Reader* reader) {
  reader->AllowKeys(table, {"who", "may", "topics"});
  Rule rule;
  rule.line = table.source().begin.line;
  rule.who = reader->Names(table, "who");
  rule.topics = reader->TopicPatterns(table, "topics");
  bool needs_topics = false;
  const std::vector<std::string> verbs = reader->Texts(table, "may");
  for (const std::string& name : verbs) {
    const std::optional<Verb> verb = ParseVerb(name);
    if (!verb.has_value()) {
      reader->Fail(*table.get("may"),
                   absl::StrCat("unknown verb \"", absl::CHexEscape(name), "\""));
      break;
    }
    rule.may.Add(*verb);
    needs_topics = needs_topics || *verb != Verb::kOperate;
  }
  if (rule.who.empty()) reader->Fail(table, "a rule needs \"who\"");
  if (verbs.empty()) reader->Fail(table, "a rule needs \"may\"");
  if (needs_topics && rule.topics.empty()) reader->Fail(table, "a rule needs \"topics\"");
  return rule;
}

Quota ReadQuota(const toml::table& table, Reader* reader) {
  reader->AllowKeys(table, {"who", "topics", "messages_per_second", "bytes_per_second",
                            "pending_messages", "pending_bytes", "streams", "calls_in_flight"});
  Quota quota;
  quota.line = table.source().begin.line;
  quota.who = reader->Names(table, "who");
  quota.topics = reader->TopicPatterns(table, "topics");
  quota.messages_per_second = reader->Number(table, "messages_per_second", 0);
  quota.bytes_per_second = reader->Number(table, "bytes_per_second", 0);
  quota.pending_messages = reader->Number(table, "pending_messages", 0);
  quota.pending_bytes = reader->Number(table, "pending_bytes", 0);
  quota.streams = reader->Number(table, "streams", 0);
  quota.calls_in_flight = reader->Number(table, "calls_in_flight", 0);
  if (quota.who.empty() == quota.topics.empty()) {
    reader->Fail(table, "a quota has either \"who\" or \"topics\"");
  }
  if (quota.who.empty() && (quota.streams != 0 || quota.calls_in_flight != 0)) {
    reader->Fail(table, "\"streams\" and \"calls_in_flight\" are limits of principals");
  }
  return quota;
}

void ReadJwt(const toml::table& root, Reader* reader, Policy* policy) {
  const toml::node* const node = root.get("jwt");
  if (node == nullptr) return;
  const toml::table* const table = node->as_table();
  if (table == nullptr) return reader->Fail(*node, "\"jwt\" must be written as [jwt]");
  reader->AllowKeys(*table, {"keys", "issuer", "audience", "groups_claim", "clock_skew_seconds"});
  JwtSettings& jwt = policy->jwt;
  jwt.keys = reader->Text(*table, "keys");
  jwt.issuer = reader->Text(*table, "issuer");
  jwt.audience = reader->Text(*table, "audience");
  if (table->contains("groups_claim")) jwt.groups_claim = reader->Text(*table, "groups_claim");
  constexpr uint64_t kMillis = 1'000;
  jwt.clock_skew_ms =
      kMillis * reader->Number(*table, "clock_skew_seconds", jwt.clock_skew_ms / kMillis, 0);
  // Without them, a token that was made for another service would be valid here.
  if (jwt.keys.empty() || jwt.issuer.empty() || jwt.audience.empty()) {
    reader->Fail(*table, "[jwt] needs \"keys\", \"issuer\" and \"audience\"");
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Policy>> ParsePolicy(absl::string_view text,
                                                          absl::string_view path) {
  toml::table root;
  if (absl::Status status = ParseToml(text, path, &root); !status.ok()) return status;
  auto policy = std::make_shared<Policy>();
  Reader reader(path);
  reader.AllowKeys(root, {"groups", "rule", "quota", "jwt"});
  ReadGroups(root, &reader, policy.get());
  for (const toml::table* const table : reader.Tables(root, "rule")) {
    policy->rules.push_back(ReadRule(*table, &reader));
  }
  for (const toml::table* const table : reader.Tables(root, "quota")) {
    policy->quotas.push_back(ReadQuota(*table, &reader));
  }
  ReadJwt(root, &reader, policy.get());
  if (!reader.status().ok()) return reader.status();
  return policy;
}

TokenHash HashToken(absl::string_view token) {
  TokenHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

absl::StatusOr<std::shared_ptr<const TokenTable>> ParseTokens(absl::string_view text,
                                                              absl::string_view path) {
  toml::table root;
  if (absl::Status status = ParseToml(text, path, &root); !status.ok()) return status;
  auto tokens = std::make_shared<TokenTable>();
  Reader reader(path);
  reader.AllowKeys(root, {"token"});
  for (const toml::table* const table : reader.Tables(root, "token")) {
    reader.AllowKeys(*table, {"name", "id", "sha256", "groups", "expires", "created"});
    Identity identity;
    identity.principal = reader.Text(*table, "name");
    identity.groups = reader.Texts(*table, "groups");
    identity.expires_ms = reader.Time(*table, "expires");
    // A colon would let a token take the name of a certificate, a JWT or a Unix user.
    if (identity.principal.empty() || identity.anonymous() ||
        identity.principal.find_first_of(":*") != std::string::npos) {
      reader.Fail(*table, "a token needs a \"name\" without : and *, other than \"anonymous\"");
    }
    TokenHash hash;
    const std::string digits = reader.Text(*table, "sha256");
    const bool lower = absl::AsciiStrToLower(digits) == digits;
    const std::optional<std::string> bytes = base::HexToBytes(digits);
    if (!lower || !bytes.has_value() || bytes->size() != hash.size()) {
      reader.Fail(*table, "a token needs \"sha256\", 64 hexadecimal digits in lower case");
      continue;
    }
    std::copy(bytes->begin(), bytes->end(), hash.begin());
    tokens->insert_or_assign(hash, std::move(identity));
  }
  if (!reader.status().ok()) return reader.status();
  return tokens;
}

}  // namespace duetime::access
