// SPDX-License-Identifier: Apache-2.0
//
// Policy: the rules of an access file, and the decisions that follow from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

#include "server/access/verb.h"

namespace duetime::access {

// True if `pattern` matches all of `text`. A * in the pattern matches any bytes, also none. Cost:
// O(bytes of both), and with several stars their product at most.
bool Matches(absl::string_view pattern, absl::string_view text);

// The client of a call, as its credentials prove it.
struct Identity {
  // The name in logs and errors: "NAME" of a token, "jwt:SUBJECT", "cert:NAME", "unix:USER", or
  // "anonymous".
  std::string principal = "anonymous";
  // Other names of the same client, which rules may use too: the other names of a certificate, the
  // number of a Unix user.
  std::vector<std::string> aliases = {};
  // The groups that the credential names. Those of a JWT begin with "jwt:".
  std::vector<std::string> groups = {};
  // From this time on the credential is void. 0: never.
  uint64_t expires_ms = 0;

  bool anonymous() const { return principal == "anonymous"; }
};

// "who may do what on which topics". `line` is its place in the access file.
struct Rule {
  std::vector<std::string> who;
  VerbSet may;
  std::vector<std::string> topics;
  size_t line = 0;
};

// The limits of one principal, or of one topic. 0: no limit.
//
// A message does not say which client it is from, so the pending messages of a principal are those
// of all topics to which it may schedule.
struct Quota {
  // The principals that the quota is for; each has the whole quota. Empty for a quota of topics.
  std::vector<std::string> who;
  std::vector<std::string> topics;
  uint64_t messages_per_second = 0;
  uint64_t bytes_per_second = 0;
  uint64_t pending_messages = 0;
  uint64_t pending_bytes = 0;
  uint64_t streams = 0;
  uint64_t calls_in_flight = 0;
  size_t line = 0;

  bool limits_pending() const { return pending_messages != 0 || pending_bytes != 0; }
};

// The settings of the section [jwt].
struct JwtSettings {
  // A PEM file with public keys, or a directory of such files, whose names are key ids. Empty: no
  // JWT is accepted.
  std::string keys = {};
  std::string issuer = {};
  std::string audience = {};
  std::string groups_claim = "groups";
  uint64_t clock_skew_ms = 60'000;
};

// An answer, with the rule that gives it.
struct Decision {
  bool allowed = false;
  // The rule that allows it. Null if no rule does, or if there are no rules at all.
  const Rule* rule = nullptr;
};

// The content of an access file. Immutable once it is parsed, so any thread may use it.
//
// Without a rule, every principal that has authenticated may do everything. With one, all that no
// rule allows is denied. Rules only allow, so their order does not matter. Cost of a decision:
// O(rules).
class Policy {
 public:
  // The rules that name one client.
  using RuleSet = std::vector<const Rule*>;

  RuleSet RulesFor(const Identity& identity) const;
  // `topic` is ignored for kOperate. REQUIRES: `rules` are those of `identity`.
  Decision Decide(const Identity& identity, const RuleSet& rules, Verb verb,
                  absl::string_view topic) const;
  // True if the client may do this on every topic.
  bool AllowsEverywhere(const Identity& identity, const RuleSet& rules, Verb verb) const;
  // True if the client may do this on some topic.
  bool AllowsSomewhere(const Identity& identity, const RuleSet& rules, Verb verb) const;
  // The first quota for this client, or for this topic. Null: none.
  const Quota* QuotaOf(const Identity& identity) const;
  const Quota* QuotaOfTopic(absl::string_view topic) const;

  // ---- Filled by the parser.

  absl::flat_hash_map<std::string, absl::flat_hash_set<std::string>> groups;
  std::vector<Rule> rules;
  std::vector<Quota> quotas;
  JwtSettings jwt;

 private:
  bool Names(const std::vector<std::string>& who, const Identity& identity) const;
  bool IsMember(absl::string_view group, const Identity& identity) const;
};

}  // namespace duetime::access
