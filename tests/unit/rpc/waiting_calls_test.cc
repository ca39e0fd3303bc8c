// SPDX-License-Identifier: Apache-2.0
//
// Floods of calls whose commands wait for shards that stand still.
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/api/call_table.h"
#include "server/api/reply_table.h"
#include "server/base/mutex.h"
#include "server/protocol/lease_token.h"
#include "tests/unit/rpc/subscription_fixture.h"

namespace duetime::rpc {
namespace {

constexpr uint16_t kShards[] = {0, 1};

class WaitingCallsTest : public SubscriptionFixture {
 protected:
  // Repeats `done` until it is true, within the deadline of a test.
  template <typename Done>
  static void Await(Done done) {
    const auto end = std::chrono::steady_clock::now() + kTestDeadline;
    while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(done());
  }
  // Neither of two shards answers afterwards: each has a batch that does not commit, and takes no
  // further command. REQUIRES: `group.bytes_max` is 1.
  void StandStill(GatedStore* gate) {
    gate->SetOpen(false);
    for (const uint16_t shard : kShards) {
      protocol::OperationCommand command;
      command.tag = api::kNoReply;
      command.name = "stands still";
      command.spec = protocol::OperationSpec{
          .topic = storage::TopicId{1}, .filter = {}, .action = protocol::BulkAction::kCancel};
      node_->PostAlways(shard, command);
    }
    Await([this] { return node_->mailbox_commands() == 0; });
  }
};

// A kind of calls whose commands wait for shards.
struct Flood {
  std::string name;
  metrics::RpcMethod method;
  // The number of calls that wait. The server refuses the others.
  size_t wait;
  // The number tells the calls apart.
  std::function<grpc::Status(int)> call;
};

TEST_F(WaitingCallsTest, AreBounded) {
  constexpr size_t kMax = 8;
  constexpr int kCalls = 5 * kMax;
  shards_ = 2;
  node_options_.mailbox.commands_max = kMax;
  node_options_.group.bytes_max = 1;
  GatedStore* const gate = UseGatedStore();
  Start();
  ASSERT_TRUE(Create("t", "s").ok());
  const Flood floods[] = {
      {"GetSubscription", api::MethodOf<v1::GetSubscriptionRequest>(), kMax,
       [this](int) { return Call(&Admin::GetSubscription, "topic: 't' name: 's'"); }},
      {"StartBulk", api::MethodOf<v1::StartBulkRequest>(), kMax,
       [this](int i) {
         return Call(&Admin::StartBulk,
                     absl::StrCat("topic: 't' action: BULK_ACTION_CANCEL name: 'op", i, "'"));
       }},
      // Shares the limit of StartBulk.
      {"CancelOperation", api::MethodOf<v1::CancelOperationRequest>(), 0,
       [this](int i) {
         const grpc::Status status =
             Call(&Admin::CancelOperation, absl::StrCat("name: 'op", i, "'"));
         return status.error_code() == grpc::StatusCode::NOT_FOUND ? grpc::Status::OK : status;
       }},
      {"Settle", api::MethodOf<v1::SettleRequest>(), kMax,
       [this](int i) {
         v1::SettleRequest settle;
         for (const uint16_t shard : kShards) {
           const auto token = protocol::MakeToken({}, shard, /*epoch=*/0, static_cast<uint64_t>(i));
           protocol::WriteLease(token, settle.add_settlements()->mutable_lease_token());
         }
         return Call(&Messages::Settle, settle);
       }},
  };
  StandStill(gate);
  std::vector<std::thread> clients;
  size_t waiting = 0;
  std::map<std::string, std::multiset<std::string>> ends;
  base::Mutex mutex;
  for (const Flood& flood : floods) {
    for (int i = 0; i < kCalls; ++i) {
      clients.emplace_back([&, i] {
        const grpc::Status status = flood.call(i);
        const base::MutexLock lock(&mutex);
        ends[flood.name].insert(status.ok() ? "OK" : ReasonOf(status));
      });
    }
    Await([&] { return stats_.of(flood.method).started.load() == kCalls; });
    // The server's only thread has posted the commands once it answers later calls.
    EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
    waiting += flood.wait;
    for (const uint16_t shard : kShards) {
      EXPECT_EQ(node_->mailbox_stats()[shard].commands, waiting) << flood.name << shard;
    }
  }
  gate->SetOpen(true);
  for (std::thread& client : clients) client.join();
  for (const Flood& flood : floods) {
    SCOPED_TRACE(flood.name);
    EXPECT_EQ(ends[flood.name].count("OK"), flood.wait);
    EXPECT_EQ(ends[flood.name].count("OVERLOADED"), kCalls - flood.wait);
    EXPECT_TRUE(flood.call(kCalls).ok());
  }
  for (int i = 0; i <= kCalls; ++i) {
    v1::GetOperationResponse got;
    if (!Call(&Admin::GetOperation, absl::StrCat("name: 'op", i, "'"), &got).ok()) continue;
    EXPECT_NE(got.operation().state(), v1::Operation::STATE_STARTING) << i;
  }
}

// A stream that has ended counts until the shards know it.
TEST_F(WaitingCallsTest, StreamsThatComeAndGoAreBounded) {
  constexpr size_t kMax = 8;
  shards_ = 2;
  node_options_.group.bytes_max = 1;
  GatedStore* const gate = UseGatedStore();
  api::ServerOptions options = DefaultOptions();
  options.streams_max = kMax;
  Start(options);
  ASSERT_TRUE(Create("t", "s").ok());
  StandStill(gate);
  const auto come_and_go = [this] {
    const auto context = NewContext();
    const auto stream = messages_->Subscribe(context.get());
    v1::SubscribeRequest request;
    request.mutable_start()->set_topic("t");
    request.mutable_start()->set_subscription("s");
    v1::SubscribeResponse response;
    if (stream->Write(request) && stream->Read(&response)) {
      context->TryCancel();
      EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
      return std::string("opened");
    }
    return ReasonOf(stream->Finish());
  };
  std::multiset<std::string> ends;
  for (size_t i = 0; i < 5 * kMax; ++i) ends.insert(come_and_go());
  EXPECT_EQ(ends.count("opened"), kMax);
  EXPECT_EQ(ends.count("STREAM_LIMIT"), 4 * kMax);
  // A stream tells each shard of its start, the end of its deliveries, and its end.
  for (const uint16_t shard : kShards) {
    EXPECT_LE(node_->mailbox_stats()[shard].commands, 3 * kMax) << shard;
  }
  gate->SetOpen(true);
  Await([this] { return server_->streams() == 0; });
  EXPECT_EQ(come_and_go(), "opened");
}

}  // namespace
}  // namespace duetime::rpc
