// SPDX-License-Identifier: Apache-2.0
//
// Runs the scenario files, each on one shard. A file is a list of
//
//   command key=value ...
//   ----
//   expected results
//
// A blank line ends the results. A command without `----` must have no results. # starts a comment.
// DUETIME_REWRITE=1 writes the actual results back into the file: read the diff.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/protocol/etag.h"
#include "server/protocol/topic_quota.h"
#include "server/shard/shard.h"
#include "storage/message_record.h"
#include "tests/scenarios/command_line.h"
#include "tests/scenarios/names.h"
#include "tests/scenarios/scenario_host.h"
#include "tests/support/replies.h"
#include "tests/support/settles.h"
#include "tests/support/topic_names.h"

namespace duetime::delivery {
namespace {

using protocol::CallTag;
using protocol::SubscriptionCommand;
using simulation::Host;

// One shard with a clock that starts at 1,000,000 ms. Names stand for ids and tokens.
class Scenario {
 public:
  std::string Run(const CommandLine& command) {
    out_.clear();
    const std::string& verb = command.verb;
    if (verb != "start") host_->Pass();
    if (verb == "start") {
      Start(command);
    } else if (verb == "schedule") {
      Schedule(command);
    } else if (verb == "cancel") {
      Handle(protocol::CancelCommand{.tag = CallTag{++calls_},
                                     .target = TargetOf(command),
                                     .stop_redelivery = command.Has("stop")});
    } else if (verb == "get" || verb == "explain") {
      explains_ = verb == "explain";
      Handle(protocol::GetCommand{.tag = CallTag{++calls_}, .target = TargetOf(command)});
    } else if (verb == "reschedule") {
      Reschedule(command);
    } else if (verb == "recur") {
      Recur(command);
    } else if (verb == "quota") {
      quota_->max = command.Count("max", 0);
      Handle(protocol::TopicCommand{.topic = Topic(command), .quota = quota_});
    } else if (verb == "bulk") {
      Bulk(command);
    } else if (verb == "subscribe" || verb == "update" || verb == "unsubscribe") {
      Subscribe(command);
    } else if (verb == "topic") {
      SetTopic(command);
    } else if (verb == "inspect") {
      Handle(protocol::InspectSubscriptionCommand{
          .tag = CallTag{++calls_}, .subscription = subscriptions_.at(command.Name(0))});
    } else if (verb == "attach" || verb == "detach") {
      Attach(command);
    } else if (verb == "ack" || verb == "nack" || verb == "extend" || verb == "reject" ||
               verb == "release") {
      Settle(command);
    } else if (verb == "advance") {
      Advance(command.Count("ms", 0));
    } else if (verb == "clock-back") {
      now_.mono_ms += command.Count("ms", 0);  // server time stands still
      Settle();
    } else if (verb == "hold-journal" || verb == "release-journal") {
      holding_ = verb == "hold-journal";
      Settle();
    } else if (verb == "damage") {
      DamageListing(ids_.at(command.Name(0)), store_, host_->disk());
    } else if (verb == "fail-journal") {
      host_->FailNextAppend(command.Name(0) == "applied" ? test::TestStore::Fault::kUnknownApplied
                                                         : test::TestStore::Fault::kUnknownLost);
    } else if (verb == "crash") {
      Crash(command, Host::End::kCrash);
    } else if (verb == "stop") {
      Stop(command);
    } else {
      ADD_FAILURE() << "unknown command " << verb;
    }
    return out_;
  }

 private:
  void Start(const CommandLine& command) {
    limits_ = {};
    limits_.nameless_retry.set_min_backoff_ms(0);
    limits_.due_idle_max = static_cast<size_t>(command.Number("idle-max", 1000));
    limits_.due_max = static_cast<size_t>(command.Number("due-max", 100'000));
    limits_.scheduler.claim_ahead_ms = 200;
    limits_.scheduler.claim_renew_ms = 100;
    limits_.scheduler.loaded_max = static_cast<size_t>(command.Number("loaded-max", 100'000));
    limits_.startup_rate = static_cast<uint32_t>(command.Number("catch-up", 0));
    limits_.failure_rate = static_cast<uint32_t>(command.Number("failure-rate", 0));
    limits_.scheduler.low_watermark_period_ms = command.Count("low-watermark-period", 1000);
    limits_.spill_age_ms = command.Count("spill-age", 60'000);
    Open(Host::End::kCrash, 0);
  }

  void Open(Host::End how, size_t kept) {
    shard_.reset();
    if (store_ != nullptr) host_->Stop(how, kept);
    store_ = host_->Start();
    shard_ = std::make_unique<shard::Shard>(0, limits_, store_, &names_);
    EXPECT_TRUE(shard_->Recover(now_).ok());
    batches_.clear();
    credits_.clear();
    tokens_.clear();
    Settle();
  }

  void Crash(const CommandLine& command, Host::End how) {
    if (command.Name(0) == "power") how = Host::End::kPowerCut;
    quota_ = std::make_shared<protocol::TopicQuota>();
    holding_ = false;
    now_.mono_ms = 0;
    now_.wall_ms += command.Count("after", 0);
    Open(how, command.Count("keep", 0));
  }

  // A clean stop, then a new start.
  void Stop(const CommandLine& command) {
    shard_->Close();
    Settle();
    EXPECT_TRUE(shard_->closed());
    Crash(command, Host::End::kStop);
  }

  void Schedule(const CommandLine& command) {
    const std::string name = command.Name(0);
    const storage::TopicId topic = Topic(command);
    const uint64_t deliver_ms = now_.wall_ms + command.Count("in", 0);
    protocol::ScheduleCommand schedule;
    schedule.tag = CallTag{++calls_};
    scheduled_[schedule.tag] = {.name = name,
                                .asked_ms = command.values.contains("spread") ? 0 : deliver_ms};
    storage::MessageRecord record;
    record.header = {.topic = topic, .deliver_ms = deliver_ms, .accept_ms = now_.wall_ms};
    record.payload = name;
    const auto order = command.values.find("order");
    if (order != command.values.end()) record.ordering_key = order->second;
    record.ttl_ms = command.Count("ttl", 0);
    if (record.ttl_ms > 0) {
      record.late_policy = command.Has("dead-letter") ? storage::LatePolicy::kDeadLetter
                                                      : storage::LatePolicy::kDrop;
    }
    const auto terms = TermsOf(command);
    if (terms.has_value()) {
      record.key = terms->key;
      record.spread_ms = terms->spread_ms;
    }
    protocol::NewMessage message = protocol::MakeNewMessage(record, /*slot=*/0);
    if (terms.has_value()) {
      message.options = std::make_unique<protocol::ScheduleOptions>(*terms);
      message.options->content = {.high = absl::HashOf(record.payload, record.ordering_key),
                                  .low = command.Count("in", 0)};
    }
    schedule.messages.push_back(std::move(message));
    Handle(std::move(schedule));
  }

  static std::optional<protocol::ScheduleOptions> TermsOf(const CommandLine& command) {
    protocol::ScheduleOptions terms;
    terms.key = command.Text("key", "");
    terms.ordering_key = command.Text("order", "");
    terms.request_id = command.Text("request", "");
    terms.on_conflict = kConflicts.at(command.Text("conflict", "fail"));
    terms.only_if_exists = command.Has("if-exists");
    terms.validate_only = command.Has("validate-only");
    terms.max_wait_ms = command.Count("max-wait", 0);
    terms.spread_ms = command.Count("spread", 0);
    const bool plain = terms.key.empty() && terms.request_id.empty() && terms.spread_ms == 0 &&
                       !terms.validate_only;
    return plain ? std::nullopt : std::optional(terms);
  }

  // `key=k` names a message by its key. Any other text is the message's name.
  protocol::Target TargetOf(const CommandLine& command) {
    const auto key = command.values.find("key");
    if (key == command.values.end()) {
      return {.id = ids_[command.Name(0)], .topic = {}, .key = ""};
    }
    return {.id = {}, .topic = Topic(command), .key = key->second};
  }

  // recur VERB name every=ms [start=ms-from-now count= overlap=skip misfire=all|skip].
  void Recur(const CommandLine& command) {
    using Kind = protocol::RecurrenceCommand::Kind;
    static const std::map<std::string, Kind> kKinds = {{"create", Kind::kCreate},
                                                       {"update", Kind::kUpdate},
                                                       {"pause", Kind::kPause},
                                                       {"resume", Kind::kResume},
                                                       {"delete", Kind::kDelete}};
    static const std::map<std::string, protocol::Misfire> kMisfires = {
        {"once", protocol::Misfire::kFireOnce},
        {"all", protocol::Misfire::kFireAll},
        {"skip", protocol::Misfire::kSkip}};
    protocol::RecurrenceCommand recur;
    recur.tag = CallTag{++calls_};
    recur.kind = kKinds.at(command.Name(0));
    recur.name = command.Name(1);
    recur.spec.topic = Topic(command);
    recur.spec.rule.interval_ms = command.Number("every", 0);
    recur.spec.rule.start_ms =
        static_cast<int64_t>(now_.wall_ms) + command.Number("start", recur.spec.rule.interval_ms);
    recur.spec.rule.max_count = command.Count("count", 0);
    recur.spec.overlap = command.Text("overlap", "allow") == "skip" ? protocol::Overlap::kSkip
                                                                    : protocol::Overlap::kAllow;
    recur.spec.misfire = kMisfires.at(command.Text("misfire", "once"));
    recur.spec.content = {.high = absl::HashOf(command.values), .low = 0};
    recur.update_rule = command.values.contains("every");
    recur.spec.message = storage::EncodeMessageRecord({.payload = recur.name});
    Handle(std::move(recur));
  }

  // subscribe|update|unsubscribe name [new min= max= attempts= retention= retention-max= ...].
  void Subscribe(const CommandLine& command) {
    SubscriptionCommand change;
    change.tag = CallTag{++calls_};
    change.kind = command.verb == "subscribe"     ? SubscriptionCommand::Kind::kCreate
                  : command.verb == "unsubscribe" ? SubscriptionCommand::Kind::kDelete
                                                  : SubscriptionCommand::Kind::kUpdate;
    protocol::SubscriptionState& state = change.state;
    state.name = command.Name(0);
    state.topic = Topic(command);
    const auto number = static_cast<uint32_t>((uint64_t{1} << 31) + subscriptions_.size());
    const storage::SubscriptionId id = command.Has("first")
                                           ? storage::FirstSubscription(state.topic)
                                           : storage::SubscriptionId{number};
    state.id = subscriptions_.emplace(state.name, id).first->second;
    protocol::SubscriptionSettings& settings = state.settings;
    settings.set_paused(command.Has("paused"));
    protocol::RetryPolicy* const retry = settings.mutable_retry();
    retry->set_min_backoff_ms(command.Count("min", 0));
    retry->set_max_backoff_ms(command.Count("max", 600'000));
    retry->set_jitter_percent(0);
    retry->set_max_attempts(static_cast<uint32_t>(command.Number("attempts", 0)));
    settings.set_retention_ms(command.Count("retention", 0));
    settings.set_retention_max_messages(command.Count("retention-max", 0));
    if (command.Has("dead-letter"))
      settings.set_retention_policy(protocol::SubscriptionSettings::DEAD_LETTER);
    change.from_now = command.Has("new");
    change.keep_messages = command.Has("last");
    Handle(std::move(change));
  }

  // topic name [paused rate= burst= dead-letter=topic minute-max= minute=warn|refuse|spread
  // spread-minutes=].
  void SetTopic(const CommandLine& command) {
    protocol::TopicCommand change;
    change.topic = TopicNamed(command.Name(0));
    auto settings = std::make_shared<protocol::TopicSettings>();
    settings->set_paused(command.Has("paused"));
    if (const int64_t rate = command.Number("rate", 0); rate > 0) {
      change.pace = std::make_shared<protocol::TopicPace>();
      change.pace->Set(static_cast<uint64_t>(rate), command.Count("burst", 1));
    }
    if (const int64_t max = command.Number("minute-max", 0); max > 0) {
      static const std::map<std::string, protocol::TopicSettings::BucketPolicy> kPolicies = {
          {"warn", protocol::TopicSettings::WARN},
          {"refuse", protocol::TopicSettings::REFUSE},
          {"spread", protocol::TopicSettings::SPREAD}};
      settings->set_minute_max(static_cast<uint64_t>(max));
      settings->set_minute_policy(kPolicies.at(command.values.at("minute")));
      settings->set_minute_spread_ms(command.Count("spread-minutes", 0) * storage::kMinuteMs);
    }
    change.settings = settings;
    if (const auto to = command.values.find("dead-letter"); to != command.values.end()) {
      change.dead_letter = TopicNamed(to->second);
    }
    Handle(std::move(change));
  }

  // bulk cancel|purge|release|shift|redrive name [by=ms key=prefix].
  void Bulk(const CommandLine& command) {
    static const std::map<std::string, protocol::BulkAction> kActions = {
        {"cancel", protocol::BulkAction::kCancel},
        {"purge", protocol::BulkAction::kPurge},
        {"release", protocol::BulkAction::kRelease},
        {"shift", protocol::BulkAction::kShift},
        {"redrive", protocol::BulkAction::kRedrive}};
    protocol::OperationCommand bulk;
    bulk.tag = CallTag{++calls_};
    bulk.name = command.Name(1);
    if (command.Name(0) != "stop") {
      protocol::OperationSpec spec;
      spec.topic = Topic(command);
      spec.action = kActions.at(command.Name(0));
      spec.shift_ms = command.Number("by", 0);
      spec.horizon_ms = 1'000'000'000;
      if (const auto key = command.values.find("key"); key != command.values.end()) {
        spec.filter.key_prefix = key->second;
      }
      bulk.spec = spec;
      bulk.content = {.high = absl::HashOf(command.Name(0), command.values), .low = 0};
    }
    Handle(std::move(bulk));
  }

  void Reschedule(const CommandLine& command) {
    protocol::RescheduleCommand reschedule;
    reschedule.tag = CallTag{++calls_};
    reschedule.target = TargetOf(command);
    reschedule.deliver_ms = now_.wall_ms + command.Count("in", 0);
    const std::string of = command.Text("etag", "");
    if (!of.empty()) reschedule.etag = protocol::EtagOf(ids_[of], command.Count("revision", 0));
    Handle(std::move(reschedule));
  }

  storage::TopicId Topic(const CommandLine& command) {
    return TopicNamed(command.Text("topic", "t"));
  }
  storage::TopicId TopicNamed(const std::string& name) {
    const auto next = static_cast<uint32_t>(names_.numbers.size() + 1);
    return names_.numbers.emplace(name, storage::TopicId{next}).first->second;
  }

  void Attach(const CommandLine& command) {
    const protocol::StreamId stream =
        streams_
            .emplace(command.Name(0),
                     protocol::StreamId{static_cast<uint64_t>(streams_.size() + 1)})
            .first->second;
    if (command.verb == "detach") {
      return Handle(protocol::DetachCommand{.stream = stream, .keep_leases = command.Has("keep")});
    }
    const auto of = command.values.find("of");
    const storage::SubscriptionId subscription = of == command.values.end()
                                                     ? storage::FirstSubscription(Topic(command))
                                                     : subscriptions_.at(of->second);
    auto credit = std::make_shared<protocol::StreamCredit>(command.Number("credit", 1000), 1 << 20);
    Handle(protocol::AttachCommand{.stream = stream,
                                   .topic = Topic(command),
                                   .subscription = subscription,
                                   .lease_ms = command.Count("lease", 30'000),
                                   .credit = credit,
                                   .client_id = command.Name(0)});
  }

  void Settle(const CommandLine& command) {
    using protocol::SettleAction;
    static const std::map<std::string, SettleAction> actions = {
        {"ack", SettleAction::kAck},
        {"nack", SettleAction::kNack},
        {"extend", SettleAction::kExtend},
        {"reject", SettleAction::kDeadLetter},
        {"release", SettleAction::kRelease}};
    std::vector<protocol::LeaseToken> tokens;
    for (const std::string& name : command.names) tokens.push_back(tokens_[name]);
    protocol::Settlement how{.action = actions.at(command.verb)};
    if (command.values.contains("ms")) how.ms = command.Count("ms", 0);
    how.reason = command.Text("why", how.action == SettleAction::kDeadLetter ? "broken" : "");
    Handle(test::Settles(protocol::StreamId{}, tokens, how));
  }

  void Handle(protocol::Command command) {
    shard_->Handle(now_, std::move(command));
    Settle();
  }

  void Advance(uint64_t ms) {
    for (uint64_t i = 0; i < ms; ++i) {
      ++now_.wall_ms;
      ++now_.mono_ms;
      Settle();
    }
  }

  // Runs the shard until nothing more happens at this time.
  void Settle() {
    for (bool more = true; more;) {
      more = shard_->Step(now_).more;
      Print(shard_->TakeEffects());
      if (auto batch = shard_->TakeBatch(); batch.has_value()) batches_.push_back(*batch);
      if (holding_) continue;
      more = more || !batches_.empty();
      for (const shard::PendingBatch& batch : std::exchange(batches_, {})) {
        const auto outcome = store_->Append(std::span(&batch.records, 1), batch.durability);
        shard_->OnCommitted(now_, batch.sequence, outcome);
        Print(shard_->TakeEffects());
      }
    }
    shard_->CheckInvariants();
  }

  std::string NameOf(const storage::MessageId& id) const {
    for (const auto& [name, known] : ids_) {
      if (known == id) return name;
    }
    return "?";
  }

  template <typename... Parts>
  void Line(const Parts&... parts) {
    absl::StrAppend(&out_, now_.wall_ms - 1'000'000, ": ", parts..., "\n");
  }

  void Print(const protocol::Effects& effects) {
    for (const auto& reply : test::RepliesOf<protocol::ScheduleReply>(effects)) {
      const auto& [name, asked_ms] = scheduled_[reply.tag];
      if (!reply.status.ok()) {
        Line("schedule ", name, ": ", reply.status.message());
        continue;
      }
      const protocol::AcceptedMessage& accepted = reply.accepted[0];
      if (!accepted.status.ok()) {
        Line("refused ", name, ": ", accepted.status.message());
        continue;
      }
      ids_[name] = accepted.id;
      std::string text = kScheduleOutcomes.at(accepted.outcome);
      if (accepted.outcome != protocol::ScheduleOutcome::kCreated) {
        absl::StrAppend(&text, ", for ", accepted.deliver_ms - 1'000'000, " after ",
                        accepted.old_deliver_ms - 1'000'000);
      }
      if (accepted.previous_id.has_value()) absl::StrAppend(&text, ", the key was taken over");
      if (accepted.outcome == protocol::ScheduleOutcome::kCreated && asked_ms > 0 &&
          accepted.deliver_ms != asked_ms) {
        absl::StrAppend(&text, ", for ", accepted.deliver_ms - 1'000'000);
      }
      if (accepted.minute_limit_exceeded) text += ", more than its minute should hold";
      Line("accepted ", name, ", ", kStates.at(accepted.state), text);
    }
    for (const auto& reply : test::RepliesOf<protocol::CancelReply>(effects)) {
      if (!reply.status.ok()) {
        Line("cancel: ", reply.status.message());
        continue;
      }
      Line("cancel: ",
           reply.outcome == protocol::Outcome::kDone ? "CANCELLED" : kOutcomes.at(reply.outcome),
           ", was ", kStates.at(reply.state),
           reply.redelivery_stopped ? ", redelivery stopped" : "",
           reply.delivery_uncertain ? ", delivery uncertain" : "");
    }
    for (const auto& reply : test::RepliesOf<protocol::RescheduleReply>(effects)) {
      if (!reply.status.ok()) {
        Line("reschedule: ", reply.status.message());
        continue;
      }
      Line("reschedule: ", kOutcomes.at(reply.outcome), ", ", kStates.at(reply.state));
    }
    for (const auto& reply : test::RepliesOf<protocol::RecurrenceReply>(effects)) {
      if (!reply.status.ok()) {
        Line("recur: ", reply.status.message());
        continue;
      }
      const protocol::RecurrenceState& state = reply.state;
      Line("recur: ", kStatuses.at(state.status), ", made ", state.made, ", skipped ",
           state.skipped,
           state.current.id == storage::MessageId{}
               ? std::string()
               : absl::StrCat(", next at ", state.current_deliver_ms - 1'000'000),
           reply.occurrence_cancelled ? ", occurrence cancelled" : "");
      // The name of the recurrence stands for its next occurrence.
      if (state.current.id != storage::MessageId{}) ids_[state.name] = state.current.id;
    }
    for (const auto& reply : test::RepliesOf<protocol::OperationReply>(effects)) {
      if (!reply.status.ok()) {
        Line("bulk: ", reply.status.message());
        continue;
      }
      Line("bulk: ", kOperationStates.at(reply.operation.state), ", matched ",
           reply.operation.matched, ", changed ", reply.operation.changed, ", unchanged ",
           reply.operation.unchanged);
    }
    for (const auto& reply : test::RepliesOf<protocol::GetReply>(effects)) {
      if (!reply.status.ok() && !absl::IsNotFound(reply.status)) {
        Line("get: ", reply.status.message());
        continue;
      }
      Line("get: ", reply.status.ok() ? kStates.at(reply.state) : "NOT_FOUND", ", attempts ",
           reply.attempts);
      if (reply.subscriptions.size() < 2 && !explains_) continue;
      for (const protocol::SubscriptionStatus& one : reply.subscriptions)
        Line("  ", NameOf(one.subscription), ": ", TextOf(one, explains_));
      if (explains_) absl::StrAppend(&out_, TextOfDeadLetters(reply));
    }
    for (const auto& reply : test::RepliesOf<protocol::SubscriptionReply>(effects)) {
      Line("subscription: ", reply.status.ok() ? "done" : reply.status.message());
    }
    for (const auto& reply : test::RepliesOf<protocol::InspectSubscriptionReply>(effects)) {
      Line("subscription: ", TextOf(reply.gauges));
    }
    for (const protocol::DeliveryFrame& frame : effects.frames) PrintFrame(frame);
    for (const protocol::SettleReply& reply : effects.settles) {
      Line("settled ", reply.settled.size(), ", extended ", reply.extended.size(), ", refused ",
           reply.refused.size());
    }
    if (effects.failed) Line("the shard has failed");
  }

  std::string NameOf(storage::SubscriptionId id) const {
    for (const auto& [name, known] : subscriptions_) {
      if (known == id) return name;
    }
    return "default";
  }

  void PrintFrame(const protocol::DeliveryFrame& frame) {
    for (const protocol::Delivery& delivery : frame.deliveries) {
      storage::MessageRecord record;
      EXPECT_TRUE(storage::DecodeMessageRecord(delivery.record, &record).ok());
      const std::string name(record.payload);
      ids_[name] = delivery.id;
      std::string stream = "?";
      for (const auto& [key, id] : streams_) {
        if (id == frame.stream) stream = key;
      }
      tokens_[name] = tokens_[absl::StrCat(name, "@", stream)] = delivery.token;
      Line("deliver ", name, " to ", stream, ", attempt ", delivery.attempt, ", late ",
           delivery.dispatch_ms - record.header.deliver_ms, " ms",
           delivery.maybe_redelivered ? ", maybe repeated" : "",
           record.dead_letter.has_value() ? TextOf(*record.dead_letter) : "");
    }
  }

  const std::unique_ptr<Host> host_ = MakeHost();
  ShardLimits limits_;
  test::TestStore* store_ = nullptr;
  std::unique_ptr<shard::Shard> shard_;
  std::shared_ptr<protocol::TopicQuota> quota_ = std::make_shared<protocol::TopicQuota>();
  std::vector<shard::PendingBatch> batches_;
  bool holding_ = false;
  bool explains_ = false;
  base::Now now_{.wall_ms = 1'000'000, .mono_ms = 0};
  uint64_t calls_ = 0;
  // The request behind a call. asked_ms is 0 if the message has a spread.
  struct Asked {
    std::string name;
    uint64_t asked_ms = 0;
  };
  std::map<CallTag, Asked> scheduled_;
  std::map<std::string, storage::MessageId> ids_;
  std::map<std::string, protocol::LeaseToken> tokens_;
  std::map<std::string, protocol::StreamId> streams_;
  test::MapOfNames names_;
  std::map<std::string, storage::SubscriptionId> subscriptions_;
  std::vector<std::shared_ptr<protocol::StreamCredit>> credits_;
  std::string out_;
};

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, HappensAsWritten) {
  const std::filesystem::path path = ScenarioFile(GetParam());
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  const bool rewrite = std::getenv("DUETIME_REWRITE") != nullptr;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::ostringstream rewritten;
  Scenario scenario;
  int commands = 0;
  for (size_t i = 0; i < lines.size();) {
    const std::string command = lines[i++];
    rewritten << command << "\n";
    if (command.empty() || command[0] == '#') continue;
    std::string expected;
    if (i < lines.size() && lines[i] == "----") {
      for (++i; i < lines.size() && !lines[i].empty(); ++i) {
        absl::StrAppend(&expected, lines[i], "\n");
      }
    }
    const std::string actual = scenario.Run(Parse(command));
    if (!actual.empty()) rewritten << "----\n" << actual;
    if (!actual.empty() && i < lines.size() && !lines[i].empty()) rewritten << "\n";
    if (!rewrite) {
      EXPECT_EQ(actual, expected) << GetParam() << ": " << command;
    }
    ++commands;
  }
  EXPECT_GT(commands, 2);
  if (rewrite) std::ofstream(path) << rewritten.str();
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, testing::ValuesIn(ScenarioNames()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace duetime::delivery
