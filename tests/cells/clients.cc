// SPDX-License-Identifier: Apache-2.0
#include "tests/cells/clients.h"

#include <algorithm>
#include <utility>

#include "client/cpp/channel.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"
#include "tests/cells/rig.h"
#include "tests/support/settlements.h"

namespace duetime::cells {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTimeout(4'000);
constexpr milliseconds kLibraryPause(8);
constexpr milliseconds kDirectPause(4);
constexpr milliseconds kPauseAfterError(20);
constexpr milliseconds kPauseAfterStream(20);
constexpr milliseconds kEchoPause(20);
constexpr char kEchoTopic[] = "cell/echo";
// Four heartbeats of the members.
constexpr int64_t kSilenceMaxMs = 2'000;
constexpr milliseconds kLookAtStreams(200);
// Short, so that leases often end in the hands of a new leader.
constexpr int64_t kLeaseMs = 3'000;

bool Chance(std::mt19937_64* random, uint64_t percent) { return (*random)() % 100 < percent; }

// Often so short that the message comes due while its append is in flight; often so long that
// another member delivers it.
int64_t PickDelay(std::mt19937_64* random) {
  const uint64_t kind = (*random)() % 100;
  const uint64_t max_ms = kind < 35 ? 10 : kind < 75 ? 1'000 : 12'000;
  return static_cast<int64_t>((*random)() % max_ms);
}

v1::ScheduleRequest MakeMessage(uint32_t number, int64_t delay_ms, std::mt19937_64* random) {
  v1::ScheduleRequest request;
  request.set_topic(TopicName(static_cast<int>((*random)() % kTopics)));
  request.set_payload(std::to_string(number) + " " + std::string((*random)() % 300, 'x'));
  SetMillis(delay_ms, request.mutable_delay());
  return request;
}

client::Repeat PickRepeat(std::mt19937_64* random) {
  return Chance(random, 70) ? client::Repeat::kSafely : client::Repeat::kNever;
}

// The member behind an address like "ipv4:10.99.0.12:7788", or -1.
int MemberOf(const std::string& peer) {
  for (int member = 0; member < kMembers; ++member) {
    if (peer.find(MemberAddress(member)) != std::string::npos) return member;
  }
  return -1;
}

// Whether the status shows that the member leads or follows.
bool IsOfMember(const absl::Status& status) {
  return status.ok() || client::GetErrorInfo(status).reason == "NOT_LEADER";
}

std::unique_ptr<client::Client> OpenLibrary(const std::string& target) {
  client::ClientOptions options;
  options.server.target = target;
  options.deadline = absl::Seconds(6);
  return *client::Client::Create(options);
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  client::ServerAddress address;
  address.target = target;
  return *client::OpenChannel(address);
}

std::string TopicName(int topic) { return "cell/" + std::to_string(topic); }

void CellClient::Begin() {
  thread_ = std::thread([this] {
    while (!stopping_) {
      const milliseconds pause = Step();
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, pause, [this] { return stopping_.load(); });
    }
  });
}

void CellClient::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  Interrupt();
  if (thread_.joinable()) thread_.join();
}

LibraryCaller::LibraryCaller(Server server, uint16_t client, uint64_t seed, World* world)
    : server_(std::move(server)),
      world_(*world),
      random_(seed),
      recorder_(world, client),
      library_(OpenLibrary(server_.target)) {}

milliseconds LibraryCaller::Step() {
  const uint64_t kind = random_() % 100;
  if (kind < 45) {
    Schedule();
  } else if (kind < 60) {
    ScheduleBatch();
  } else if (kind < 75) {
    Cancel();
  } else {
    Get();
  }
  return kLibraryPause;
}

void LibraryCaller::Schedule() {
  const int64_t delay_ms = PickDelay(&random_);
  const uint32_t number = recorder_.BeginSchedule(delay_ms);
  const auto answer =
      library_->Schedule(MakeMessage(number, delay_ms, &random_), PickRepeat(&random_));
  recorder_.EndSchedule(number, answer.status(), answer.ok() ? answer->message() : v1::Message());
  if (answer.ok()) server_.accepted->Beat();
}

void LibraryCaller::ScheduleBatch() {
  v1::ScheduleBatchRequest batch;
  std::vector<uint32_t> numbers;
  for (uint64_t count = 2 + random_() % 8; count > 0; --count) {
    const int64_t delay_ms = PickDelay(&random_);
    numbers.push_back(recorder_.BeginSchedule(delay_ms));
    *batch.add_messages() = MakeMessage(numbers.back(), delay_ms, &random_);
  }
  const auto answers = library_->ScheduleBatch(batch, PickRepeat(&random_));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const absl::Status status = answers.ok() ? (*answers)[i].status() : answers.status();
    recorder_.EndSchedule(numbers[i], status,
                          status.ok() ? (*answers)[i]->message() : v1::Message());
  }
  if (answers.ok() &&
      std::any_of(answers->begin(), answers->end(), [](const auto& one) { return one.ok(); })) {
    server_.accepted->Beat();
  }
}

void LibraryCaller::Cancel() {
  const auto target = world_.accepted.PickRecent(&random_);
  if (!target.has_value()) return;
  const bool stop_redelivery = Chance(&random_, 25);
  recorder_.BeginCancel(target->first, stop_redelivery);
  const auto answer =
      library_->Cancel(client::Target::Id(server_.id_prefix + target->second), stop_redelivery);
  const client::CancelResult result = answer.ok() ? *answer : client::CancelResult();
  recorder_.EndCancel(answer.status(), result.answer, result.tried_before);
}

void LibraryCaller::Get() {
  const auto target = world_.accepted.PickRecent(&random_);
  if (!target.has_value()) return;
  recorder_.BeginGet(target->first);
  const auto answer = library_->Get(client::Target::Id(server_.id_prefix + target->second));
  recorder_.EndGet(answer.status(), answer.ok() ? answer->message() : v1::Message());
}

DirectCaller::DirectCaller(int member, uint16_t client, uint64_t seed, World* world)
    : member_(member),
      world_(*world),
      random_(seed),
      recorder_(world, client),
      stub_(v1::Messages::NewStub(Connect(MemberAddress(member)))) {}

milliseconds DirectCaller::Step() {
  const auto target = world_.accepted.PickRecent(&random_);
  // A refused change has an unknown outcome, which excuses later answers. So only few changes go to
  // members that do not lead.
  const bool change = world_.leaderships->Leader() == member_ || Chance(&random_, 3);
  const uint64_t kind = change ? random_() % 100 : 0;
  absl::Status status;
  if (kind >= 60 || (!target.has_value() && change)) {
    status = Schedule();
  } else if (!target.has_value()) {
    return kPauseAfterError;
  } else if (kind >= 45) {
    status = Move(*target);
  } else if (kind >= 30) {
    status = Cancel(*target);
  } else {
    status = Get(*target);
  }
  if (IsOfMember(status)) world_.answered[static_cast<size_t>(member_)].Beat();
  return absl::IsUnavailable(status) ? kPauseAfterError : kDirectPause;
}

absl::Status DirectCaller::Schedule() {
  const int64_t delay_ms = PickDelay(&random_);
  const uint32_t number = recorder_.BeginSchedule(delay_ms);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ScheduleResponse response;
  const absl::Status status = client::ToAbslStatus(
      stub_->Schedule(&context, MakeMessage(number, delay_ms, &random_), &response));
  recorder_.EndSchedule(number, status, response.message());
  if (status.ok()) world_.accepted_directly.Beat();
  return status;
}

absl::Status DirectCaller::Cancel(const crash::AcceptedMessages::Message& target) {
  v1::CancelRequest request;
  request.set_message_id(target.second);
  request.set_stop_redelivery(Chance(&random_, 25));
  recorder_.BeginCancel(target.first, request.stop_redelivery());
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::CancelResponse response;
  const absl::Status status = client::ToAbslStatus(stub_->Cancel(&context, request, &response));
  recorder_.EndCancel(status, response, /*tried_before=*/false);
  return status;
}

absl::Status DirectCaller::Move(const crash::AcceptedMessages::Message& target) {
  v1::RescheduleRequest request;
  request.set_message_id(target.second);
  const int64_t delay_ms = PickDelay(&random_);
  SetMillis(delay_ms, request.mutable_delay());
  recorder_.BeginMove(target.first, delay_ms);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::RescheduleResponse response;
  const absl::Status status = client::ToAbslStatus(stub_->Reschedule(&context, request, &response));
  recorder_.EndMove(status, response);
  return status;
}

absl::Status DirectCaller::Get(const crash::AcceptedMessages::Message& target) {
  v1::GetRequest request;
  request.set_message_id(target.second);
  recorder_.BeginGet(target.first);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetResponse response;
  const absl::Status status = client::ToAbslStatus(stub_->Get(&context, request, &response));
  recorder_.EndGet(status, response.message());
  return status;
}

CellSubscriber::CellSubscriber(Where where, uint64_t seed, World* world)
    : where_(std::move(where)),
      world_(*world),
      random_(seed),
      stub_(v1::Messages::NewStub(Connect(where_.target))),
      last_response_ms_(crash::SteadyMillis()),
      last_delivery_ms_(crash::SteadyMillis()) {}

void CellSubscriber::Interrupt() {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void CellSubscriber::EndSilentStream() {
  if (crash::SteadyMillis() - last_response_ms_ > kSilenceMaxMs) Interrupt();
}

milliseconds CellSubscriber::Step() {
  grpc::ClientContext context;
  {
    const std::lock_guard lock(mutex_);
    if (stopping()) return milliseconds(0);
    context_ = &context;
  }
  last_response_ms_ = crash::SteadyMillis();
  const auto stream = stub_->Subscribe(&context);
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic(where_.topic);
  request.mutable_start()->set_max_outstanding_messages(200);
  SetMillis(kLeaseMs, request.mutable_start()->mutable_lease_duration());
  stream->Write(request);
  v1::SubscribeResponse response;
  for (bool first = true; stream->Read(&response); first = false) {
    last_response_ms_ = crash::SteadyMillis();
    if (first) {
      const int member = MemberOf(context.peer());
      epoch_ = member < 0 ? 0 : world_.leaderships->NewestOf(member);
    }
    request.Clear();
    OnResponse(response, &request);
    if (request.ByteSizeLong() > 0) stream->Write(request);
    if (!where_.diligent && random_() % 1'000 == 0) context.TryCancel();
  }
  stream->Finish();
  for (auto& [token, event] : open_) {
    event.outcome = test::Outcome::kUnknown;
    world_.history->Add(event);
  }
  open_.clear();
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
  return kPauseAfterStream;
}

void CellSubscriber::OnResponse(const v1::SubscribeResponse& response,
                                v1::SubscribeRequest* answer) {
  for (const std::string& token : response.settled()) OnSettled(token, test::Outcome::kOk);
  for (const auto& refusal : response.refused()) {
    OnSettled(refusal.lease_token(), test::Outcome::kRefused);
  }
  for (const v1::Delivery& delivery : response.deliveries()) OnDelivery(delivery, answer);
}

void CellSubscriber::OnDelivery(const v1::Delivery& delivery, v1::SubscribeRequest* answer) {
  last_delivery_ms_ = crash::SteadyMillis();
  world_.delivered.Beat();
  const auto number =
      static_cast<uint32_t>(std::strtoul(delivery.payload().c_str(), nullptr, /*base=*/10));
  test::Event event = {
      .id = test::Fingerprint(delivery.message_id()),
      .time_ms = ToMillis(delivery.deliver_time()),
      .token = test::Fingerprint(delivery.lease_token()),
      .message = number,
      .run = epoch_,
      .attempt = static_cast<uint16_t>(delivery.attempt()),
      .what = test::What::kDelivery,
      .flags = delivery.maybe_redelivered() ? test::kMaybeRedelivered : uint8_t{0}};
  world_.history->Add(event);
  const uint64_t habit = where_.diligent ? 0 : random_() % 100;
  test::Event settlement = {
      .token = event.token, .message = number, .run = epoch_, .what = test::What::kAck};
  if (habit < 85) {
    answer->add_settlements()->set_lease_token(delivery.lease_token());
  } else if (habit < 92) {
    settlement.what = test::What::kNack;
    v1::Nack* const nack = test::AddSettlement(delivery.lease_token(), answer)->mutable_nack();
    SetMillis(static_cast<int64_t>(random_() % 500), nack->mutable_delay());
  } else if (habit < 95) {
    settlement.what = test::What::kRelease;
    test::AddSettlement(delivery.lease_token(), answer)->mutable_release();
  } else {
    return;
  }
  world_.history->Add(settlement);
  open_[delivery.lease_token()] = settlement;
}

void CellSubscriber::OnSettled(const std::string& token, test::Outcome outcome) {
  const auto found = open_.find(token);
  if (found == open_.end()) return;
  found->second.outcome = outcome;
  world_.history->Add(found->second);
  open_.erase(found);
}

GatewayEcho::GatewayEcho(World* world) : world_(*world), library_(OpenLibrary(kGatewayAddress)) {
  client::SubscriberOptions options;
  options.server.target = kGatewayAddress;
  options.topic = kEchoTopic;
  subscriber_ = *client::Subscriber::Start(options, [this](const client::Delivery& delivery) {
    world_.delivered_by_gateway.Beat();
    const std::lock_guard lock(mutex_);
    delivered_.emplace(delivery.message_id());
    return client::Settlement::Ack();
  });
}

milliseconds GatewayEcho::Step() {
  v1::ScheduleRequest request;
  request.set_topic(kEchoTopic);
  SetMillis(100, request.mutable_delay());
  const auto answer = library_->Schedule(request);
  if (!answer.ok()) return kPauseAfterError;
  const std::lock_guard lock(mutex_);
  accepted_.insert(answer->message().id());
  return kEchoPause;
}

std::vector<std::string> GatewayEcho::Missing() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  for (const std::string& id : accepted_) {
    if (!delivered_.contains(id)) missing.push_back(id);
  }
  return missing;
}

bool GatewayEcho::AwaitAll(std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!Missing().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLookAtStreams);
  }
  subscriber_->Stop().IgnoreError();
  const std::vector<std::string> missing = Missing();
  std::printf("through the gateway: %zu of %zu messages did not come\n", missing.size(),
              accepted_.size());
  for (size_t i = 0; i < std::min<size_t>(missing.size(), 5); ++i) {
    std::printf("  %s\n", missing[i].c_str());
  }
  return missing.empty();
}

Clients::Clients(uint64_t seed, World* world) : echo_(world) {
  std::mt19937_64 random(seed);
  uint16_t client = 0;
  for (LibraryCaller::Server server :
       {LibraryCaller::Server{CellTarget(), "", &world->accepted_by_library},
        LibraryCaller::Server{kGatewayAddress, std::string(kCellName) + ".",
                              &world->accepted_by_gateway}}) {
    callers_.push_back(
        std::make_unique<LibraryCaller>(std::move(server), ++client, random(), world));
  }
  for (int member = 0; member < kMembers; ++member) {
    callers_.push_back(std::make_unique<DirectCaller>(member, ++client, random(), world));
  }
  for (int topic = 0; topic < kTopics; ++topic) {
    for (const std::string& target : {CellTarget(), MemberAddress(topic % kMembers)}) {
      subscribers_.push_back(std::make_unique<CellSubscriber>(
          CellSubscriber::Where{.target = target, .topic = TopicName(topic)}, random(), world));
    }
  }
  echo_.Begin();
  for (const auto& caller : callers_) caller->Begin();
  for (const auto& subscriber : subscribers_) subscriber->Begin();
  watch_ = std::thread([this] {
    while (!stopping_) {
      for (const auto& subscriber : subscribers_) subscriber->EndSilentStream();
      std::this_thread::sleep_for(kLookAtStreams);
    }
  });
}

void Clients::Stop() {
  stopping_ = true;
  if (watch_.joinable()) watch_.join();
  echo_.Stop();
  for (const auto& caller : callers_) caller->Stop();
  for (const auto& subscriber : subscribers_) subscriber->Stop();
}

}  // namespace duetime::cells
