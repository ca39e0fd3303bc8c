// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/kafka_settings.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temp_directory.h"
#include "tests/unit/kafka/mock_brokers.h"

namespace duetime::kafka {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

TEST(KafkaPropertiesTest, TakesKeysOfSecurity) {
  const auto settings =
      ParseProperties("f",
                      "# a comment\n\n security.protocol = sasl_ssl \r\nsasl.password=a=b\n"
                      "ssl.ca.location=/ca\nenable.ssl.certificate.verification=true\nclient.id=\n"
                      "socket.keepalive.enable=true");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_THAT(*settings,
              ElementsAre(Pair("security.protocol", "sasl_ssl"), Pair("sasl.password", "a=b"),
                          Pair("ssl.ca.location", "/ca"),
                          Pair("enable.ssl.certificate.verification", "true"),
                          Pair("client.id", ""), Pair("socket.keepalive.enable", "true")));
}

TEST(KafkaPropertiesTest, RefusesOtherLines) {
  for (const auto& [text, place] : {std::pair("security.protocol=ssl\nacks=1", "f:2: key \"acks\""),
                                    std::pair("group.id=secret", "f:1: key \"group.id\""),
                                    std::pair("=secret", "f:1: key \"\""),
                                    std::pair("\nsasl.password", "f:2: not KEY=VALUE")}) {
    const auto settings = ParseProperties("f", text);
    EXPECT_TRUE(absl::IsInvalidArgument(settings.status())) << settings.status();
    EXPECT_THAT(std::string(settings.status().message()),
                AllOf(HasSubstr(place), Not(HasSubstr("secret"))));
  }
}

TEST(KafkaPropertiesTest, ReachTheClients) {
  const test::TempDirectory directory;
  KafkaOptions options = {
      .brokers = "127.0.0.1:1", .topic = "cell", .properties_file = "", .entry_bytes_max = 1'000};
  options.properties_file = directory.path() + "/kafka.properties";
  std::ofstream(options.properties_file) << "";
  EXPECT_TRUE(KafkaLog::Open(options, [](absl::string_view) {}).ok());
  for (const auto& [text, part] :
       {std::pair("security.protocol=none", "security.protocol"),
        std::pair("ssl.unknown=1", "ssl.unknown"),
        std::pair("security.protocol=ssl\nssl.ca.location=/nowhere/ca", "ssl.ca.location")}) {
    std::ofstream(options.properties_file) << text;
    const auto log = KafkaLog::Open(options, [](absl::string_view) {});
    EXPECT_TRUE(absl::IsInvalidArgument(log.status())) << text << log.status();
    EXPECT_THAT(std::string(log.status().message()), HasSubstr(part));
  }
}

}  // namespace
}  // namespace duetime::kafka
