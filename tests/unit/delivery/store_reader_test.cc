// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/store_reader.h"

#include "gtest/gtest.h"

#include "tests/support/test_store.h"

namespace duetime::delivery {
namespace {

constexpr storage::SubscriptionId kSubscription{7};
constexpr storage::MessageKey kKey{.due_ms = 5, .id = {.high = 1, .low = 1}};

class StoreReaderTest : public ::testing::Test {
 protected:
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  StoreReader reader_{0, &store_};
};

TEST_F(StoreReaderTest, ReadsWhatIsNotThere) {
  EXPECT_FALSE(reader_.Record(kKey)->has_value());
  EXPECT_TRUE(reader_.Progress(kKey)->empty());
  EXPECT_FALSE(reader_.Backlog(kSubscription, kKey)->has_value());
  EXPECT_TRUE(reader_.BacklogPage(kSubscription, {}, {.entries = 10})->items.empty());
  EXPECT_TRUE(reader_.ok());
}

TEST_F(StoreReaderTest, TheFirstErrorSticks) {
  store_.FailReads(absl::DataLossError("first"));
  EXPECT_FALSE(reader_.Record(kKey).ok());
  store_.FailReads(absl::DataLossError("second"));
  EXPECT_FALSE(reader_.Progress(kKey).ok());
  EXPECT_FALSE(reader_.Backlog(kSubscription, kKey).ok());
  EXPECT_FALSE(reader_.BacklogPage(kSubscription, {}, {.entries = 10}).ok());
  store_.FailReads(absl::OkStatus());
  EXPECT_TRUE(reader_.Record(kKey).ok());
  EXPECT_EQ(reader_.status().message(), "first");
}

TEST_F(StoreReaderTest, DamageDoesNotStick) {
  store_.FailReads(storage::DamageError({}));
  EXPECT_TRUE(storage::IsDamage(reader_.Record(kKey).status()));
  EXPECT_TRUE(storage::IsDamage(reader_.Progress(kKey).status()));
  EXPECT_TRUE(storage::IsDamage(reader_.Backlog(kSubscription, kKey).status()));
  EXPECT_TRUE(reader_.ok());
  // A change that is half done cannot go on.
  reader_.Fail(storage::DamageError({}));
  EXPECT_FALSE(reader_.ok());
}

TEST(ProgressRowsTest, FindsARowAndSaysIfItIsSettled) {
  const ProgressRows rows(
      {{kSubscription, {.state = storage::Progress::State::kSettled, .attempts = 2}},
       {storage::SubscriptionId{8}, {.state = storage::Progress::State::kFailed}}});
  ASSERT_NE(rows.Find(kSubscription), nullptr);
  EXPECT_EQ(rows.Find(kSubscription)->attempts, 2u);
  EXPECT_TRUE(rows.Settled(kSubscription));
  EXPECT_FALSE(rows.Settled(storage::SubscriptionId{8}));
  EXPECT_FALSE(rows.Settled(storage::SubscriptionId{9}));
  EXPECT_EQ(rows.Find(storage::SubscriptionId{9}), nullptr);
}

}  // namespace
}  // namespace duetime::delivery
