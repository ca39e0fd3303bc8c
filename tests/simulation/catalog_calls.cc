// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/catalog_calls.h"

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/protocol/subscription_state.h"
#include "storage/message_record.h"
#include "storage/time_units.h"

namespace duetime::simulation {

using catalog::RequestTag;
using protocol::CallTag;
using storage::AppendOutcome;

namespace {

constexpr RequestTag kServe{~uint64_t{0}};

}  // namespace

CatalogCalls::CatalogCalls(const Setup& setup) : World(setup, 3, Lead::kLost) {
  options_.shards = shard_count_;
  options_.subscriptions_max = 2;
  // There is no room for all topics, but a message revives its topic all the same.
  if (setup.seed % 2 == 0) options_.topics_max = 2;
  Start();
}

void CatalogCalls::Start() {
  Open();
  serving_ = false;
  to_shards_ = std::vector<std::deque<protocol::Command>>(shard_count_);
  cell_ = std::make_unique<catalog::SnapshotCell>();
  catalog_ = std::make_unique<catalog::Catalog>(options_, store_);
  if (!catalog_->Recover(now_).ok()) Violate("the catalog cannot be recovered");
  to_catalog_.emplace_back(catalog::AwaitRecovery{.tag = kServe});
}

void CatalogCalls::Crash() {
  const bool power = Chance(50);
  const size_t unsynced = host_->unsynced_appends();
  for (auto& [name, of] : registers_) {
    for (const auto& [tag, value] : of.open) of.possible.insert(value);
    of.open.clear();
  }
  for (const auto& [tag, request] : requests_) topics_[request.topic].used = true;
  for (const auto& [tag, post] : schedules_) topics_[post.topic].used = true;
  requests_.clear();
  schedules_.clear();
  posts_.clear();
  to_catalog_.clear();
  catalog_.reset();
  Note("crash of the ", power ? "power" : "process");
  Close(power ? Host::End::kPowerCut : Host::End::kCrash, power ? Random(unsynced + 1) : unsynced,
        /*clock_goes_back=*/false);
  Start();
}

void CatalogCalls::Event() {
  now_.mono_ms += Random(8);
  now_.wall_ms += Random(8);
  host_->Pass();
  if (failed_ || host_->Superseded()) Crash();
  EndFormer();
  // No client calls before the server serves.
  const uint64_t client = serving_ ? 1 : 0;
  DoOneOf({{5, [this] { Crash(); }},
           {client * 105, [this] { DoSchedule(); }},
           {client * 80, [this] { DoPost(); }},
           {client * 80, [this] { DoCancel(); }},
           {client * 70, [this] { DoTopic(); }},
           {client * 70, [this] { DoSubscription(); }},
           {190, [this] { StepShard(static_cast<uint16_t>(Random(shard_count_))); }},
           {190, [this] { StepCatalog(); }},
           {200, [this] { Commit(/*faults=*/10); }},
           {client * 3, [this] { PassADay(); }},
           {client * 2, [this] { SetClockRight(); }},
           {5, [this] { Rest(); }}});
  if (!ok() || failed_) return;
  CheckVisible();
  if (Chance(5)) catalog_->CheckInvariants();
}

void CatalogCalls::Drain() {
  if (failed_) Crash();
  while (!posts_.empty()) DoPost();
  Rest();
  // Restarts, because every answered change must be on disk.
  do Crash();
  while (!StillLeads());
  Rest();
}

void CatalogCalls::Send(uint16_t shard, protocol::Command command) {
  to_shards_[shard].push_back(std::move(command));
}

// Runs everything that can happen now, without faults.
void CatalogCalls::Rest() {
  const bool was_healing = std::exchange(healing_, true);
  bool busy = StillLeads();
  while (busy && ok() && !failed_) {
    StepCatalog();
    for (uint16_t i = 0; i < shard_count_; ++i) StepShard(i);
    Commit(/*faults=*/0);
    busy = !journal_.empty() || !to_catalog_.empty();
    for (const auto& commands : to_shards_) busy |= !commands.empty();
  }
  healing_ = was_healing;
  if (!ok() || failed_) return;
  if (!serving_) Violate("the server does not begin to serve");
  if (!requests_.empty()) Violate("a request has no answer");
  catalog_->CheckInvariants();
  CheckVisible();
  CheckRegisters();
  CheckShards();
  Count("rests");
}

// ---- Clients -----------------------------------------------------------------------------------

template <typename C>
void CatalogCalls::Ask(C command, Request request) {
  const uint64_t tag = next_call_++;
  command.tag = RequestTag{tag};
  for (const auto& [name, value] : request.gives) {
    registers_[{request.topic, name}].open[tag] = value;
  }
  if (!request.deletes_topic) topics_[request.topic].Use();
  request.uses_before = topics_[request.topic].uses;
  Note("request ", tag, ": topic ", request.topic, request.deletes_topic ? ", deletion" : "",
       request.schedules ? ", by use" : "");
  for (const auto& [name, value] : request.gives) Note("  '", name, "' becomes ", value);
  requests_.emplace(tag, std::move(request));
  to_catalog_.emplace_back(std::move(command));
}

// Finds the topic as the API does: in the snapshot, or else by one question to the catalog.
void CatalogCalls::DoSchedule() {
  const std::string name = AnyTopic();
  const catalog::TopicPtr topic = cell_->Read().FindTopic(name);
  if (topic == nullptr || !topic->used) {
    Ask(catalog::EnsureTopic{.name = name}, {.topic = name, .gives = {}, .schedules = true});
    return;
  }
  topics_[name].Use();
  posts_.push_back({.topic = name, .id = topic->id});
}

// Sends a message to its shard, perhaps long after the client found the topic.
void CatalogCalls::DoPost() {
  if (posts_.empty()) return;
  const Post post = std::move(posts_.front());
  posts_.pop_front();
  simulation::Ask ask;
  ask.topic = post.id;
  ask.payload = "p";
  // A repeat of a request finds the message of the first one, if that was of the same topic.
  ask.request_id = OneOf<std::string>({"", "r", "s"});
  // No message becomes due, so none ends by itself: a due one would end with the deletion of its
  // only subscription, while the topic has another.
  ask.deliver_ms = now_.wall_ms + 1'000 * storage::kDayMs;
  const auto shard = static_cast<uint16_t>(Random(shard_count_));
  protocol::ScheduleCommand command;
  command.tag = NewTag();
  command.messages.push_back(MakeMessage(ask, AnySlotOf(shard)));
  topics_[post.topic].Use();
  schedules_.emplace(command.tag, post);
  Send(shard, std::move(command));
}

void CatalogCalls::DoCancel() {
  Topic& topic = topics_[AnyTopic()];
  // Half of the calls cancel all the topic's messages, so that it can be deleted.
  size_t left = Chance(50) ? topic.messages.size() : 1;
  for (; left > 0 && !topic.messages.empty(); --left) {
    protocol::CancelCommand command;
    command.tag = NewTag();
    command.target.id = topic.messages.begin()->first;
    topic.messages.erase(topic.messages.begin());
    Send(ShardOfId(command.target.id), std::move(command));
  }
}

void CatalogCalls::DoTopic() {
  const std::string name = AnyTopic();
  const uint64_t value = next_value_++;
  switch (Random(4)) {
    case 0: {
      catalog::CreateTopic command{.name = name};
      command.settings.set_max_payload_bytes(value);
      return Ask(std::move(command), {.topic = name, .gives = {{"", value}}});
    }
    case 1: {
      catalog::UpdateTopic command;
      command.name = name;
      command.edit = [value](catalog::TopicSettings* settings) {
        settings->set_max_payload_bytes(value);
        return absl::OkStatus();
      };
      return Ask(std::move(command), {.topic = name, .gives = {{"", value}}});
    }
    default:
      return Ask(
          catalog::DeleteTopic{.name = name},
          {.topic = name, .gives = {{"", 0}, {"s", 0}, {"t", 0}, {"u", 0}}, .deletes_topic = true});
  }
}

void CatalogCalls::DoSubscription() {
  const std::string topic = AnyTopic();
  const std::string name = AnySubscription();
  const uint64_t value = next_value_++;
  switch (Random(4)) {
    case 0: {
      catalog::UpdateSubscription command;
      command.topic = topic;
      command.name = name;
      command.edit = [value](protocol::SubscriptionSettings* settings) {
        settings->set_retention_max_messages(value);
        return absl::OkStatus();
      };
      return Ask(std::move(command), {.topic = topic, .gives = {{name, value}}});
    }
    case 1: {
      catalog::DeleteSubscription command;
      command.topic = topic;
      command.name = name;
      return Ask(std::move(command), {.topic = topic, .gives = {{name, 0}}});
    }
    default: {
      catalog::CreateSubscription command;
      command.topic = topic;
      command.name = name;
      command.settings.set_retention_max_messages(value);
      command.from_now = Chance(50);
      return Ask(std::move(command), {.topic = topic, .gives = {{name, value}}});
    }
  }
}

void CatalogCalls::PassADay() {
  // No call holds a number for so long. The answers of the catalog make new posts.
  do {
    while (!posts_.empty()) DoPost();
    Rest();
  } while (ok() && !failed_ && !posts_.empty());
  if (!ok() || failed_ || !serving_) return;
  Note("a day passes");
  const uint64_t ms = storage::kDayMs + storage::kHourMs;
  now_.wall_ms += ms;
  now_.mono_ms += ms;
  ahead_ms_ = ms;
  ++days_;
  Count("days");
}

void CatalogCalls::SetClockRight() {
  if (ahead_ms_ == 0) return;
  Note("the clock was ahead, and is set right");
  now_.wall_ms -= std::exchange(ahead_ms_, 0);
  Count("clock set right");
}

void CatalogCalls::OnReply(const catalog::Reply& reply) {
  if (reply.tag == kServe) {
    serving_ = reply.status.ok();
    if (serving_) CheckRegisters();
    return;
  }
  const auto node = requests_.extract(static_cast<uint64_t>(reply.tag));
  if (node.empty()) return Violate("a reply to no request, or a second one");
  Note("reply ", node.key(), ": ", reply.status.ToString());
  const Request& request = node.mapped();
  if (reply.status.ok() && reply.topic != nullptr) {
    std::string& last = names_[reply.topic->id];
    if (!last.empty() && last != request.topic) Count("numbers taken over");
    last = request.topic;
  }
  const bool unknown = absl::IsUnavailable(reply.status);
  for (const auto& [name, value] : request.gives) {
    Register& of = registers_[{request.topic, name}];
    of.open.erase(node.key());
    if (reply.status.ok()) of.possible = {value};
    if (unknown) of.possible.insert(value);
  }
  if (unknown && !fault_expected_) Violate("an error of the storage, while nothing was wrong");
  if (reply.status.ok()) CheckReply(reply, request);
  if (absl::StrContains(reply.status.message(), "too many topics")) Count("topics refused");
}

void CatalogCalls::CheckReply(const catalog::Reply& reply, const Request& request) {
  if (request.schedules) {
    Count("created by use");
    posts_.push_back({.topic = request.topic, .id = reply.topic->id});
    return;
  }
  if (request.deletes_topic) {
    Count("topics deleted");
    // Another call may have used the topic during the deletion, or may use the topic before its own
    // answer.
    Topic& topic = topics_[request.topic];
    const auto about = [&request](const auto& item) { return item.second.topic == request.topic; };
    topic.used = topic.uses != request.uses_before || !topic.messages.empty() ||
                 std::any_of(requests_.begin(), requests_.end(), about) ||
                 std::any_of(posts_.begin(), posts_.end(),
                             [&](const Post& post) { return post.topic == request.topic; }) ||
                 std::any_of(schedules_.begin(), schedules_.end(),
                             [&](const auto& item) { return item.second.topic == request.topic; });
    return;
  }
  const auto& [name, value] = *request.gives.begin();
  Count(name.empty() ? "topics changed" : value == 0 ? "unsubscribed" : "subscribed");
  if (name.empty() && reply.topic->settings.max_payload_bytes() != value) {
    Violate("the answer has other settings of the topic");
  }
  if (!name.empty() && value != 0 &&
      reply.subscription->settings.retention_max_messages() != value) {
    Violate("the answer has other settings of the subscription");
  }
}

// ---- The runtime -------------------------------------------------------------------------------

void CatalogCalls::StepShard(uint16_t shard) {
  auto& commands = to_shards_[shard];
  for (size_t left = healing_ ? commands.size() : Random(4); left > 0 && !commands.empty();
       --left) {
    shards_[shard]->Handle(now_, std::move(commands.front()));
    commands.pop_front();
  }
  StepHeld(shard, now_);
  Collect(shard);
}

void CatalogCalls::StepCatalog() {
  for (size_t left = healing_ ? to_catalog_.size() : Random(4); left > 0 && !to_catalog_.empty();
       --left) {
    catalog::Command command = std::move(to_catalog_.front());
    to_catalog_.pop_front();
    catalog_->Handle(now_, std::move(command));
  }
  CollectCatalog();
}

void CatalogCalls::OnCommitted(size_t participant, uint64_t sequence, AppendOutcome outcome) {
  if (participant == catalog_participant()) {
    catalog_->OnCommitted(now_, sequence, outcome);
    return CollectCatalog();
  }
  World::OnCommitted(participant, sequence, outcome);
  Collect(static_cast<uint16_t>(participant));
}

void CatalogCalls::Collect(uint16_t shard) {
  if (auto batch = shards_[shard]->TakeBatch()) {
    Submit(shard, *std::move(batch), /*may_answer_early=*/false);
  }
  const protocol::Effects effects = TakeEffects(shard);
  for (const storage::TopicId topic : effects.used_topics) {
    to_catalog_.emplace_back(catalog::TopicUsed{.topic = topic});
  }
  for (const protocol::Reply& reply : effects.replies) {
    if (const auto* topic = std::get_if<protocol::TopicReply>(&reply)) {
      to_catalog_.emplace_back(*topic);
    } else if (const auto* changed = std::get_if<protocol::SubscriptionReply>(&reply)) {
      to_catalog_.emplace_back(*changed);
    } else if (const auto* scheduled = std::get_if<protocol::ScheduleReply>(&reply)) {
      const auto node = schedules_.extract(scheduled->tag);
      if (!scheduled->status.ok() || !scheduled->accepted[0].status.ok()) continue;
      const Post& post = node.mapped();
      const storage::MessageId& id = scheduled->accepted[0].id;
      const auto [first, is_new] = accepted_.emplace(id, post.topic);
      if (first->second != post.topic) {
        Violate(absl::StrCat("a request of topic ", post.topic, " has the answer of one of topic ",
                             first->second));
      }
      if (!is_new) {
        Count("requests repeated");
        continue;
      }
      Note("topic ", post.topic, " has ", id.ToString());
      topics_[post.topic].Use();
      topics_[post.topic].messages.emplace(scheduled->accepted[0].id, post.id);
      Count("accepted");
    }
  }
  if (effects.failed) OnFailure();
}

// Carries out the catalog's effects as runtime::Node does.
void CatalogCalls::CollectCatalog() {
  if (auto batch = catalog_->TakeBatch()) {
    Submit(catalog_participant(), *std::move(batch), /*may_answer_early=*/true);
  }
  catalog::Effects effects = catalog_->TakeEffects();
  for (catalog::ShardCommand& command : effects.commands) {
    auto* const topic = std::get_if<protocol::TopicCommand>(&command.command);
    if (topic != nullptr && fault_ == PlantedFault::kForgetUse) topic->use = nullptr;
    std::visit([&](auto& of) { Send(command.shard, std::move(of)); }, command.command);
  }
  if (effects.snapshot != nullptr) cell_->Publish(std::move(effects.snapshot));
  for (const catalog::Reply& reply : effects.replies) OnReply(reply);
  if (effects.failed) OnFailure();
}

// ---- Checks ------------------------------------------------------------------------------------

void CatalogCalls::CheckVisible() {
  if (!serving_) return;
  for (const auto& [name, topic] : topics_) {
    const catalog::TopicPtr found = cell_->Read().FindTopic(name);
    if (found == nullptr && !topic.messages.empty()) {
      Violate(absl::StrCat("topic ", name, " has a message and is not visible"));
    }
    for (const auto& [id, number] : topic.messages) {
      if (found != nullptr && found->id != number) {
        Violate(absl::StrCat("topic ", name, " has another number than its message"));
      }
    }
    if (found != nullptr && !topic.used) {
      Violate(absl::StrCat("topic ", name, " is visible, and no call has used it"));
    }
  }
}

void CatalogCalls::CheckRegisters() {
  const catalog::Snapshot& catalog = cell_->Read();
  for (const auto& [name, of] : registers_) {
    uint64_t value = 0;
    const catalog::TopicPtr topic = catalog.FindTopic(name.first);
    if (topic != nullptr && name.second.empty()) value = topic->settings.max_payload_bytes();
    if (topic != nullptr && !name.second.empty()) {
      const auto found = catalog.FindSubscription(topic->id, name.second);
      if (found != nullptr) value = found->settings.retention_max_messages();
    }
    if (!of.Allows(value)) {
      Violate(absl::StrCat("topic ", name.first, ", subscription '", name.second,
                           "': no call gave it the value ", value,
                           topic == nullptr ? ", and it is not visible" : ""));
    }
  }
}

// Checks that every shard has exactly the named subscriptions of the catalog.
void CatalogCalls::CheckShards() {
  const catalog::Snapshot& catalog = cell_->Read();
  for (uint16_t shard = 0; shard < shard_count_; ++shard) {
    std::vector<storage::ObjectRef> objects;
    if (!store_->ScanObjects(storage::ObjectKind::kSubscription, shard, "", 100'000, &objects)
             .ok()) {
      return Violate("the subscriptions of a shard cannot be read");
    }
    size_t named = 0;
    for (const storage::ObjectRef& object : objects) {
      const auto state = protocol::DecodeSubscription(object.name, object.value);
      if (!state.ok()) return Violate("a subscription of a shard is damaged");
      if (state->name.empty() || state->deleting || state->deleted) continue;
      ++named;
      const auto known = catalog.FindSubscription(state->topic, state->name);
      if (known == nullptr || known->id != state->id || known->settings != state->settings) {
        Violate(absl::StrCat("shard ", shard, " has another subscription ", state->name));
      }
    }
    if (named != catalog.subscriptions()) Violate("a shard lacks a subscription");
  }
}

}  // namespace duetime::simulation
