// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/trial.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

namespace duetime::cells {
namespace {

using std::chrono::milliseconds;

// Longer than the longest delay of a message (12 s), and a lease (3 s).
constexpr int64_t kQuietMs = 16'500;
constexpr int64_t kDrainTimeoutMs = 180'000;
constexpr std::chrono::seconds kEchoTimeout(30);
constexpr milliseconds kAskMembers(50);
constexpr milliseconds kGetTimeout(2'000);
// Exit codes, as of JudgeFiles.
constexpr int kBroken = 1;
constexpr int kTooLittle = 2;
constexpr int kCannotRun = 77;

// Removes the logs of an earlier trial.
std::string Prepare(const std::string& out) {
  std::error_code ignored;
  std::filesystem::create_directories(out, ignored);
  for (int member = 0; member < kMembers; ++member) {
    std::filesystem::remove(out + "/" + MemberHost(member) + ".log", ignored);
  }
  std::filesystem::remove(out + "/gateway.log", ignored);
  return std::filesystem::absolute(out).string();
}

// Whether the member answers a question about a message.
bool Answers(v1::Messages::Stub* stub, const std::string& id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kGetTimeout);
  v1::GetRequest request;
  request.set_message_id(id);
  v1::GetResponse response;
  const grpc::Status status = stub->Get(&context, request, &response);
  return status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND;
}

}  // namespace

void AddTrialOptions(CLI::App* app, TrialOptions* options) {
  app->add_option("--daemon", options->daemon, "The program of the members");
  app->add_option("--seed", options->seed, "Of everything random here")->envname("DUETIME_SEED");
  app->add_option("--shards", options->shards, "Of each member")->check(CLI::Range(1, 64));
  app->add_option("--out", options->out, "Directory for the logs of the members and the history");
  app->add_option("--topic", options->topic, "The topic of the cell, which must not exist yet");
}

int RefuseToRun() {
  std::printf("this test runs within `tests/cells/brokers.sh run` only\n");
  return kCannotRun;
}

Trial::Trial(const TrialOptions& options, Rig* rig)
    : options_(options),
      random_(options.seed),
      history_(Prepare(options.out) + "/history"),
      members_({.daemon = std::filesystem::absolute(options.daemon).string(),
                .topic = options.topic,
                .shards = options.shards,
                .log_keep_ms = options.log_keep_ms,
                .out = Prepare(options.out)}),
      leaderships_(members_.logs()),
      world_{.history = &history_, .leaderships = &leaderships_},
      cell_({.rig = rig,
             .members = &members_,
             .world = &world_,
             .topic = options.topic,
             .random = &random_}) {
  std::printf("seed %llu, %d shards\n", static_cast<unsigned long long>(options.seed),
              options.shards);
}

Trial::~Trial() {
  if (clients_ != nullptr) clients_->Stop();
}

bool Trial::Begin() {
  history_.Add({.run = 1, .what = test::What::kStart});
  if (!StartCell(cell_)) return false;
  members_.StartGateway();
  clients_ = std::make_unique<Clients>(random_(), &world_);
  return AwaitServing(cell_, kServeTimeout) && cell_.rig->AwaitInSync(cell_.topic, kInSyncTimeout);
}

bool Trial::Cause(const Fault& fault) { return cells::Cause(cell_, fault, &outages_); }

bool Trial::Drain() {
  clients_->Stop();
  std::vector<std::unique_ptr<CellSubscriber>> subscribers;
  for (int topic = 0; topic < kTopics; ++topic) {
    subscribers.push_back(std::make_unique<CellSubscriber>(
        CellSubscriber::Where{.target = CellTarget(), .topic = TopicName(topic), .diligent = true},
        random_(), &world_));
    subscribers.back()->Begin();
  }
  const int64_t begun_ms = crash::SteadyMillis();
  const auto quiet = [&] {
    for (const auto& subscriber : subscribers) {
      if (crash::SteadyMillis() - subscriber->last_delivery_ms() < kQuietMs) return false;
    }
    return !crash::AnyOpen(Connect(CellTarget()));
  };
  while (!quiet() && crash::SteadyMillis() - begun_ms < kDrainTimeoutMs) {
    for (const auto& subscriber : subscribers) subscriber->EndSilentStream();
    std::this_thread::sleep_for(kAskMembers);
  }
  const bool drained = quiet();
  for (const auto& subscriber : subscribers) subscriber->Stop();
  history_.Add({.what = test::What::kDrained});
  std::printf("drained in %.1f s%s\n",
              static_cast<double>(crash::SteadyMillis() - begun_ms) / 1'000,
              drained ? "" : ": deliveries do not end");
  return drained;
}

// Asks for the changes only once the member answers, because a cancel without an answer would
// excuse a loss.
bool Trial::AskLeader() {
  const auto messages = world_.accepted.All();
  if (messages.empty()) return false;
  const int64_t begun_ms = crash::SteadyMillis();
  while (crash::SteadyMillis() - begun_ms < milliseconds(kServeTimeout).count()) {
    const int leader = leaderships_.Leader();
    const std::shared_ptr<grpc::Channel> channel = Connect(MemberAddress(leader));
    if (!Answers(v1::Messages::NewStub(channel).get(), messages.front().second)) {
      std::this_thread::sleep_for(kAskMembers);
      continue;
    }
    const bool asked =
        crash::AskAfterAll(channel, leaderships_.Newest(), world_.accepted, &history_);
    std::printf("%s in epoch %u %s about %zu messages\n", MemberHost(leader).c_str(),
                leaderships_.Newest(), asked ? "was asked" : "did not answer", messages.size());
    return asked;
  }
  std::printf("no member answers\n");
  return false;
}

bool Trial::AskAllMembers() {
  for (int i = 0; i < kMembers; ++i) {
    const int leader = leaderships_.Leader();
    const uint32_t epoch = leaderships_.Newest();
    if (!AskLeader() || !members_.Alive(leader)) return false;
    if (!members_.Terminate(leader)) return false;
    if (i + 1 == kMembers) return true;
    const int64_t begun_ms = crash::SteadyMillis();
    while (leaderships_.Newest() == epoch) {
      if (crash::SteadyMillis() - begun_ms > milliseconds(kServeTimeout).count()) return false;
      std::this_thread::sleep_for(kAskMembers);
    }
  }
  return true;
}

int Trial::End(const test::Counts& minimum) {
  const int64_t takeovers = this->takeovers();
  if (!Drain()) return GiveUp();
  const bool all_came = clients_->echo().AwaitAll(kEchoTimeout);
  if (!AskAllMembers()) return GiveUp();
  PrintOutages(outages_);
  const bool fetched = members_.wipes() == 0 || members_.fetches() > 0;
  if (!fetched) std::printf("no member without its directory has fetched a checkpoint\n");
  int code = JudgeAndKeep(&history_, {.minimum = minimum}, /*keep=*/!all_came || !fetched);
  if (code == 0 && !fetched) code = kTooLittle;
  if (!all_came) code = kBroken;
  std::printf("seed %llu: %zu faults, %lld takeovers, %u messages\n",
              static_cast<unsigned long long>(options_.seed), outages_.size(),
              static_cast<long long>(takeovers), history_.messages());
  return code;
}

int Trial::GiveUp() {
  if (clients_ != nullptr) clients_->Stop();
  PrintOutages(outages_);
  return KeepUnjudged(&history_);
}

}  // namespace duetime::cells
