// SPDX-License-Identifier: Apache-2.0
//
// Append, Read and End against brokers that fail.
#include "server/kafka/kafka_log.h"

#include <optional>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/base/clock.h"
#include "tests/unit/kafka/mock_brokers.h"

namespace duetime::kafka {
namespace {

using test::MockBrokers;
using ::testing::HasSubstr;

uint64_t MillisSince(uint64_t start_us) { return (base::ReadMicros() - start_us) / 1'000; }

bool MayTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

class KafkaLogTest : public ::testing::Test {
 protected:
  // Appends until it succeeds, as a journal does.
  static uint64_t AppendAtLast(KafkaLog* log, absl::string_view bytes) {
    const uint64_t start = base::ReadMicros();
    auto offset = log->Append(bytes);
    while (!offset.ok() && MayTryAgain(offset.status()) && MillisSince(start) < 20'000) {
      offset = log->Append(bytes);
    }
    EXPECT_TRUE(offset.ok()) << offset.status();
    return offset.value_or(0);
  }
  // Reads until there is an entry. Every failure on the way may pass.
  static std::optional<cell::LogEntry> ReadAtLast(KafkaLog* log, uint64_t offset) {
    const uint64_t start = base::ReadMicros();
    while (MillisSince(start) < 20'000) {
      const auto entry = log->Read(offset);
      if (!entry.ok() && !MayTryAgain(entry.status())) {
        ADD_FAILURE() << entry.status();
        return std::nullopt;
      }
      if (entry.ok() && entry->has_value()) return *entry;
    }
    ADD_FAILURE() << "no entry at " << offset;
    return std::nullopt;
  }
  static std::string BytesAt(KafkaLog* log, uint64_t offset) {
    const auto entry = ReadAtLast(log, offset);
    if (!entry.has_value()) return "";
    EXPECT_EQ(entry->offset, offset);
    return entry->bytes;
  }

  MockBrokers brokers_;
};

TEST_F(KafkaLogTest, AllMembersReadOneOrder) {
  const auto a = brokers_.Open();
  const auto b = brokers_.Open();
  const std::string binary("\0\n\xff", 3);
  EXPECT_EQ(AppendAtLast(a.get(), "a0"), 0u);
  EXPECT_EQ(AppendAtLast(b.get(), binary), 1u);
  EXPECT_EQ(AppendAtLast(a.get(), "a2"), 2u);
  for (KafkaLog* const log : {a.get(), b.get()}) {
    EXPECT_EQ(*log->End(), 3u);
    EXPECT_EQ(BytesAt(log, 0), "a0");
    EXPECT_EQ(BytesAt(log, 1), binary);
    EXPECT_EQ(BytesAt(log, 2), "a2");
    // Back, and forward past one.
    EXPECT_EQ(BytesAt(log, 0), "a0");
    EXPECT_EQ(BytesAt(log, 2), "a2");
  }
}

TEST_F(KafkaLogTest, APostArrivesAmongTheAppends) {
  const auto log = brokers_.Open();
  AppendAtLast(log.get(), "first");
  log->Post("posted");
  AppendAtLast(log.get(), "last");
  EXPECT_EQ(BytesAt(log.get(), 1), "posted");
  EXPECT_EQ(BytesAt(log.get(), 2), "last");
  EXPECT_GT(ReadAtLast(log.get(), 1)->time_ms, 1'600'000'000'000u);
}

TEST_F(KafkaLogTest, AReadOfNothingReturnsSoonAndJumpsNowhere) {
  const auto log = brokers_.Open();
  EXPECT_EQ(*log->End(), 0u);
  const uint64_t start = base::ReadMicros();
  EXPECT_EQ(*log->Read(0), std::nullopt);
  EXPECT_GE(MillisSince(start), 90u);
  EXPECT_LE(MillisSince(start), 2'000u);
  AppendAtLast(log.get(), "x");
  EXPECT_EQ(BytesAt(log.get(), 0), "x");
  // Beyond the end.
  for (int i = 0; i < 3; ++i) {
    const auto read = log->Read(5);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, std::nullopt);
  }
  for (uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(AppendAtLast(log.get(), std::to_string(i)), i);
  EXPECT_EQ(BytesAt(log.get(), 5), "5");
}

TEST_F(KafkaLogTest, SequentialReadsTakeWhatWasReadAhead) {
  const auto log = brokers_.Open();
  for (int i = 0; i < 50; ++i) AppendAtLast(log.get(), std::to_string(i));
  EXPECT_EQ(BytesAt(log.get(), 0), "0");
  // Meanwhile the reader fetches the others.
  const auto other = brokers_.Open();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*other->Read(50), std::nullopt);
  brokers_.SetDelay(1, 300);
  const uint64_t start = base::ReadMicros();
  for (uint64_t i = 1; i < 50; ++i) ASSERT_EQ(BytesAt(log.get(), i), std::to_string(i));
  EXPECT_LE(MillisSince(start), 7'000u);
}

struct AppendError {
  rd_kafka_resp_err_t error;
  absl::StatusCode code;
};

TEST_F(KafkaLogTest, AFailedAppendSaysIfItMaySucceedLater) {
  const auto log = brokers_.Open();
  uint64_t next = AppendAtLast(log.get(), "first") + 1;
  for (const AppendError& failure : std::initializer_list<AppendError>{
           {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, absl::StatusCode::kUnavailable},
           {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, absl::StatusCode::kUnavailable},
           {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, absl::StatusCode::kUnavailable},
           {RD_KAFKA_RESP_ERR_INVALID_MSG, absl::StatusCode::kUnavailable},
           {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, absl::StatusCode::kDeadlineExceeded},
           {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, absl::StatusCode::kInvalidArgument},
       }) {
    SCOPED_TRACE(rd_kafka_err2name(failure.error));
    brokers_.FailNext(MockBrokers::kProduce, {failure.error});
    const uint64_t start = base::ReadMicros();
    const auto appended = log->Append("x");
    EXPECT_EQ(appended.status().code(), failure.code) << appended.status();
    EXPECT_THAT(std::string(appended.status().message()),
                HasSubstr(rd_kafka_err2str(failure.error)));
    // The caller may call again at once.
    EXPECT_GE(MillisSince(start), 90u);
    // The brokers in memory keep no entry that they refuse.
    EXPECT_EQ(AppendAtLast(log.get(), "y"), next++);
  }
}

TEST_F(KafkaLogTest, TellsThatItMayNotUseTheTopic) {
  const auto log = brokers_.Open();
  AppendAtLast(log.get(), "0");
  EXPECT_EQ(BytesAt(log.get(), 0), "0");
  brokers_.FailNext(MockBrokers::kProduce, {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  auto appended = log->Append("1");
  EXPECT_TRUE(absl::IsPermissionDenied(appended.status())) << appended.status();
  // The client asks for the state of the topic once a second.
  for (int i = 0; i < 50 && !appended.ok(); ++i) appended = log->Append("1");
  ASSERT_TRUE(appended.ok()) << appended.status();
  EXPECT_EQ(BytesAt(log.get(), *appended), "1");
  // A single error is sometimes not reported by librdkafka.
  auto read = log->Read(*appended + 1);
  for (int i = 0; i < 30 && read.ok(); ++i) {
    if (i % 5 == 0) {
      brokers_.FailNext(MockBrokers::kFetch, {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
    }
    read = log->Read(*appended + 1);
  }
  EXPECT_TRUE(absl::IsPermissionDenied(read.status())) << read.status();
  EXPECT_EQ(BytesAt(log.get(), *appended), "1");
}

TEST_F(KafkaLogTest, AnAppendWithoutAReportEnds) {
  KafkaOptions options = brokers_.options();
  options.call_timeout_ms = 300;
  const auto log = MockBrokers::Open(options);
  AppendAtLast(log.get(), "a");
  brokers_.SetDelay(1, 2'000);
  const uint64_t start = base::ReadMicros();
  const auto appended = log->Append("b");
  EXPECT_TRUE(MayTryAgain(appended.status())) << appended.status();
  EXPECT_LE(MillisSince(start), 2'500u);
  brokers_.SetDelay(1, 0);
  const uint64_t offset = AppendAtLast(log.get(), "c");
  EXPECT_EQ(BytesAt(log.get(), offset), "c");
}

TEST_F(KafkaLogTest, TooLargeAnEntryIsRefusedAndTheLargestIsNot) {
  KafkaOptions options = brokers_.options();
  options.entry_bytes_max = 3'000'000;
  const auto log = MockBrokers::Open(options);
  std::mt19937_64 random(1);
  // Not to be compressed.
  std::string bytes(options.entry_bytes_max, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  const uint64_t offset = AppendAtLast(log.get(), bytes);
  EXPECT_EQ(BytesAt(log.get(), offset), bytes);
  const auto appended = log->Append(bytes + "x");
  EXPECT_TRUE(absl::IsInvalidArgument(appended.status())) << appended.status();
  EXPECT_EQ(*log->End(), offset + 1);
}

TEST_F(KafkaLogTest, SaysThatTheLogBeginsLater) {
  const auto log = brokers_.Open();
  std::mt19937_64 random(1);
  std::string bytes(900'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  // The brokers in memory keep 5 MiB.
  for (int i = 0; i < 10; ++i) AppendAtLast(log.get(), bytes);
  auto read = log->Read(0);
  for (int i = 0; i < 50 && read.ok() && !read->has_value(); ++i) read = log->Read(0);
  EXPECT_TRUE(absl::IsOutOfRange(read.status())) << read.status();
  EXPECT_EQ(BytesAt(log.get(), 9), bytes);
}

TEST_F(KafkaLogTest, FollowsThePartitionToItsNextLeader) {
  const auto log = brokers_.Open();
  for (uint64_t i = 0; i < 9; ++i) {
    brokers_.SetLeader(static_cast<int>(i % 3) + 1);
    const uint64_t start = base::ReadMicros();
    EXPECT_EQ(AppendAtLast(log.get(), std::to_string(i)), i);
    EXPECT_EQ(BytesAt(log.get(), i), std::to_string(i));
    EXPECT_LE(MillisSince(start), 5'000u);
    auto end = log->End();
    for (int tries = 0; tries < 30 && !end.ok(); ++tries) end = log->End();
    EXPECT_EQ(*end, i + 1);
  }
}

TEST_F(KafkaLogTest, OutlivesItsBrokers) {
  KafkaOptions options = brokers_.options();
  options.call_timeout_ms = 500;
  const auto log = MockBrokers::Open(options);
  AppendAtLast(log.get(), "0");
  EXPECT_EQ(BytesAt(log.get(), 0), "0");
  for (const int broker : {1, 2, 3}) brokers_.SetDown(broker);
  const auto appended = log->Append("lost");
  EXPECT_TRUE(MayTryAgain(appended.status())) << appended.status();
  const auto end = log->End();
  EXPECT_TRUE(MayTryAgain(end.status())) << end.status();
  const auto read = log->Read(1);
  EXPECT_TRUE(read.ok() || MayTryAgain(read.status())) << read.status();
  for (const int broker : {1, 2, 3}) brokers_.SetUp(broker);
  const uint64_t offset = AppendAtLast(log.get(), "back");
  EXPECT_EQ(BytesAt(log.get(), offset), "back");
  EXPECT_EQ(BytesAt(log.get(), 0), "0");
}

TEST_F(KafkaLogTest, ReadsOnAfterErrors) {
  const auto log = brokers_.Open();
  for (int i = 0; i < 6; ++i) AppendAtLast(log.get(), std::to_string(i));
  EXPECT_EQ(BytesAt(log.get(), 0), "0");
  for (uint64_t i = 1; i < 6; ++i) {
    brokers_.FailNext(MockBrokers::kFetch,
                      {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                       RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, RD_KAFKA_RESP_ERR_UNKNOWN});
    // A jump, so that the entry is fetched again.
    EXPECT_EQ(BytesAt(log.get(), 0), "0");
    EXPECT_EQ(BytesAt(log.get(), i), std::to_string(i));
  }
}

TEST_F(KafkaLogTest, AFailedQuestionForTheEndMayBeAskedAgain) {
  const auto log = brokers_.Open();
  AppendAtLast(log.get(), "0");
  AppendAtLast(log.get(), "1");
  brokers_.FailNext(MockBrokers::kListOffsets, {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION});
  const auto failed = log->End();
  EXPECT_TRUE(MayTryAgain(failed.status())) << failed.status();
  EXPECT_EQ(*log->End(), 2u);
}

TEST_F(KafkaLogTest, RefusesBadOptions) {
  const KafkaOptions good = brokers_.options();
  const auto refused = [](const KafkaOptions& options, const char* text) {
    const auto log = KafkaLog::Open(options, [](absl::string_view) {});
    EXPECT_TRUE(absl::IsInvalidArgument(log.status())) << log.status();
    EXPECT_THAT(std::string(log.status().message()), HasSubstr(text));
  };
  KafkaOptions options = good;
  refused((options.brokers = "", options), "broker");
  options = good;
  refused((options.topic = "a b", options), "\"a b\"");
  options = good;
  refused((options.replicas = 0, options), "replicas");
  options = good;
  refused((options.entry_bytes_max = 0, options), "longest entry");
  options = good;
  refused((options.entry_bytes_max = 1'000'000'000, options), "longest entry");
  options = good;
  refused((options.call_timeout_ms = 299, options), "299 ms");
  options = good;
  refused((options.properties_file = "/nowhere/kafka.properties", options), "/nowhere");
}

TEST(KafkaLogWithoutBrokersTest, OpensAndSaysWhatIsWrong) {
  const KafkaOptions options = {.brokers = "127.0.0.1:1",
                                .topic = "cell",
                                .properties_file = "",
                                .entry_bytes_max = 1'000,
                                .call_timeout_ms = 500};
  const auto log = MockBrokers::Open(options);
  const uint64_t start = base::ReadMicros();
  const absl::Status checked = log->CheckTopic();
  EXPECT_TRUE(MayTryAgain(checked)) << checked;
  EXPECT_THAT(std::string(checked.message()), HasSubstr("Connection refused"));
  EXPECT_TRUE(MayTryAgain(log->End().status()));
  EXPECT_TRUE(MayTryAgain(log->Append("x").status()));
  EXPECT_LE(MillisSince(start), 6'000u);
}

}  // namespace
}  // namespace duetime::kafka
