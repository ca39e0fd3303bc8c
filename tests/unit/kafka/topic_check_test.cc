// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/topic_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::kafka {
namespace {

using ::testing::HasSubstr;

KafkaOptions Options(uint32_t replicas) {
  KafkaOptions options;
  options.topic = "cell";
  options.replicas = replicas;
  options.entry_bytes_max = 10'000;
  return options;
}

TopicFacts GoodFacts() {
  return {.partitions = 1,
          .replicas = 3,
          .settings = {{"min.insync.replicas", "2"},
                       {"unclean.leader.election.enable", "false"},
                       {"retention.ms", "-1"},
                       {"retention.bytes", "-1"},
                       {"cleanup.policy", "delete"},
                       {"max.message.bytes", "11024"},
                       {"message.timestamp.type", "LogAppendTime"}}};
}

TEST(TopicCheckTest, TakesATopicThatLosesNothing) {
  TopicFacts facts = GoodFacts();
  EXPECT_TRUE(CheckTopicFacts(Options(3), facts).ok());
  facts.replicas = 5;
  facts.settings["min.insync.replicas"] = "3";
  facts.settings["max.message.bytes"] = "1048588";
  EXPECT_TRUE(CheckTopicFacts(Options(3), facts).ok());
  facts = GoodFacts();
  facts.replicas = 1;
  facts.settings["min.insync.replicas"] = "1";
  EXPECT_TRUE(CheckTopicFacts(Options(1), facts).ok());
}

TEST(TopicCheckTest, RefusesEachSettingThatLosesData) {
  struct Case {
    const char* name;
    const char* value;
    const char* needed;
  };
  for (const Case& one :
       {Case{"min.insync.replicas", "1", "at least 2"},
        Case{"unclean.leader.election.enable", "true", "false"},
        Case{"retention.ms", "604800000", "-1"}, Case{"retention.bytes", "1", "-1"},
        Case{"cleanup.policy", "compact", "delete"},
        Case{"cleanup.policy", "compact,delete", "delete"},
        Case{"max.message.bytes", "11023", "at least 11024"},
        Case{"max.message.bytes", "", "at least 11024"},
        Case{"message.timestamp.type", "CreateTime", "LogAppendTime"}}) {
    TopicFacts facts = GoodFacts();
    facts.settings[one.name] = one.value;
    const absl::Status status = CheckTopicFacts(Options(3), facts);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(status.message(), std::string("topic cell: ") + one.name + " is " + one.value +
                                    ", must be " + one.needed);
    facts.settings.erase(one.name);
    EXPECT_THAT(std::string(CheckTopicFacts(Options(3), facts).message()),
                HasSubstr(std::string(one.name) + " is unknown"));
  }
}

TEST(TopicCheckTest, RefusesMorePartitionsAndFewerReplicas) {
  TopicFacts facts = GoodFacts();
  facts.partitions = 2;
  facts.replicas = 2;
  const absl::Status status = CheckTopicFacts(Options(3), facts);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(),
            "topic cell: the number of partitions is 2, must be 1; the number of replicas is 2, "
            "must be at least 3");
}

}  // namespace
}  // namespace duetime::kafka
