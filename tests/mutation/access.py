# SPDX-License-Identifier: Apache-2.0
"""Faults of access control. See run.py."""

UNIT = "access_test"
DAEMON = "daemon_access_test"

POLICY = "server/access/policy.cc"
FILES = "server/access/policy_file.cc"
JWT = "server/access/jwt_verifier.cc"
CONTROL = "server/access/access_control.cc"
METER = "server/access/meter.h"
RIGHTS = "server/api/access/authorization.cc"
MESSAGES = "proto/duetime/v1/messages.proto"
ADMIN = "proto/duetime/v1/admin.proto"

FAULTS = [
    ("a pattern matches a prefix", POLICY, "return p == pattern.size();", "return true;", UNIT),
    ("everyone includes clients without credentials", POLICY,
     'if (name == "*") return !identity.anonymous();', 'if (name == "*") return true;', UNIT),
    ("without rules, clients without credentials may do everything", POLICY,
     "return {.allowed = !identity.anonymous()};", "return {.allowed = true};", UNIT),
    ("reading includes payloads", POLICY,
     "return rule.may.Has(verb) || (verb == Verb::kRead && rule.may.Has(Verb::kReadPayloads));",
     "return rule.may.Has(verb) || rule.may.Has(Verb::kRead);", UNIT),
    ("an unknown key is ignored", FILES,
     "if (std::find(known.begin(), known.end(), name) == known.end()) {", "if (name.empty()) {", UNIT),
    ("a token may take the name of a certificate", FILES,
     'identity.principal.find_first_of(":*") != std::string::npos', "false", UNIT),
    ("the end of a token is ignored", FILES, 'identity.expires_ms = reader.Time(*table, "expires");', "", UNIT),
    ("a JWT of another issuer is accepted", JWT,
     'if (TextOf(claims, "iss") != settings_.issuer) return Refused("has another issuer");', "", UNIT),
    ("a JWT for another audience is accepted", JWT,
     'if (!HasAudience(claims, settings_.audience)) return Refused("has another audience");', "", UNIT),
    ("an expired JWT is accepted", JWT, 'if (now >= end + skew) return Refused("has expired");', "", UNIT),
    ("a JWT may choose its algorithm", JWT,
     'if (algorithm == JWT_ALG_NONE) return Refused("is signed with neither RS256 nor ES256");', "", UNIT),
    ("the signature does not count", JWT,
     'if (!fits) return Refused("is signed with no key that is known here");', "", UNIT),
    ("a known token never expires", CONTROL,
     "if (!found->second->Expired(now.wall_ms)) return found->second;", "return found->second;", UNIT),
    ("a change of the files keeps the known clients", CONTROL, "callers_.clear(); generation_", "generation_", UNIT),
    ("a wrong token falls back to the certificate", CONTROL,
     "if (credentials.token.empty()) {", "if (!credentials.certificate.empty() || credentials.token.empty()) {", UNIT),
    ("a change of the files resets the quotas", CONTROL,
     "if (meter == nullptr) meter = std::make_shared<Meter>();", "meter = std::make_shared<Meter>();", UNIT),
    ("what exceeds the burst is free", METER, "std::max(paid_at_us_, mono_ms * kMicrosPerMs) + cost;",
     "std::max(paid_at_us_, mono_ms * kMicrosPerMs) + std::min(cost, kBurstUs);", UNIT),
    ("unary methods ask for no rights", RIGHTS, "absl::Status status = CheckRights(worker.context(), call.caller, "
     "call.method().id, request);", "absl::Status status;", DAEMON),
    ("items of a batch need no right to their topic", RIGHTS, "caller->Allows(verb, last) ? absl::OkStatus()",
     "!last.empty() ? absl::OkStatus()", DAEMON),
    ("an item has the right of its neighbour", RIGHTS, "if (topics[i] != last) {", "if (last.empty()) {", DAEMON),
    ("a batch without any right is refused item by item", RIGHTS, "if (!caller->AllowsSomewhere(verb)) {\n    return "
     "CountedRefusal", "if (verb == Verb::kRead) {\n    return CountedRefusal", DAEMON),
    ("each refused item is in the audit log", RIGHTS, "if (refused->empty()) {\n      // Counted", "{\n      // Counted", DAEMON),
    ("a meter takes what is behind a refused message", METER, "        verdict.wait_ms = kPendingRetryMs;\n        break;",
     "        verdict.wait_ms = kPendingRetryMs;\n        continue;", UNIT),
    ("ids lead to every topic", RIGHTS,
     "return caller_->Allows(verb_, context_->catalog().TopicName(topic));", "return topic != storage::TopicId{};", DAEMON),
    ("a full view needs no right to payloads", MESSAGES,
     '      rights: {verb: ACCESS_VERB_READ_PAYLOADS, topic: "key.topic", when: CALL_RIGHT_WHEN_FULL_VIEW}\n', "", DAEMON),
    ("dead letters may go to topics of others", ADMIN,
     "rpc UpdateTopic(UpdateTopicRequest) returns (UpdateTopicResponse) {\n    option (call) = {\n"
     '      rights: {verb: ACCESS_VERB_ADMIN, topic: "topic.name"}\n'
     '      rights: {verb: ACCESS_VERB_SCHEDULE, topic: "topic.settings.dead_letter_topic", when: CALL_RIGHT_WHEN_NAMED}\n',
     "rpc UpdateTopic(UpdateTopicRequest) returns (UpdateTopicResponse) {\n    option (call) = {\n"
     '      rights: {verb: ACCESS_VERB_ADMIN, topic: "topic.name"}\n', DAEMON),
    ("open streams keep their rights", "server/api/access/stream_caller.cc",
     "return CheckRight(*context_, caller_, verb, topic);", "return absl::OkStatus();", DAEMON),
    ("a client counts its calls only once", RIGHTS, "caller->meter()->calls.fetch_sub(1);", "", DAEMON),
]
