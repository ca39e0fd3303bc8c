// SPDX-License-Identifier: Apache-2.0
//
// What receives and settles, subscriptions and dead letters against a server that answers as the
// test says.
#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "client/cli/commands.h"
#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

TEST_F(CommandsTest, SubscribePrintsAndSettlesAsItIsTold) {
  v1::SubscribeRequest start;
  std::atomic<int> dead_letters{0};
  server_.on_subscribe = [&](client::ServerStream* stream, grpc::ServerContext*) {
    v1::SubscribeRequest request;
    stream->Read(&start);
    v1::SubscribeResponse response;
    response.mutable_started();
    for (uint64_t token = 1; token <= 40; ++token) {
      response.add_deliveries()->set_lease_token(token);
    }
    stream->Write(response);
    while (stream->Read(&request)) {
      response.Clear();
      for (const v1::DeadLetterLease& lease : request.dead_letter()) {
        EXPECT_EQ(lease.reason(), "r");
        response.add_settled(lease.lease_token());
        ++dead_letters;
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  server_.Start();
  // More come than are wanted; the others are left alone.
  const Result result = Cli({"subscribe", "t", "-s", "billing", "--dead-letter", "--reason", "r",
                             "--max", "30", "--workers", "4", "--json"});
  EXPECT_EQ(result.code, kDone) << result.err;
  EXPECT_EQ(start.start().subscription(), "billing");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 30);
  EXPECT_EQ(dead_letters, 30);
  const Json totals = Json::parse(result.err);
  EXPECT_EQ(totals["received"], 30);
  EXPECT_EQ(totals["dead_lettered"], 30);
}

TEST_F(CommandsTest, PullPrintsTokensAndAcksIfItIsTold) {
  std::atomic<bool> empty{false};
  server_.On<v1::PullRequest, v1::PullResponse>([&](const v1::PullRequest&, v1::PullResponse* out) {
    if (empty) return grpc::Status::OK;
    out->add_deliveries()->set_lease_token(0xA1);
    out->add_deliveries()->set_lease_token(0xA2);
    return grpc::Status::OK;
  });
  server_.On<v1::SettleRequest, v1::SettleResponse>(
      [&](const v1::SettleRequest& request, v1::SettleResponse* response) {
        response->add_settled(request.ack(0));
        response->add_refused()->set_lease_token(request.ack(1));
        response->mutable_refused(0)->set_reason(v1::SettleRefusal::LEASE_LOST);
        return grpc::Status::OK;
      });
  server_.Start();
  Result result = Cli({"pull", "t", "--max", "2"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_THAT(result.out, StartsWith("00000000000000a1  "));
  EXPECT_THAT(result.out, HasSubstr("\n00000000000000a2  "));
  EXPECT_TRUE(server_.Seen<v1::SettleRequest>().empty());
  result = Cli({"pull", "t", "--max", "2", "--ack"});
  EXPECT_EQ(result.code, kNotAsWished);
  EXPECT_THAT(result.err, StartsWith("00000000000000a2  refused"));
  ASSERT_EQ(server_.Seen<v1::SettleRequest>().size(), 1u);
  EXPECT_EQ(server_.Seen<v1::SettleRequest>()[0].ack_size(), 2);
  empty = true;
  result = Cli({"pull", "t"});
  EXPECT_EQ(result.code, kNotAsWished);
  EXPECT_EQ(result.err, "nothing\n");
}

TEST_F(CommandsTest, SettleSaysWhatBecameOfEach) {
  v1::SettleResponse response;
  response.add_settled(1);
  response.add_refused()->set_lease_token(2);
  server_.Answer<v1::SettleRequest>(response);
  server_.Start();
  EXPECT_EQ(Cli({"settle", "1", "--ack"}).out, "0000000000000001  settled\n");
  EXPECT_EQ(Cli({"settle", "1", "--ack"}).code, kDone);
  const Result result = Cli({"settle", "1", "2", "--nack", "policy", "--json"});
  EXPECT_EQ(result.code, kNotAsWished);
  EXPECT_EQ(Json::parse(result.out.substr(0, result.out.find('\n')))["settled"], true);
}

TEST_F(CommandsTest, TopicsArePausedAndPaced) {
  v1::PauseTopicResponse paused;
  paused.mutable_topic()->set_name("t");
  paused.mutable_topic()->mutable_settings()->set_paused(true);
  server_.Answer<v1::PauseTopicRequest>(paused);
  v1::ResumeTopicResponse resumed;
  resumed.mutable_topic()->set_name("t");
  server_.Answer<v1::ResumeTopicRequest>(resumed);
  server_.Start();
  EXPECT_THAT(Cli({"topic", "pause", "t"}).out, HasSubstr("paused        yes"));
  EXPECT_THAT(Cli({"topic", "resume", "t"}).out, StartsWith("topic         t\nmax pending"));
}

TEST_F(CommandsTest, SubscriptionsComeAndGo) {
  const auto named = [](auto response) {
    response.mutable_subscription()->set_topic("t");
    response.mutable_subscription()->set_name("s");
    return response;
  };
  server_.Answer<v1::CreateSubscriptionRequest>(named(v1::CreateSubscriptionResponse()));
  server_.Answer<v1::GetSubscriptionRequest>(named(v1::GetSubscriptionResponse()));
  server_.Answer<v1::UpdateSubscriptionRequest>(named(v1::UpdateSubscriptionResponse()));
  server_.Answer<v1::DeleteSubscriptionRequest>(v1::DeleteSubscriptionResponse());
  v1::ListSubscriptionsResponse list;
  list.add_subscriptions()->set_name("s");
  server_.Answer<v1::ListSubscriptionsRequest>(list);
  server_.Start();
  const std::string head = "topic         t\nsubscription  s\n";
  EXPECT_THAT(Cli({"subscription", "create", "t", "s"}).out, StartsWith(head));
  EXPECT_THAT(Cli({"subscription", "get", "t", "s"}).out, StartsWith(head));
  EXPECT_THAT(Cli({"subscription", "pause", "t", "s"}).out, StartsWith(head));
  EXPECT_EQ(Json::parse(Cli({"subscription", "get", "t", "s", "--json"}).out)["name"], "s");
  EXPECT_THAT(Cli({"subscription", "list", "t"}).out, HasSubstr("\ns     active"));
  EXPECT_EQ(Cli({"subscription", "delete", "t"}).out,
            "subscription default of topic t is deleted\n");
  EXPECT_EQ(Cli({"subscription", "delete", "t", "s"}).out,
            "subscription s of topic t is deleted\n");
}

// Where the dead letters are looked for.
class DeadLetterTest : public CommandsTest {
 protected:
  DeadLetterTest() {
    v1::ListResponse page;
    page.add_messages()->mutable_dead_letter()->set_message_id("id0");
    server_.Answer<v1::ListRequest>(page);
    server_.On<v1::StartBulkRequest, v1::Operation>(
        [](const v1::StartBulkRequest& request, v1::Operation* operation) {
          operation->set_name("n");
          operation->set_topic(request.topic());
          operation->set_state(v1::Operation::DONE);
          return grpc::Status::OK;
        });
  }

  void TopicSays(const std::string& dead_letter_topic) {
    v1::GetTopicResponse topic;
    topic.mutable_topic()->mutable_settings()->set_dead_letter_topic(dead_letter_topic);
    server_.Answer<v1::GetTopicRequest>(topic);
  }

  // Nothing if no list was asked for.
  std::string ListedTopic() {
    const auto seen = server_.Seen<v1::ListRequest>();
    return seen.empty() ? "" : seen.back().topic();
  }
};

TEST_F(DeadLetterTest, AreWhereTheTopicSays) {
  TopicSays("failures");
  server_.Start();
  const Result result = Cli({"dlq", "list", "t"});
  EXPECT_EQ(result.code, kDone) << result.err;
  EXPECT_THAT(result.out, HasSubstr("id0"));
  EXPECT_EQ(ListedTopic(), "failures");
  EXPECT_EQ(server_.Seen<v1::GetTopicRequest>()[0].name(), "t");
  EXPECT_EQ(Cli({"dlq", "redrive", "t", "--all"}).code, kDone);
  const v1::StartBulkRequest bulk = server_.Seen<v1::StartBulkRequest>().at(0);
  EXPECT_EQ(bulk.topic(), "failures");
  EXPECT_EQ(bulk.action(), v1::BULK_REDRIVE);
  EXPECT_EQ(Cli({"dlq", "purge", "t", "--dead-letter-topic", "d", "--all"}).code, kDone);
  EXPECT_EQ(server_.Seen<v1::StartBulkRequest>().at(1).topic(), "d");
  EXPECT_EQ(server_.Seen<v1::StartBulkRequest>().at(1).action(), v1::BULK_PURGE);
}

TEST_F(DeadLetterTest, AreBesideATopicThatSaysNothing) {
  TopicSays("");
  server_.Start();
  EXPECT_EQ(Cli({"dlq", "list", "t"}).code, kDone);
  EXPECT_EQ(ListedTopic(), "t.dlq");
}

TEST_F(DeadLetterTest, AreWhereTheSubscriptionSays) {
  TopicSays("failures");
  std::string own = "billing-failures";
  server_.On<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(
      [&](const v1::GetSubscriptionRequest& request, v1::GetSubscriptionResponse* response) {
        EXPECT_EQ(request.name(), "billing");
        response->mutable_subscription()->mutable_settings()->set_dead_letter_topic(own);
        return grpc::Status::OK;
      });
  server_.Start();
  EXPECT_EQ(Cli({"dlq", "list", "t", "-s", "billing"}).code, kDone);
  EXPECT_EQ(ListedTopic(), "billing-failures");
  own = "";
  EXPECT_EQ(Cli({"dlq", "list", "t", "-s", "billing"}).code, kDone);
  EXPECT_EQ(ListedTopic(), "failures");
}

TEST_F(DeadLetterTest, OfATopicThatIsGoneAreFoundAndOneThatNeverWasIsSaid) {
  Refuse<v1::GetTopicRequest, v1::GetTopicResponse>(grpc::StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND");
  server_.Start();
  EXPECT_EQ(Cli({"dlq", "list", "t"}).code, kDone);
  EXPECT_EQ(ListedTopic(), "t.dlq");
  server_.Stop();
  Refuse<v1::ListRequest, v1::ListResponse>(grpc::StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND");
  server_.Start();
  EXPECT_EQ(Cli({"dlq", "list", "t"}).code, kNotAsWished);
  server_.Stop();
  // A topic that is there and never had one has none.
  TopicSays("");
  server_.Start();
  const Result result = Cli({"dlq", "list", "t"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_EQ(result.err, "nothing\n");
}

}  // namespace
}  // namespace duetime::cli
