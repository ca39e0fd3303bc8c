// SPDX-License-Identifier: Apache-2.0
#include "server/access/policy.h"

#include <algorithm>

#include "absl/strings/strip.h"

namespace duetime::access {
namespace {

bool AnyMatches(const std::vector<std::string>& patterns, absl::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [text](const std::string& pattern) { return Matches(pattern, text); });
}

// read_payloads includes read.
bool May(const Rule& rule, Verb verb) {
  return rule.may.Has(verb) || (verb == Verb::kRead && rule.may.Has(Verb::kReadPayloads));
}

}  // namespace

bool Matches(absl::string_view pattern, absl::string_view text) {
  size_t p = 0;
  size_t t = 0;
  // Where to go on if the text after the last star does not fit: one byte later.
  size_t after_star = absl::string_view::npos;
  size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (after_star != absl::string_view::npos) {
      p = after_star;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool Policy::IsMember(absl::string_view group, const Identity& identity) const {
  if (std::find(identity.groups.begin(), identity.groups.end(), group) != identity.groups.end()) {
    return true;
  }
  const auto found = groups.find(group);
  if (found == groups.end()) return false;
  return found->second.contains(identity.principal) ||
         std::any_of(identity.aliases.begin(), identity.aliases.end(),
                     [&](const std::string& name) { return found->second.contains(name); });
}

bool Policy::Names(const std::vector<std::string>& who, const Identity& identity) const {
  return std::any_of(who.begin(), who.end(), [&](const std::string& name) {
    if (name == "*") return !identity.anonymous();
    if (name == identity.principal) return true;
    absl::string_view group = name;
    if (absl::ConsumePrefix(&group, "group:")) return IsMember(group, identity);
    return std::find(identity.aliases.begin(), identity.aliases.end(), name) !=
           identity.aliases.end();
  });
}

Policy::RuleSet Policy::RulesFor(const Identity& identity) const {
  RuleSet found;
  for (const Rule& rule : rules) {
    if (Names(rule.who, identity)) found.push_back(&rule);
  }
  return found;
}

Decision Policy::Decide(const Identity& identity, const RuleSet& of, Verb verb,
                        absl::string_view topic) const {
  if (rules.empty()) return {.allowed = !identity.anonymous()};
  for (const Rule* const rule : of) {
    if (!May(*rule, verb)) continue;
    if (verb == Verb::kOperate || AnyMatches(rule->topics, topic)) {
      return {.allowed = true, .rule = rule};
    }
  }
  return {};
}

bool Policy::AllowsEverywhere(const Identity& identity, const RuleSet& of, Verb verb) const {
  if (rules.empty()) return !identity.anonymous();
  return std::any_of(of.begin(), of.end(), [verb](const Rule* rule) {
    return May(*rule, verb) &&
           std::find(rule->topics.begin(), rule->topics.end(), "*") != rule->topics.end();
  });
}

bool Policy::AllowsSomewhere(const Identity& identity, const RuleSet& of, Verb verb) const {
  if (rules.empty()) return !identity.anonymous();
  return std::any_of(of.begin(), of.end(), [verb](const Rule* rule) { return May(*rule, verb); });
}

const Quota* Policy::QuotaOf(const Identity& identity) const {
  for (const Quota& quota : quotas) {
    if (Names(quota.who, identity)) return &quota;
  }
  return nullptr;
}

const Quota* Policy::QuotaOfTopic(absl::string_view topic) const {
  for (const Quota& quota : quotas) {
    if (AnyMatches(quota.topics, topic)) return &quota;
  }
  return nullptr;
}

}  // namespace duetime::access
